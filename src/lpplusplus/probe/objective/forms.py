"""Which form of the objective is cheaper, by counting floating-point operations."""

from .base import Objective
from .primal import PrimalObjective
from .span import SpanObjective
from .support import Support


def best_form(support: Support, evaluations: int) -> type[Objective]:
    """The form that takes fewer operations for `evaluations` losses with gradients, the Gram matrix included.

    >>> import numpy as np
    >>> few = Support(np.ones((10, 512)), np.arange(10), 10, None)
    >>> best_form(few, 300).__name__
    'SpanObjective'
    """
    n, d, k = support.size, support.dim, support.n_classes
    primal = evaluations * 4 * n * d * k
    # Products with the start and the text, which the primal form needs no extra pass for.
    span = evaluations * 2 * n * n * k + 2 * n * n * d + 4 * n * d * k
    return PrimalObjective if primal <= span else SpanObjective


def cost_of_evaluation(support: Support) -> float:
    """Operations of one loss with gradient, in the cheaper form."""
    n, d, k = support.size, support.dim, support.n_classes
    return 2.0 * n * k * min(2 * d, n)
