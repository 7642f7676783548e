"""How long and how fast to train."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Schedule:
    """Epochs, batches, optimiser and learning rate of a training."""

    epochs: int
    batch_size: int
    learning_rate: float
    optimiser: Callable[[list[Any], float], Any]
    """Makes a torch optimiser from the parameters and the learning rate."""
    factor: Callable[[float], float]
    """Factor of the learning rate as a function of time, in epochs."""
    other_remedy: str = ""
    """What else to do about a loss that is not finite, besides lowering the learning rate."""


def epochs_by_shots(shots: int) -> int:
    """CoOp's rule: 50 epochs for one shot, 100 for less than eight, 200 from there on.

    >>> [epochs_by_shots(shots) for shots in (1, 2, 4, 8, 16)]
    [50, 100, 100, 200, 200]
    """
    return 50 if shots < 2 else 100 if shots < 8 else 200


def cosine(epochs: int, warm_up: float | None = None) -> Callable[[float], float]:
    """A factor that falls from 1 to 0 along half a cosine; in the first epoch it is `warm_up`, if given."""

    def factor(time: float) -> float:
        if warm_up is not None and time < 1:
            return warm_up
        return (1 + math.cos(math.pi * time / epochs)) / 2

    return factor


def cosine_by_epoch(epochs: int, warm_up: float | None = None) -> Callable[[float], float]:
    """As `cosine`, but constant within an epoch and begun after the warm-up, as in CoOp's trainer."""
    falling, first = cosine(epochs), 0 if warm_up is None else 1

    def factor(time: float) -> float:
        epoch = math.floor(time)
        return warm_up if warm_up is not None and epoch < 1 else falling(epoch - first)

    return factor
