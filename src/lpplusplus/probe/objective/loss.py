"""The loss of LP++ (paper eq. 3) and its residual, for blocks of logits, computed in place."""

from ..._core import backend
from ..._core.backend import Array
from ..._core.softmax import softmax


def own_entries(y: Array, n_classes: int) -> Array:
    """Positions of the right classes' entries in a flattened (n, K) array."""
    return backend.arange(y, y.shape[0]) * n_classes + y


def cross_entropy(z: Array, own: Array, out: Array, factor: float = 1.0, bound: float | None = None) -> Array:
    """-ln p of the right class for each row of logits; `factor` times the probabilities go to `out`, which may be `z`.

    `own` comes from `own_entries`; `bound` is `softmax`'s.
    """
    chosen = z.reshape(-1)[own]
    return softmax(z, out, factor, bound)[:, 0] - chosen


def residual(
    z: Array, own: Array, out: Array, factor: float = 1.0, bound: float | None = None, roots: Array | None = None
) -> float:
    """Sum of the rows' losses; `factor` times R = P - Y goes to `out`, which may be `z`.

    With `roots`, rows have weights: losses count ω_i times, and the rows of R are multiplied by √ω_i.
    """
    losses = cross_entropy(z, own, out, factor, bound)
    out.reshape(-1)[own] -= factor
    if roots is not None:
        losses *= roots**2
        out *= roots[:, None]
    return float(losses.sum(dtype=backend.wide_dtype(z)))


def sum_of_kappa(r: Array, roots: Array | None = None) -> Array:
    """Σ_i p_ik (1 - p_ik) for each class from R = P - Y: it is |r| - r², for the true class and for the others."""
    xp = backend.namespace(r)
    sizes = xp.abs(r) if roots is None else xp.abs(r) * roots[:, None]
    return xp.sum(sizes, axis=0) - backend.column_dots(r, r)
