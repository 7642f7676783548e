"""The zero of a function of one number."""

from collections.abc import Callable

import scipy.optimize


def zero_of(function: Callable[[float], float], low: float, high: float, *, precision: float) -> float:
    """Brent's method, between two arguments where the function has different signs.

    SciPy's own would keep the function's data in memory, such as all logits of a fit, until a garbage collection.

    >>> round(zero_of(lambda x: x * x - 2, 0.0, 2.0, precision=1e-9), 6)
    1.414214
    """
    held = [function]
    try:
        return float(scipy.optimize.brentq(lambda x: held[0](x), low, high, xtol=precision))
    finally:
        held.clear()
