"""Named presets over the parts of LP++, and how explicit parameters override them.

`default` is ours. `paper` is Algorithm 1 as printed, but for the shared α start (see `starts`). `released` is what the
authors' code does, which is another algorithm; the published numbers most likely stem from it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from .solvers import LBFGS, Adam, BlockMM, Flow, GradientDescent, HeavyBall, Solver

LEARNING_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2)
"""The paper's grid for gradient descent and Adam."""
LPP_UPDATES, FAR_UPDATES = 300, 30_000


@dataclass(frozen=True)
class Recipe:
    """Everything that decides how a probe is fitted; the estimator documents each."""

    solver: str = "flow"
    alpha: str = "learned"
    alpha_init: str | float = "shared"
    w_init: str = "class-sums"
    cycle: tuple[int, int] = (10, 1)
    updates: int | None = None
    """None lets the solver and the way of selecting decide; see `budget`."""
    tau_w: float = 1.0
    tau_alpha: float = 16.0
    certified: bool = False
    learning_rate: str | float = "lipschitz"
    intercept: bool = False
    selection: str = "auto"
    ties: str = "latest"
    folds: int = 4
    by_loss: bool = True
    """Whether `selection="auto"` goes by held-out log-loss, of validation data or by cross-validation."""
    start_competes: bool = True
    """Whether the start is a candidate when selecting on validation data."""

    @property
    def learns_alpha(self) -> bool:
        """Whether α moves: not where it is fixed, nor where the solver goes by a cycle that leaves it out."""
        return self.alpha == "learned" and (self.cycle[1] > 0 or self.solver not in ("flow", "block-mm", "heavy-ball"))

    def budget(self, shots: int, *, by_loss: bool) -> int:
        """Updates to make at the most, where the smallest class has `shots` examples.

        What is held out tells when to stop, so the flow may then look far ahead; otherwise it goes LP++'s 300 updates
        for every shot, since with more examples there is more to learn before the probe overfits (docs/flow.md).
        """
        if self.updates is not None:
            return self.updates
        if self.solver != "flow":
            return LPP_UPDATES
        return FAR_UPDATES if by_loss else LPP_UPDATES * shots

    def make_solver(self, updates: int, learning_rate: float | None = None, *, direct: bool = False) -> Solver:
        """The solver, set up for a budget; `direct` where only the end of its walk is wanted."""
        alpha: dict[str, Any] = {"learn_alpha": self.learns_alpha}
        taus: dict[str, Any] = {"tau_w": self.tau_w, "tau_alpha": self.tau_alpha}
        steps: dict[str, Any] = {"certified": self.certified, **taus, **alpha}
        match self.solver:
            case "flow":
                return Flow(updates, self.cycle, **taus, **alpha, direct=direct)
            case "block-mm":
                return BlockMM(updates, self.cycle, **steps)
            case "heavy-ball":
                return HeavyBall(updates, alpha_every=self.cycle[0], **taus, **alpha)
            case "gradient-descent":
                return GradientDescent(updates, learning_rate, **steps)
            case "adam":
                return Adam(updates, learning_rate, **taus, **alpha)
            case _:
                return LBFGS(updates, **alpha)


RECIPES = {
    "default": Recipe(),
    "paper": Recipe(solver="block-mm", updates=LPP_UPDATES, by_loss=False),
    "released": Recipe(solver="heavy-ball", updates=LPP_UPDATES, intercept=True, by_loss=False, start_competes=False),
}


def resolve(name: str, given: dict[str, Any]) -> Recipe:
    """The recipe `name` with every parameter that is not None in `given` put in its place.

    >>> resolve("paper", {"cycle": (1, 1), "updates": None}).cycle
    (1, 1)
    """
    known = {field.name for field in fields(Recipe)}
    chosen = {key: value for key, value in given.items() if key in known and value is not None}
    if "cycle" in chosen:
        chosen["cycle"] = tuple(int(steps) for steps in chosen["cycle"])
    recipe = replace(RECIPES[name], **chosen)
    if recipe.certified and recipe.solver not in ("block-mm", "gradient-descent"):
        raise ValueError(
            f"certified=True sets the steps of solver='block-mm' and 'gradient-descent'; solver={recipe.solver!r} "
            f"does not use it ('flow' never lets the loss rise anyway). Leave it out or name one of the two."
        )
    if recipe.certified and not {"tau_w", "tau_alpha"}.isdisjoint(chosen):
        raise ValueError("certified=True fixes tau_w and tau_alpha at 2: leave them out or leave certified out.")
    if recipe.certified and recipe.learning_rate != "lipschitz":
        raise ValueError(
            f"certified=True takes the steps from the curvature, learning_rate={recipe.learning_rate!r} does not: "
            f"leave one of them out."
        )
    if recipe.learning_rate != "lipschitz" and recipe.solver not in ("gradient-descent", "adam"):
        raise ValueError(
            f"learning_rate={recipe.learning_rate!r} is for solver='gradient-descent' and 'adam'; "
            f"solver={recipe.solver!r} takes its steps from the data."
        )
    return recipe
