"""Prediction sets: all classes that an image may well have, so many that the right one is among them as often as asked.

Conformal prediction with the held-out images of `held_out`: a class is in an image's set if its loss, -ln p, is at most
that of the held-out images' k-th smallest, k = ⌈(M + 1) coverage⌉.
"""

import math
from typing import Any

import numpy as np

from .._core import backend
from .._core.backend import Array


def largest_loss(losses: np.ndarray[Any, Any], coverage: float) -> float:
    """The loss up to which a class belongs to a set; infinite where there are too few held-out images to exclude any.

    >>> largest_loss(np.arange(9.0), 0.8), largest_loss(np.arange(9.0), 0.95)
    (7.0, inf)
    """
    place = math.ceil((len(losses) + 1) * coverage - 1e-9)
    return float(np.sort(losses)[place - 1]) if place <= len(losses) else math.inf


def sets_of(logits: Array, limit: float) -> Array:
    """Which classes have a loss of at most `limit`, (n, K).

    >>> sets_of(np.log([[0.7, 0.2, 0.1]]), -np.log(0.15)).tolist()
    [[True, True, False]]
    """
    xp = backend.namespace(logits)
    z = logits - xp.max(logits, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(z), axis=1, keepdims=True)) - z <= limit
