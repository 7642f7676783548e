"""Gradient descent on both blocks at once, with one step for all."""

from __future__ import annotations

from dataclasses import dataclass

from ..curvature import certified_constants, step_size, text_constant, visual_constant
from ..objective import Objective, Point
from .base import Iterate, Observer


def lipschitz_step(objective: Objective, *, tau_w: float, tau_alpha: float, learn_alpha: bool) -> float:
    """One over the paper's curvature of all blocks moved together, max(γ_w, γ_α)."""
    gamma = visual_constant(objective, tau_w)
    if learn_alpha:
        gamma = max(gamma, text_constant(objective, tau_alpha))
    return float(step_size(gamma))


def certified_step(objective: Objective, *, learn_alpha: bool, intercept: bool) -> float:
    """The same from a bound that holds."""
    constants = certified_constants(objective, intercept=intercept)
    return float(step_size(constants.joint if learn_alpha else constants.w))


@dataclass(frozen=True)
class GradientDescent:
    """Single-block descent; `learning_rate=None` is the Lipschitz step."""

    updates: int = 300
    learning_rate: float | None = None
    tau_w: float = 1.0
    tau_alpha: float = 16.0
    certified: bool = False
    learn_alpha: bool = True
    coordinates = "any"

    @property
    def evaluations(self) -> int:
        return self.updates

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.learn_alpha and point.alpha is not None
        if self.learning_rate is not None:
            length = self.learning_rate
        elif self.certified:
            length = certified_step(objective, learn_alpha=learn_alpha, intercept=point.intercept is not None)
        else:
            length = lipschitz_step(objective, tau_w=self.tau_w, tau_alpha=self.tau_alpha, learn_alpha=learn_alpha)
        unit = length * visual_constant(objective, 1.0)
        for update in range(self.updates + 1):
            last = update == self.updates
            step = objective.evaluate(point, w=not last, alpha=learn_alpha and not last, scale=length)
            if observer(Iterate(update, update * unit, step.loss, point)) or last:
                return
            objective.descend(point, w=(step.w, 1), alpha=step.alpha, intercept=step.intercept)
