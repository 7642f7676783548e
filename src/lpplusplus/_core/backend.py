"""Numpy or torch: the only module that distinguishes between the two.

All other numeric code is written once, against the array-API namespace `xp` of its inputs and the three things that
numpy and torch share beyond that standard: `out=` arguments, in-place arithmetic and in-place indexing.
"""

from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import scipy.sparse

Array: TypeAlias = Any
"""A numpy array or a torch tensor; the array-API standard has no static type for 'either'."""

SMALL_TRIANGLE = 64
"""Matrices up to this order are factored by the library itself."""

_NUMPY = array_api_compat.array_namespace(np.empty(0))


def namespace(x: Array) -> Any:
    """Array-API namespace of `x`."""
    # Called many times per update: for a small task the general function would take a tenth of the fit.
    return _NUMPY if type(x) is np.ndarray else array_api_compat.array_namespace(x)


def is_foreign(x: object) -> bool:
    """Whether `x` is an array of another library than numpy (a torch tensor on any device)."""
    return array_api_compat.is_array_api_obj(x) and namespace(x) is not _NUMPY


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """`x` as a numpy array; tensors are detached and brought to the CPU."""
    if array_api_compat.is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    return np.asarray(x)


def detached(x: Array) -> Array:
    """`x` without its autograd history: nothing differentiates through a fit."""
    return x.detach() if array_api_compat.is_torch_array(x) else x


def like(x: Array, reference: Array, *, dtype: Any = None) -> Array:
    """`x` in the library and on the device of `reference`, copied only if necessary.

    Without `dtype`, `x` keeps its own.
    """
    xp = namespace(reference)
    if array_api_compat.is_torch_array(x) and not array_api_compat.is_torch_array(reference):
        x = to_numpy(x)
    if isinstance(x, np.ndarray) and not x.flags.writeable and array_api_compat.is_torch_array(reference):
        x = x.copy()  # Torch warns about tensors on read-only memory.
    return xp.asarray(x, dtype=dtype, device=array_api_compat.device(reference))


def working_dtype(x: Array) -> Any:
    """Precision to compute in: half precision becomes float32, whole numbers float64."""
    xp = namespace(x)
    if x.dtype.itemsize >= 8 or not xp.isdtype(x.dtype, "real floating"):
        return xp.float64
    return xp.float32


def wide_dtype(x: Array) -> Any:
    """Precision to accumulate in: float64, or float32 on devices without it."""
    if namespace(x) is _NUMPY:
        return np.float64
    return namespace(x).float32 if array_api_compat.device(x).type == "mps" else namespace(x).float64


def cast(x: Array, dtype: Any) -> Array:
    """`x` in `dtype`, itself if it already is."""
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


def empty(reference: Array, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """An uninitialised array, in the library and on the device of `reference`."""
    xp = namespace(reference)
    return xp.empty(shape, dtype=dtype or reference.dtype, device=array_api_compat.device(reference))


def zeros(reference: Array, shape: tuple[int, ...], *, dtype: Any = None) -> Array:
    """An array of zeros, in the library and on the device of `reference`."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=dtype or reference.dtype, device=array_api_compat.device(reference))


def arange(reference: Array, n: int) -> Array:
    """0 … n-1, in the library and on the device of `reference`."""
    return namespace(reference).arange(n, device=array_api_compat.device(reference))


def take_rows(x: Array, index: Array, out: Array) -> Array:
    """`x[index]`, in `out`."""
    if type(x) is np.ndarray:
        return np.take(x, index, axis=0, out=out, mode="clip")  # The usual mode would copy twice.
    return namespace(x).index_select(x, 0, index, out=out)


def repeat(x: Array, times: int) -> Array:
    """Each entry of `x`, (n,), that many times in a row."""
    return np.repeat(x, times) if type(x) is np.ndarray else x.repeat_interleave(times)


def copy(x: Array) -> Array:
    """A copy of `x` whose rows are contiguous, whatever the order of `x`.

    A copy in transposed order would make every later sum with arrays in the usual order ten times slower.
    """
    if type(x) is np.ndarray:
        return np.array(x, order="C")
    return x.clone(memory_format=namespace(x).contiguous_format)


def row_dots(a: Array, b: Array) -> Array:
    """a_i·b_i for each row i, (n,)."""
    if type(a) is np.ndarray:
        return np.einsum("ij,ij->i", a, b)
    # Used for all images: without an intermediate array as large as the images.
    linalg = namespace(a).linalg
    return linalg.vector_norm(a, axis=1) ** 2 if a is b else linalg.vecdot(a, b)


def squared_lengths(x: Array) -> Array:
    """‖x_i‖² for each row i, (n,); infinite if it is too large for this precision."""
    with np.errstate(over="ignore"):
        return row_dots(x, x)


def row_sums(x: Array) -> Array:
    """Σ_j x_ij for each row i, (n, 1)."""
    # As a product it takes numpy half the time, with the same accuracy.
    if type(x) is not np.ndarray:
        return x.sum(1, keepdim=True)
    with np.errstate(invalid="ignore"):  # OpenBLAS may read numbers behind a row, and raise the flag because of them.
        return (x @ np.ones(x.shape[1], x.dtype))[:, None]


def column_dots(a: Array, b: Array) -> Array:
    """Σ_i a_ij b_ij for each column j, (m,)."""
    # numpy's `vecdot` takes four times as long as `einsum`, torch's `einsum` a hundred times as long as `vecdot`.
    return np.einsum("ij,ij->j", a, b) if type(a) is np.ndarray else namespace(a).linalg.vecdot(a, b, axis=0)


def column_dots_(a: Array, b: Array) -> Array:
    """`column_dots` that may overwrite `a`, which saves an array of that size for tensors."""
    return np.einsum("ij,ij->j", a, b) if type(a) is np.ndarray else a.mul_(b).sum(0)


def unit_rows(x: Array) -> Array:
    """Rows of `x` scaled to length 1; zero rows stay zero. `x` itself if nothing changes."""
    xp = namespace(x)
    squares = squared_lengths(x)
    limits = xp.finfo(x.dtype)
    extreme = ~((squares < limits.max) & (squares > limits.smallest_normal / limits.eps))
    if bool(xp.any(extreme)):
        # Their squares overflow or underflow: scale the entries to the order of 1 first.
        top = xp.max(xp.abs(x), axis=1)
        x = x / xp.where(extreme & (top > 0), top, xp.ones_like(top))[:, None]
        squares = row_dots(x, x)
    # Rows of unit length up to rounding stay as they are: a copy of 16 000 x 1024 would be the largest array of a fit.
    off = xp.abs(squares - 1) > 16 * float(xp.finfo(x.dtype).eps)
    # With autograd they are divided, too: the gradient of x / |x| has no part along x.
    if not getattr(x, "requires_grad", False) and not bool(xp.any(off & (squares > 0))):
        return x
    return x * (1 / xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares))))[:, None]


def unit_vectors(x: Array) -> Array:
    """Vectors along the last axis of `x`, which has two axes or more, scaled to length 1; zero ones stay zero."""
    return unit_rows(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def sum_by_class(x: Array, y: Array, n_classes: int) -> Array:
    """Row k of the result is the sum of the rows of `x` whose label is k; (n_classes, D)."""
    if array_api_compat.is_numpy_array(x):
        ones = np.ones(len(y), dtype=x.dtype)
        one_hot = scipy.sparse.csr_array((ones, (y, np.arange(len(y)))), shape=(n_classes, len(y)))
        return one_hot @ x
    return zeros(x, (n_classes, x.shape[1])).index_add_(0, y, x)


def triangle_and_inverse(x: Array) -> tuple[Array, Array]:
    """The lower triangle L of x = L Lᵀ, and L⁻¹, by halves.

    Nearly all of the work is matrix products. numpy's own Cholesky factor takes four times as long at 512 x 512, and
    SciPy's blocks all other threads.
    """
    xp, n = namespace(x), x.shape[0]
    if n <= SMALL_TRIANGLE:
        triangle = xp.linalg.cholesky(x)
        return triangle, xp.linalg.inv(triangle)
    half = n // 2
    (left, above), triangle, inverse = triangle_and_inverse(x[:half, :half]), zeros(x, x.shape), zeros(x, x.shape)
    below = x[half:, :half] @ above.T
    right, last = triangle_and_inverse(x[half:, half:] - below @ below.T)
    triangle[:half, :half], triangle[half:, :half], triangle[half:, half:] = left, below, right
    inverse[:half, :half], inverse[half:, :half], inverse[half:, half:] = above, -(last @ (below @ above)), last
    return triangle, inverse


def largest(x: Array) -> float:
    """The largest absolute value of `x`."""
    return max(float(x.max()), -float(x.min()))
