"""What every solver is: descent from a starting point, shown iterate by iterate to an observer.

A solver sees an `Objective` and a `Point`, never files, class names or arrays of images. It calls `observer(iterate)`
at the start and after each update, and stops when the observer returns True or its budget is spent. Which iterate is
kept is the observer's business (`selection`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias

from ..._core.parameters import FLAG, check_parameters, choice, nothing, number, pair
from ..objective import Objective, Point

if TYPE_CHECKING:
    from typing_extensions import Self

LPP_UPDATES = 300
"""Updates in all experiments of the paper."""

Updates: TypeAlias = Annotated[int | None, number(0, whole=True), nothing("as the recipe has it")]
Cycle: TypeAlias = Annotated[tuple[int, int], pair((1, 0))]
Factor: TypeAlias = Annotated[float, number(0, open=True)]
Flag: TypeAlias = Annotated[bool, FLAG]
Rate: TypeAlias = Annotated[float | str | None, choice(("auto",)), number(0, open=True), nothing("from the curvature")]


class Iterate(NamedTuple):
    """One iterate. `point` is moved on by the next update: copy it to keep it."""

    update: int
    """Updates made so far; 0 is the start."""
    time: float
    """Time so far, in steps of 1/γ_w on W, to compare solvers; NaN if the solver has no such steps."""
    loss: float
    """Loss of the support at `point`."""
    point: Point


Observer = Callable[[Iterate], bool]
"""Called with every iterate; returns True to stop the solver there."""


@dataclass(frozen=True)
class Solver(ABC):
    """Base of the package's solvers. Its fields are its parameters, with their defaults.

    A solver from outside need not derive from this class: `LPPlusPlus(solver=...)` takes any object with
    `run(objective, point, observer)`, and reads its `coordinates` and `learn_alpha` if there are any.
    """

    updates: Updates = None
    """Budget; None for 300, or for the solver's own rule if it has one."""
    learn_alpha: Flag = field(default=True, kw_only=True)
    """Whether the text weights move."""

    coordinates: ClassVar[str] = "weights"
    """"any" if the iterates are the same classifiers in all coordinates: then small tasks run in the span of their
    support. "weights" if the solver needs the weights themselves."""
    long_steps: ClassVar[bool] = False
    """Whether its steps are so long that a few without progress are a reason to stop."""

    def __post_init__(self) -> None:
        values = vars(self)
        check_parameters(type(self), values)
        if not values.get("certified"):
            return
        if any(values[name] != getattr(type(self), name) for name in ("tau_w", "tau_alpha")):
            raise ValueError("certified=True fixes tau_w and tau_alpha at 2: leave them out or leave certified out.")
        if values.get("learning_rate") is not None:
            raise ValueError(
                f"certified=True takes the steps from the curvature, learning_rate={values['learning_rate']!r} does "
                f"not: leave one of them out."
            )

    @property
    def budget(self) -> int:
        """Updates of a full run."""
        return LPP_UPDATES if self.updates is None else self.updates

    @property
    def evaluations(self) -> int:
        """Gradients of a full run, for choosing the cheaper form of the objective."""
        return self.budget

    @property
    def moves_alpha(self) -> bool:
        """Whether α moves: not if it is fixed, nor if the cycle has no steps on it."""
        return bool(self.learn_alpha and getattr(self, "cycle", (1, 1))[1] > 0)

    def for_task(self, shots: float, *, held_out: bool, direct: bool) -> "Self":
        """This solver for a support whose smallest class has `shots` examples.

        `held_out` says that held-out loss decides when to stop, `direct` that early iterates need not be exact.
        """
        return self

    def until(self, time: float) -> "Self | None":
        """This solver, ending at `time`; None if it cannot go there directly."""
        return None

    @abstractmethod
    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        """Descend from `point`, moving it in place."""
