"""The softmax (paper eq. 4): p_k = exp(l_k) / Σ_j exp(l_j), for logits of any size, written in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from . import backend
from .backend import Array

HARMLESS = 40.0
"""Logits below this in absolute value need no shift: float32 holds their exponentials and sums of a million of them."""


def softmax(z: Array, out: Array, factor: float = 1.0, bound: float | None = None) -> Array:
    """Write `factor` times the probabilities of each row of logits to `out`, which may be `z`.

    `bound`, if known, is a number that no logit exceeds in absolute value.

    Returns the log-normaliser ln Σ_j exp(l_j) of each row, (n, 1).

    >>> import numpy as np
    >>> z = np.log([[1.0, 3.0]])
    >>> _ = softmax(z, out=z)
    >>> z.round(6)
    array([[0.25, 0.75]])
    """
    xp = backend.namespace(z)
    if (backend.largest(z) if bound is None else bound) < HARMLESS:
        # The usual case: no shift, which saves a pass over the array.
        xp.exp(z, out=out)
        total = backend.row_sums(out)
        out *= factor / total
        return xp.log(total)
    lowest = -80.0 if z.dtype == xp.float32 else -700.0
    top = z.max()
    if z.min() - top < lowest:
        # Far-apart logits need a shift for each row, and a floor: e⁻⁸⁰ changes nothing, while the subnormal numbers
        # below e⁻⁸⁷ would make the next product fifty times slower.
        top = xp.max(z, axis=1, keepdims=True)
        xp.subtract(z, top, out=out)
        xp.clip(out, lowest, None, out=out)
    else:
        xp.subtract(z, top, out=out)
    xp.exp(out, out=out)
    total = backend.row_sums(out)
    out *= factor / total
    return top + xp.log(total)


def means_under_softmax(z: np.ndarray[Any, Any]) -> Callable[[float], np.ndarray[Any, Any]]:
    """A function of a scale of 0 or more: Σ_k p_k z_k for each row of logits, (n,), with p = softmax(scale z).

    >>> means_under_softmax(np.array([[0.0, 2.0]]))(0.0).tolist()
    [1.0]
    """
    below = z - z.max(axis=1, keepdims=True)

    def means(scale: float) -> np.ndarray[Any, Any]:
        powers = np.exp(scale * below)
        return np.asarray(np.einsum("ij,ij->i", powers, z) / powers.sum(axis=1))

    return means


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
