"""Loss and gradients of LP++. The conventions stand in `base`; `primal` and `span` are its two exact forms."""

from __future__ import annotations

from .. import _arrays
from .._arrays import Array, like
from .base import Evaluation, Objective, Point, Support, Watch, Weights, rows_per_chunk
from .primal import PrimalObjective
from .span import SpanObjective

__all__ = [
    "Evaluation",
    "Objective",
    "Point",
    "PrimalObjective",
    "SpanObjective",
    "Support",
    "Watch",
    "Weights",
    "best_form",
    "cost_of_evaluation",
    "gradients",
    "loss",
    "rows_per_chunk",
]


def best_form(support: Support, evaluations: int) -> type[Objective]:
    """The form that takes fewer operations for a run of `evaluations`, counting the Gram matrix as work to do.

    >>> import numpy as np
    >>> few = Support.of(np.ones((10, 512)), np.arange(10), 10, None)
    >>> best_form(few, 300).__name__
    'SpanObjective'
    """
    n, d, k = support.size, support.dim, support.n_classes
    primal = evaluations * 4 * n * d * k
    gram = 2 * n * n * d if support.gram_of_all is None else 0
    # Products with the start and the text, which `primal` takes along for nothing.
    span = evaluations * 2 * n * n * k + gram + 4 * n * d * k
    return PrimalObjective if primal <= span else SpanObjective


def cost_of_evaluation(support: Support) -> float:
    """Floating-point operations of one loss and gradient, in the cheaper form."""
    n, d, k = support.size, support.dim, support.n_classes
    return 2.0 * n * k * min(2 * d, n)


def loss(
    F: Array,
    y: Array,
    W: Array,
    alpha: Array | None = None,
    text: Array | None = None,
    intercept: Array | None = None,
) -> float:
    """Mean cross-entropy of softmax(F (W + α∘text)ᵀ + intercept) at labels `y` (paper eq. 4).

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
    F: Array,
    y: Array,
    W: Array,
    alpha: Array | None = None,
    text: Array | None = None,
    intercept: Array | None = None,
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
    F: Array,
    y: Array,
    W: Array,
    alpha: Array | None,
    text: Array | None,
    intercept: Array | None,
) -> tuple[PrimalObjective, Point]:
    if (alpha is None) != (text is None):
        raise ValueError("alpha and text belong together: give both or neither")
    F, y, n_classes = _arrays.cast(F, _arrays.working_dtype(F)), like(y, F), W.shape[0]
    if bool(((y < 0) | (y >= n_classes)).any()):
        raise ValueError(f"y has labels from {int(y.min())} to {int(y.max())}, but W has {n_classes} rows, 0 to K - 1")
    text, alpha, intercept, W = (None if x is None else like(x, F, dtype=F.dtype) for x in (text, alpha, intercept, W))
    objective = PrimalObjective(Support.of(F, y, n_classes, text), freeze=False)
    return objective, objective.at(Weights(W, alpha, intercept))
