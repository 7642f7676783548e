"""What every solver is: a walk from a starting point, shown step by step to an observer.

A solver sees an `Objective` and a `Point`, never files, class names or arrays of images. It calls
`observer(iterate)` at the start and after each of its updates, and stops when told to or when its budget is spent. What
is kept of the walk is the observer's business (see `selection`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..objective import Objective, Point


class Iterate(NamedTuple):
    """One stop of the walk. `point` is moved on by the next update: copy it to keep it."""

    update: int
    """Updates made so far; 0 is the start."""
    time: float
    """Length of the walk so far in visual steps of 1/γ_w: what different solvers have in common."""
    loss: float
    """Loss of the support at `point`."""
    point: Point


Observer = Callable[[Iterate], bool]
"""Is shown every iterate; answers True to stop the solver there."""


class Solver(Protocol):
    """A configured solver."""

    coordinates: str
    """`"any"`, or `"weights"` for solvers whose steps depend on the choice of coordinates."""

    @property
    def evaluations(self) -> int:
        """Gradients in a full run, for choosing the cheaper form of the objective."""

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        """Walk from `point`, moving it in place."""
