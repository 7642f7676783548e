"""A training in progress: all that an epoch changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..._core.history import History


class BestEpoch(NamedTuple):
    """The epoch with the most validation images right, the first of equals; none without validation data."""

    hits: int = -1
    epoch: int = 0
    values: Sequence[Any] = ()
    """The parameters after it."""


@dataclass
class TrainingState:
    """What a checkpoint holds."""

    parameters: list[Any]
    optimiser: Any
    order: Any
    """The torch generator that shuffles the images."""
    history: History
    epoch: int = 0
    """Epochs done."""
    best: BestEpoch = field(default_factory=BestEpoch)
