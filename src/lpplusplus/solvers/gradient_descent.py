"""Gradient descent on both blocks at once, with one step for all."""

from __future__ import annotations

from dataclasses import dataclass

from ..curvature import certified_constants, step_size, text_constant, visual_constant
from ..objective import Objective, Point
from .base import Iterate, Observer


def lipschitz_step(
    objective: Objective, *, tau_w: float, tau_alpha: float, certified: bool, learn_alpha: bool
) -> float:
    """One over the curvature of all blocks moved together: the paper's max(γ_w, γ_α), or a bound that holds."""
    if not learn_alpha:
        gamma = visual_constant(objective, 2.0 if certified else tau_w)
    elif certified:
        gamma = certified_constants(objective).joint
    else:
        gamma = max(visual_constant(objective, tau_w), text_constant(objective, tau_alpha))
    return float(step_size(gamma))


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
        length = self.learning_rate or lipschitz_step(
            objective,
            tau_w=self.tau_w,
            tau_alpha=self.tau_alpha,
            certified=self.certified,
            learn_alpha=learn_alpha,
        )
        unit = length * visual_constant(objective, 1.0)
        for update in range(self.updates + 1):
            last = update == self.updates
            step = objective.evaluate(point, w=not last, alpha=learn_alpha and not last, scale=length)
            if observer(Iterate(update, update * unit, step.loss, point)) or last:
                return
            objective.descend(point, w=(step.w, 1), alpha=step.alpha, intercept=step.intercept)
