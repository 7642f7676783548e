"""Gradient descent on both blocks at once, with one step for all."""

from dataclasses import dataclass

from ..lipschitz import certified, gamma_global, gamma_w, step_size
from ..objective import Objective, Point
from .base import Factor, Flag, Iterate, Observer, Rate, Solver


def step_length(
    rate: float | str | None, objective: Objective, *, tau_w: float, tau_alpha: float, learn_alpha: bool
) -> float:
    """The given rate; without one 1/γ with the γ of eq. 12, or with γ_w if α does not move."""
    if isinstance(rate, str):
        raise ValueError("learning_rate='auto' is chosen by LPPlusPlus, on validation data: give a number here.")
    if rate is not None:
        return rate
    if not learn_alpha:
        return float(step_size(gamma_w(objective, tau_w)))
    return float(step_size(gamma_global(objective, tau_w=tau_w, tau_alpha=tau_alpha)))


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Both blocks as one; `learning_rate=None` is 1/γ of eq. 12, or of the certified bound.

    "auto" is the best of 1e-4 … 1e2 by accuracy on validation data; `LPPlusPlus` chooses it.
    """

    learning_rate: Rate = None
    tau_w: Factor = 1.0
    tau_alpha: Factor = 16.0
    certified: Flag = False

    coordinates = "any"

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.moves_alpha and point.alpha is not None
        if self.certified:
            bounds = certified(objective, intercept=point.intercept is not None)
            length = float(step_size(bounds.joint if learn_alpha else bounds.w))
        else:
            length = step_length(
                self.learning_rate, objective, tau_w=self.tau_w, tau_alpha=self.tau_alpha, learn_alpha=learn_alpha
            )
        unit = length * gamma_w(objective)
        budget = self.budget
        for update in range(budget + 1):
            last = update == budget
            step = objective.evaluate(point, w=not last, alpha=learn_alpha and not last, factor=length)
            if observer(Iterate(update, update * unit, step.loss, point)) or last:
                return
            objective.descend(point, w=(step.w, 1), alpha=step.alpha, intercept=step.intercept)
