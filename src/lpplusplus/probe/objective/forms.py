"""Which form of the objective is cheaper, by counting floating-point operations."""

from ..._core.rows import is_scattered
from .base import Objective
from .primal import PrimalObjective
from .scattered import ScatteredObjective
from .span import SpanObjective
from .support import Support


def form_on_weights(support: Support) -> type[Objective]:
    """The form in the coordinates of the weights."""
    return ScatteredObjective if is_scattered(support.F) else PrimalObjective


def best_form(support: Support, evaluations: int) -> type[Objective]:
    """The form that takes fewer operations for `evaluations` losses with gradients, the Gram matrix included.

    Of images that other processes hold, products with all others are out of reach.

    >>> import numpy as np
    >>> few = Support(np.ones((10, 512)), np.arange(10), 10, None)
    >>> best_form(few, 300).__name__
    'SpanObjective'
    """
    n, d, k = support.size, support.dim, support.n_classes
    primal = evaluations * 4 * n * d * k
    # Products with the start and the text, which the primal form needs no extra pass for.
    span = evaluations * 2 * n * n * k + 2 * n * n * d + 4 * n * d * k
    return form_on_weights(support) if primal <= span or is_scattered(support.F) else SpanObjective


def cost_of_evaluation(support: Support) -> float:
    """Operations of one loss with gradient, in the cheaper form."""
    n, d, k = support.size, support.dim, support.n_classes
    return 2.0 * n * k * min(2 * d, n)
