"""Entropic optimal transport between uniform weights: Sinkhorn's iteration, for numpy and torch."""

from .._core import backend
from .._core.backend import Array

SMALLEST_EPSILON = 0.03
"""Costs are 1 - cosine, at most 2, and exp(-2/0.03) is still a normal number in single precision."""


def transport_plan(cost: Array, epsilon: float = 0.1, iterations: int = 100, tolerance: float = 1e-2) -> Array:
    """Plans that carry 1/L from each of L rows to 1/P in each of P columns, (…, L, P).

    Rows and columns of exp(-cost/ε) are scaled in turn, from ones, rows first, so that the columns' sums are exact. A
    problem is solved when its row factors change by less than `tolerance` on average. Each problem stops by itself, so
    that its plan does not depend on the others.

    Parameters
    ----------
    cost : (…, L, P) array
    epsilon
        Weight of the entropy.
    iterations, tolerance
        When to stop; with a tolerance of 0, after exactly `iterations`.

    Examples
    --------
    >>> import numpy as np
    >>> transport_plan(np.array([[0.0, 1.0], [1.0, 0.0]])).round(3)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    xp = backend.namespace(cost)
    kernel = xp.exp(-cost / epsilon)
    turned = xp.matrix_transpose(kernel)
    n_rows, n_columns = cost.shape[-2:]
    rows = xp.ones_like(cost[..., :1])
    columns = xp.ones_like(turned[..., :1])
    going = xp.ones_like(rows[..., :1, :], dtype=xp.bool)
    for _ in range(iterations):
        new = (1 / n_rows) / (kernel @ columns)
        change = xp.mean(xp.abs(new - rows), axis=-2, keepdims=True)
        rows = xp.where(going, new, rows)
        columns = xp.where(going, (1 / n_columns) / (turned @ rows), columns)
        going = going & (change >= tolerance)
        if not bool(xp.any(going)):
            break
    return rows * kernel * xp.matrix_transpose(columns)
