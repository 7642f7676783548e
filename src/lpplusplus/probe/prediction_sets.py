"""Prediction sets: for each image a set of classes that contains the right one as often as asked.

Conformal prediction with the M held-out images of `held_out`: a class is in an image's set if its loss, -ln p, is at
most the k-th smallest loss of the held-out images, k = (M + 1) coverage. If k is not a whole number, the limit is
interpolated between two losses, so that the expected coverage is the one asked for. The usual rule takes the larger of
the two losses: the coverage is then higher, for example 92.3 % instead of 90 % with 38 images.
"""

import math
from typing import Any

import numpy as np

from .._core import backend
from .._core.backend import Array


def largest_loss(losses: np.ndarray[Any, Any], coverage: float) -> float:
    """The loss up to which a class belongs to a set; infinite if there are too few held-out images to exclude any.

    >>> largest_loss(np.arange(9.0), 0.8), largest_loss(np.arange(9.0), 0.75), largest_loss(np.arange(9.0), 0.95)
    (7.0, 6.5, inf)
    """
    images = len(losses)
    rank = round((images + 1) * coverage, 9)
    return float(np.interp(rank, np.arange(1, images + 1), np.sort(losses))) if rank <= images else math.inf


def sets_of(logits: Array, limit: float) -> Array:
    """Which classes have a loss of at most `limit`, (n, K).

    >>> sets_of(np.log([[0.7, 0.2, 0.1]]), -np.log(0.15)).tolist()
    [[True, True, False]]
    """
    xp = backend.namespace(logits)
    z = logits - xp.max(logits, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(z), axis=1, keepdims=True)) - z <= limit
