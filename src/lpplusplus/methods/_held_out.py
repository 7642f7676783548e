"""Choosing a setting by how images are classified that the fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.history import History
from .._core.softmax import softmax

Setting = TypeVar("Setting")


def log_loss(z: Array, y: Array) -> float:
    """Mean of -ln p of the right class, from logits."""
    own = z[backend.arange(z, z.shape[0]), y]
    total = softmax(z, out=backend.empty(z, tuple(z.shape)))
    return float(backend.namespace(z).mean(total[:, 0] - own))


def choose(
    settings: Sequence[Setting], logits: Callable[[Setting], Array], y: Array, history: History, *, by_accuracy: bool
) -> Setting:
    """The setting with the highest accuracy, of equals the lowest log-loss; or with the lowest log-loss alone.

    Accuracy is what published recipes choose by, on validation images. Left-out images of the support are few: their
    log-loss tells more. The first of equals wins. `history` gets a row per setting, in their order.
    """
    found = []
    for setting in settings:
        z = logits(setting)
        accuracy = float(np.mean(backend.to_numpy(z.argmax(1) == y)))
        found.append((-accuracy if by_accuracy else 0.0, log_loss(z, y)))
        history.add(held_out_accuracy=accuracy, held_out_loss=found[-1][1])
    return settings[min(range(len(found)), key=found.__getitem__)]
