"""Which form of the objective is cheaper, by counting floating-point operations."""

from ..._core.rows import is_scattered
from .base import Objective
from .primal import PrimalObjective
from .scattered import ScatteredObjective
from .span import SpanObjective
from .support import Support

COLUMNS = 240
"""The eigenvectors of a Gram matrix cost as much as its product with this many columns."""


def form_on_weights(support: Support) -> type[Objective]:
    """The form in the coordinates of the weights."""
    return ScatteredObjective if is_scattered(support.F) else PrimalObjective


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
    if support.metric is not None:
        few = support.metric.rows is not None
        across += 4 * n * d if few else 2 * d * d
        images += 2 * n * n * d if few else 2 * n * d * d
    # Includes products with the start and the text; the primal form needs no extra pass for these.
    span = passes * 2 * n * n + images + 4 * n * d * k
    return form_on_weights(support) if passes * across <= span or is_scattered(support.F) else SpanObjective


def cost_of_evaluation(support: Support) -> float:
    """Operations of one loss with gradient, in the cheaper form."""
    n, d, k = support.size, support.dim, support.n_classes
    return 2.0 * n * k * min(2 * d, n)
