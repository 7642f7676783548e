"""Which form of the objective is cheaper, by counting floating-point operations; the loss of plain arrays (eq. 3)."""

from ..._core import backend
from ..._core.backend import Array, like
from ..._core.rows import is_remote
from ..metric import Metric
from .base import Coefficients, Objective, Point
from .primal import PrimalObjective
from .span import SpanObjective
from .support import Support

COLUMNS = 240
"""The eigenvectors of a Gram matrix cost as much as its product with this many columns."""


def form_on_weights(support: Support) -> type[Objective]:
    """The form in the coordinates of the weights."""
    return support.F.form if is_remote(support.F) else PrimalObjective


def best_form(support: Support, evaluations: int) -> type[Objective]:
    """The form that takes fewer operations for `evaluations` losses with gradients, the Gram matrix included.

    If other processes hold the images, there is no Gram matrix of all images, and the form is that on weights.

    >>> import numpy as np
    >>> few = Support(np.ones((10, 512)), np.arange(10), 10, None)
    >>> best_form(few, 300).__name__
    'SpanObjective'
    """
    n, d, k = support.size, support.dim, support.n_classes
    passes, across, images = evaluations * k + COLUMNS, 4 * n * d, 2 * n * n * d
    if isinstance(support.metric, Metric):
        few = support.metric.rows is not None
        across += 4 * n * d if few else 2 * d * d
        images += 2 * n * n * d if few else 2 * n * d * d
    # Includes products with the start and the text; the primal form needs no extra pass for these.
    span = passes * 2 * n * n + images + 4 * n * d * k
    return form_on_weights(support) if passes * across <= span or is_remote(support.F) else SpanObjective


def cost_of_evaluation(support: Support) -> float:
    """Operations of one loss with gradient, in the cheaper form."""
    n, d, k = support.size, support.dim, support.n_classes
    return 2.0 * n * k * min(2 * d, n)


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
) -> Coefficients:
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
    return Coefficients(result.w.T, result.alpha, result.intercept)  # type: ignore[union-attr]


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
    return objective, objective.at(Coefficients(W, alpha, intercept))
