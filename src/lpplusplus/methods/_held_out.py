"""Choosing a setting by accuracy or log-loss on images that the fit has not seen."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.history import History
from .._core.softmax import softmax

Setting = TypeVar("Setting")


HALVINGS = range(-1, 9)
"""Range of powers of 1/2 to search for the scale of logits."""


def log_loss(z: Array, y: Array) -> float:
    """Mean of -ln p of the right class, from logits."""
    own = z[backend.arange(z, z.shape[0]), y]
    total = softmax(z, out=backend.empty(z, tuple(z.shape)))
    return float(backend.namespace(z).mean(total[:, 0] - own))


def scaled_log_loss(z: Array, y: Array) -> float:
    """The lowest `log_loss` of z / 2^j. The scale changes no prediction, so it should not influence the choice.

    The loss is convex in the scale: the first j after which it rises is the best.
    """
    best = math.inf
    for j in HALVINGS:
        loss = log_loss(z / 2.0**j, y)
        if loss > best:
            break
        best = loss
    return best


def choose(
    settings: Sequence[Setting], logits: Callable[[Setting], Array], y: Array, history: History, *, by_accuracy: bool
) -> Setting:
    """The setting with the highest accuracy (ties: the lowest log-loss), or with the lowest log-loss.

    Published recipes choose by accuracy on validation images. Left-out images of the support are few, and log-loss says
    more about few images. It is measured at the best scale of the logits. The first of equals wins. `history` gets a
    row per setting, in their order.
    """
    found = []
    for setting in settings:
        z = logits(setting)
        accuracy = float(np.mean(backend.to_numpy(z.argmax(1) == y)))
        found.append((-accuracy if by_accuracy else 0.0, scaled_log_loss(z, y)))
        history.add(held_out_accuracy=accuracy, held_out_loss=found[-1][1])
    return settings[min(range(len(found)), key=found.__getitem__)]
