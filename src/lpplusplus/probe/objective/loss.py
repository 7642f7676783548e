"""The loss of LP++ (paper eq. 3) and its gradients as functions of plain arrays."""

from ..._core import backend
from ..._core.backend import Array, like
from .point import Point, Weights
from .primal import PrimalObjective
from .support import Support


def loss(
    F: Array, y: Array, W: Array, alpha: Array | None = None, text: Array | None = None, intercept: Array | None = None
) -> float:
    """Mean cross-entropy of softmax(F (W + α∘text)ᵀ + intercept) at labels `y` (paper eq. 3).

    Parameters
    ----------
    F : (N, D) array
        Image embeddings, used as they are.
    y : (N,) integer array
        Class indices.
    W : (K, D) array
        Visual prototypes.
    alpha, text : (K,) and (K, D) arrays, optional
        Text weights and class-name embeddings; give both or neither.
    intercept : (K,) array, optional

    Examples
    --------
    >>> import numpy as np
    >>> round(loss(np.eye(2), np.array([0, 1]), np.zeros((2, 2))), 4)  # ln 2: nothing known
    0.6931
    """
    objective, point = _at(F, y, W, alpha, text, intercept)
    return objective.evaluate(point).loss


def gradients(
    F: Array, y: Array, W: Array, alpha: Array | None = None, text: Array | None = None, intercept: Array | None = None
) -> Weights:
    """Gradients of `loss` with respect to `W`, `alpha` and `intercept`; None for a block that is not there.

    Examples
    --------
    >>> import numpy as np
    >>> gradients(np.eye(2), np.array([0, 1]), np.zeros((2, 2))).W
    array([[-0.25,  0.25],
           [ 0.25, -0.25]])
    """
    objective, point = _at(F, y, W, alpha, text, intercept)
    result = objective.evaluate(point, w=True, alpha=text is not None)
    return Weights(result.w.T, result.alpha, result.intercept)  # type: ignore[union-attr]


def _at(
    F: Array, y: Array, W: Array, alpha: Array | None, text: Array | None, intercept: Array | None
) -> tuple[PrimalObjective, Point]:
    if (alpha is None) != (text is None):
        raise ValueError("alpha and text belong together: give both or neither")
    F, y, n_classes = backend.cast(F, backend.working_dtype(F)), like(y, F), W.shape[0]
    if bool(((y < 0) | (y >= n_classes)).any()):
        raise ValueError(f"y has labels from {int(y.min())} to {int(y.max())}, but W has {n_classes} rows, 0 to K - 1")
    text, alpha, intercept, W = (None if x is None else like(x, F, dtype=F.dtype) for x in (text, alpha, intercept, W))
    objective = PrimalObjective(Support(F, y, n_classes, text), freeze=False)
    return objective, objective.at(Weights(W, alpha, intercept))
