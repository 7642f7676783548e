"""Solvers, one file each, named after what it does; `base` has the contract.

`LPPlusPlus(solver=...)` takes one of these objects, an object of your own with `run(objective, point, observer)`, or a
name of `SOLVERS`.

>>> from lpplusplus import LPPlusPlus, solvers
>>> probe = LPPlusPlus(solver=solvers.BlockMM(updates=100, cycle=(10, 1)))
"""

from dataclasses import asdict, dataclass
from typing import Any

from ..._core.parameters import show_without_rules
from ..objective import Objective, Point
from .adam import Adam
from .base import Iterate, Observer, Solver
from .block_mm import BlockMM
from .flow import Flow
from .gradient_descent import GradientDescent
from .heavy_ball import HeavyBall
from .lbfgs import LBFGS

__all__ = [
    "LBFGS",
    "SOLVERS",
    "Adam",
    "BlockMM",
    "Flow",
    "GradientDescent",
    "HeavyBall",
    "Iterate",
    "Observer",
    "Solver",
]

SOLVERS: dict[str, type[Solver]] = {
    "flow": Flow,
    "block-mm": BlockMM,
    "heavy-ball": HeavyBall,
    "gradient-descent": GradientDescent,
    "adam": Adam,
    "lbfgs": LBFGS,
}
"""Names for `LPPlusPlus(solver=...)`. A new solver is one file and one line here."""
for _kind in SOLVERS.values():
    show_without_rules(_kind)
show_without_rules(Solver)


def to_json(solver: Any) -> Any:
    """`solver=` as a file keeps it: a name as it is, one of our objects with its parameters, of others the name only.

    >>> to_json(LBFGS(updates=20))
    {'solver': 'lbfgs', 'updates': 20, 'learn_alpha': True, 'memory': 10, 'tolerance': 1e-09}
    """
    if solver is None or isinstance(solver, str):
        return solver
    for name, kind in SOLVERS.items():
        if type(solver) is kind:
            return {"solver": name, **asdict(solver)}
    kind = type(solver)
    return {"foreign": solver.name if kind is NotSaved else f"{kind.__module__}.{kind.__qualname__}"}


def from_json(content: Any) -> Any:
    """The inverse of `to_json`; a solver that is not ours comes back as `NotSaved`.

    >>> from_json({"solver": "block-mm", "cycle": [1, 1]}).cycle
    (1, 1)
    """
    if not isinstance(content, dict):
        return content
    if "foreign" in content:
        return NotSaved(str(content["foreign"]))
    parameters: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in content.items()}
    return SOLVERS[parameters.pop("solver")](**parameters)


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
