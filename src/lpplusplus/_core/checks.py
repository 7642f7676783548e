"""Checks of single inputs. Every message names the array, the row if there is one, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.utils import check_array, column_or_1d

from . import backend
from .backend import Array
from .rows import Rows, everywhere, is_remote, parts

if TYPE_CHECKING:
    from .task import Task

PRECISIONS = ("float16", "float32", "float64")
"""In which embeddings are kept, in memory and in files."""
SKIPPED = {
    "ensure_all_finite": False,
    "ensure_min_samples": 0,
    "ensure_min_features": 0,
    "ensure_2d": False,
    "allow_nd": True,
}
"""What scikit-learn need not check: our own errors name the array, the row and the remedy."""


def check_dense(X: Any, name: str) -> None:
    """Raise for a tensor that does not hold its numbers row by row."""
    if getattr(X, "is_meta", False):
        raise ValueError(f"{name} is on torch's device 'meta', which has shapes and no numbers: load them first.")
    if str(getattr(X, "layout", "torch.strided")) != "torch.strided":
        raise TypeError(
            f"Sparse data was passed for {name} ({X.layout}), but dense data is required: {name}.to_dense()."
        )


def check_numbers(X: Any, name: str) -> None:
    """Raise for sparse tensors and those without content, for complex numbers and for strings."""
    check_dense(X, name)
    if "complex" in str(getattr(X, "dtype", "")):
        raise ValueError(f"{name}: Complex data not supported. Pass {name}.real if the imaginary part is empty.")
    is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1)
    first = X[0] if is_list and len(X) else None
    if isinstance(first, str | bytes):
        raise ValueError(
            f"{name} holds words ({first!r} comes first) where embeddings belong: embed them with the model that the "
            f"images were embedded with, and pass one row of numbers for each."
        )


def storable(X: Any) -> Array:
    """`X` in its own precision, if a file can hold it; else in working precision."""
    X = backend.detached(X) if backend.is_foreign(X) else np.asarray(X)
    known = str(X.dtype).rpartition(".")[2] in PRECISIONS
    return X if known else backend.cast(X, backend.working_dtype(X))


def check_rows(X: Any, name: str, *, dim: int | None = None) -> Array:
    """`X` as a two-dimensional finite array, in its own precision if that is one of `PRECISIONS`; never changed.

    Lists and data frames become numpy arrays; a tensor stays a tensor on its device.
    """
    check_numbers(X, name)
    X = backend.detached(X) if backend.is_foreign(X) else check_array(X, dtype="numeric", input_name=name, **SKIPPED)
    if X.ndim != 2:
        remedies = {
            1: f"{name}[None, :] makes one embedding a batch of one",
            3: f"{name}.mean(axis=1) makes several views of an image one embedding",
        }
        remedy = remedies.get(X.ndim, "a row for each image, a column for each dimension of its embedding")
        raise ValueError(
            f"{name} has {X.ndim} dimension(s) but must have 2, (images, embedding). Reshape your data: {remedy}."
        )
    for size, what in zip(X.shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            raise ValueError(
                f"{name} is empty: it has 0 {what} (shape={tuple(X.shape)}) while a minimum of 1 is required: "
                f"a row for each image, a column for each dimension of its embedding."
            )
    if dim is not None and X.shape[1] != dim:
        scaled = " A scaler or PCA before the classifier changes images only: leave it out." if "text" in name else ""
        raise ValueError(
            f"{name} has {X.shape[1]} columns but the images have {dim}: embed both with the same model.{scaled}"
        )
    check_finite(X, name)
    return storable(X)


def _by_parts(check: Callable[[Array, str], None]) -> Callable[[Array | Rows, str], None]:
    """A check of rows; those of a file are checked block by block."""

    @wraps(check)
    def checked(X: Array | Rows, name: str) -> None:
        if not isinstance(X, Rows):
            check(X, name)
        elif is_remote(X):
            list(X.each(checked, name=name))
        else:
            for rows in X.blocks():
                check(X[rows, :], f"{name}[{X.first + rows.start}:{X.first + rows.stop}]")

    return checked


@_by_parts
def check_finite(X: Array, name: str) -> None:
    """Raise for the first row with NaN or infinity."""
    xp = backend.namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        return
    with np.errstate(invalid="ignore", over="ignore"):
        total = xp.sum(X)
    if bool(xp.isfinite(total)):
        return  # If the sum is finite, all terms are. If not, there is a bad term, or the sum overflows.
    row, in_all = _first(~xp.all(xp.isfinite(X), axis=1))
    if in_all:
        kind = "NaN" if bool(xp.any(xp.isnan(X[row, :]))) else "infinity (inf)"
        raise ValueError(
            f"{name} contains {kind} in row {row} ({in_all} such row(s) in all): remove these rows, or embed them "
            f"again; half-precision encoders overflow to infinity."
        )


@_by_parts
def check_no_zero_rows(X: Array, name: str) -> None:
    """Raise for the first row that is zero; if a row has several embeddings, for the first with any zero one."""
    xp = backend.namespace(X)
    zero = ~xp.any(X != 0, axis=-1)
    if zero.ndim > 1:
        zero = xp.any(zero.reshape(zero.shape[0], -1), axis=1)
    row, in_all = _first(zero)
    if in_all:
        raise ValueError(
            f"{name} is zero throughout row {row} ({in_all} such row(s) in all): a zero embedding has no direction to "
            f"compare with text. Remove the row or embed it again."
        )


@_by_parts
def check_lengths(X: Array, name: str) -> None:
    """Raise for the first row whose squared length overflows."""
    row, in_all = _first(~backend.namespace(X).isfinite(backend.squared_lengths(X)))
    if in_all:
        raise ValueError(
            f"{name} has numbers in row {row} whose squares are too large for {X.dtype} ({in_all} such row(s) in all): "
            f"scale the embeddings down, or leave normalize=False out."
        )


def check_scale(X: Array | Rows, name: str) -> None:
    """Raise if products of embeddings, which are not scaled to length 1, may leave the range of their precision.

    >>> check_scale(np.ones((2, 3), np.float32), "X")
    """
    length = (sum(everywhere(X, _sum_of_squares)) / X.shape[0]) ** 0.5
    most = (float(backend.namespace(X).finfo(X.dtype).max) * 2.0**-32) ** 0.5
    if length > 0 and not 1 / most <= length <= most:
        raise ValueError(
            f"{name} has embeddings of length {length:.2g}, too {'short' if length < 1 else 'long'} for products in "
            f"{X.dtype}: multiply them by a number that gives them a length of about 1, or leave normalize=False out."
        )


def _sum_of_squares(X: Array | Rows) -> float:
    wide = backend.wide_dtype(X)
    return sum(float(backend.squared_lengths(backend.cast(X[rows, :], wide)).sum()) for rows in parts(X))


def _first(bad: Array) -> tuple[int, int]:
    """The first row that is bad, and how many are."""
    xp = backend.namespace(bad)
    return int(xp.argmax(backend.cast(bad, xp.int8))), int(xp.count_nonzero(bad))


def check_labels(y: Any, name: str, n_rows: int) -> np.ndarray[Any, Any]:
    """`y` as a one-dimensional numpy array of labels of any kind; an iterator or the values of a dictionary, too."""
    if isinstance(y, Iterable) and not hasattr(y, "__getitem__"):
        y = list(y)
    check_dense(y, name)
    _check_one_kind(y, name)
    if backend.is_foreign(y):
        y = backend.to_numpy(y)
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f":
        # scikit-learn's own check also warns about few images per class, which are normal here.
        odd = np.flatnonzero(~np.isfinite(y) | (y != np.floor(y)))
        if odd.size:
            raise ValueError(
                f"Unknown label type: continuous. {name} has {y[odd[0]]!r} in row {odd[0]}; labels must be strings, "
                f"whole numbers or booleans."
            )
    if y.dtype.kind == "O":
        _check_comparable(y, name)
    if len(y) != n_rows:
        raise ValueError(f"{name} has {len(y)} labels for {n_rows} rows: they must be of the same length.")
    return np.asarray(y)


def _check_one_kind(y: Any, name: str) -> None:
    """Raise for a list that mixes numbers with strings (numpy would make all strings) or with booleans."""
    if not isinstance(y, list | tuple):
        return
    for kind in (str, bool | np.bool_):
        of_kind = [isinstance(label, kind) for label in y]
        if any(of_kind) and not all(of_kind):
            _refuse_mixture(y, name, of_kind.index(not of_kind[0]))


def _refuse_mixture(y: Any, name: str, row: int) -> NoReturn:
    raise ValueError(
        f"{name} mixes labels of different types: {y[0]!r} in row 0, {y[row]!r} in row {row}. Make all of them "
        f"strings, all of them numbers or all of them booleans."
    )


def _check_comparable(y: np.ndarray[Any, Any], name: str) -> None:
    """Raise for labels that are missing, or that cannot be sorted."""
    for row, label in enumerate(y):
        if _is_missing(label):
            raise ValueError(
                f"{name} has no label in row {row} ({label!r}): remove the rows without a label, or give them one."
            )
    try:
        np.unique(y)
    except TypeError:
        _refuse_mixture(y, name, next(i for i, label in enumerate(y) if type(label) is not type(y[0])))


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor different.
        return True


def check_classes(classes: Any, y: np.ndarray[Any, Any], text: Any) -> np.ndarray[Any, Any]:
    """The classes in the order of `text`, as `class_prompts.read_text` gives it: as given, or the sorted labels."""
    if classes is None:
        labels = np.unique(y)
    else:
        _check_one_kind(classes, "classes")
        labels = np.array(backend.to_numpy(classes) if backend.is_foreign(classes) else classes)
        if labels.ndim != 1 or len(set(labels.tolist())) != len(labels):
            raise ValueError("classes must be a flat list of labels, each named once.")
    if text is not None:
        _check_count(text, labels, named=classes is not None)
    if len(labels) < 2:
        raise ValueError(
            f"y has {len(labels)} class ({some(labels)}): a classifier needs at least 2 classes. Name the others with "
            f"classes=[...] and text= if they have no examples yet."
        )
    return labels


def _check_count(text: Any, labels: np.ndarray[Any, Any], *, named: bool) -> None:
    """Raise unless every class has text."""
    shape = (len(text), 1) if isinstance(text, list) else tuple(text.shape)
    if shape[-2] == len(labels):
        return
    if len(shape) == 3 and shape[0] == len(labels):
        raise ValueError(
            f"text has shape {shape} for {len(labels)} classes: prompts come first, (prompts, classes, dimensions). "
            f"Pass list(text), a list with the prompts of each class, or text.swapaxes(0, 1)."
        )
    if named:
        raise ValueError(f"text has {shape[-2]} rows for {len(labels)} classes: give one row per class.")
    raise ValueError(
        f"text has {shape[-2]} rows but y has {len(labels)} different labels ({some(labels)}). Row k of text must "
        f"belong to class k of the sorted labels; name the classes with classes=[...] if some have no examples or the "
        f"order differs."
    )


def encode_labels(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Index of each label among `classes`."""
    position = {label: index for index, label in enumerate(classes.tolist())}
    try:
        return np.array([position[label] for label in y.tolist()], dtype=np.int64)
    except KeyError:
        row = next(i for i, label in enumerate(y.tolist()) if label not in position)
        raise ValueError(
            f"{name} has the unknown label {some(y[row : row + 1])} in row {row}; the classes are {some(classes)}. "
            f"Remove these rows or name the class in classes=[...].{of_sklearn(y, classes)}"
        ) from None


def check_every_class_has_examples(task: Task, classes: np.ndarray[Any, Any], remedy: str = "pass text=") -> None:
    """Raise for a class that nothing is known about: no example, and no text in use."""
    missing = np.setdiff1d(np.arange(task.n_classes), backend.to_numpy(task.y))
    if missing.size:
        raise ValueError(
            f"class {some(classes[missing[:1]])} has neither examples nor text ({missing.size} such class(es) in "
            f"all): remove it from classes=, or {remedy}."
        )


def of_sklearn(y: np.ndarray[Any, Any], names: Iterable[object]) -> str:
    """A remedy for an error, where scikit-learn's tools may have replaced labels by the numbers of their classes."""
    if y.dtype.kind not in "iu" or not all(isinstance(name, str) for name in names):
        return ""
    return (
        " Some of scikit-learn's tools (VotingClassifier, BaggingClassifier, CalibratedClassifierCV, "
        "cross_val_predict) replace labels by 0, 1, … in sorted order: with them leave classes out, and give text as "
        "an array whose rows are in that order."
    )


def some(labels: Iterable[object]) -> str:
    """The first few labels, for a message."""
    shown = [repr(label.item() if isinstance(label, np.generic) else label) for label in labels]
    return ", ".join(shown[:5]) + (f", … {len(shown)} in all" if len(shown) > 5 else "")
