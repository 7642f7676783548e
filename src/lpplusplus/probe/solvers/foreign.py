"""Solvers from outside the package, in a fit and in a file."""

from dataclasses import dataclass
from typing import Any

from ..objective import Objective, Point
from .base import Observer, Solver


@dataclass(frozen=True)
class Foreign(Solver):
    """Any object with `run(objective, point, observer)`, as a `Solver`."""

    solver: Any = None

    @property
    def coordinates(self) -> str:  # type: ignore[override]
        return str(getattr(self.solver, "coordinates", "weights"))

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        self.solver.run(objective, point, observer)


@dataclass(frozen=True)
class NotSaved:
    """In a loaded classifier: a solver from outside the package. The file has only its name."""

    name: str

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        raise ValueError(
            f"This classifier was trained by {self.name}, a solver from outside lpplusplus. Its file has the weights "
            f"and not the solver: it predicts, but before it is fitted again set the solver, set_params(solver=...)."
        )
