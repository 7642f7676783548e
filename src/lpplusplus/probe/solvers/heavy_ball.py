"""What the authors' released code runs: heavy-ball descent, and α by the sum of all gradients so far."""

from dataclasses import dataclass
from typing import Annotated

from ..._core import backend
from ..._core.parameters import number
from ..lipschitz import gamma_alpha, gamma_w, step_size
from ..objective import Objective, Point
from .base import Cycle, Factor, Iterate, Observer, Solver


@dataclass(frozen=True)
class HeavyBall(Solver):
    """Full-batch gradient steps with momentum on W and the intercept, and every `cycle[0]` updates one on α.

    The step on α is part of the same update as that on W, and uses the sum of all gradients of α since the start: the
    released loop never clears them, and that is what makes α move at all. `cycle[1] = 0` leaves α alone; any other
    number means one step.
    """

    cycle: Cycle = (10, 1)
    momentum: Annotated[float, number(0, 1)] = 0.9
    tau_w: Factor = 1.0
    tau_alpha: Factor = 16.0

    coordinates = "any"

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.moves_alpha and point.alpha is not None
        w_step = step_size(gamma_w(objective, self.tau_w))
        velocity = backend.zeros(point.v, point.v.shape)
        if learn_alpha:
            alpha_step = step_size(gamma_alpha(objective, tau=self.tau_alpha))
            accumulated = backend.zeros(point.v, point.alpha.shape)  # type: ignore[union-attr]
        if point.intercept is not None:
            bias_velocity = backend.zeros(point.v, point.intercept.shape)
        budget = self.budget
        for update in range(budget + 1):
            last = update == budget
            here = objective.evaluate(point, w=not last, alpha=learn_alpha and not last)
            if observer(Iterate(update, float(update), here.loss, point)) or last:
                return
            velocity *= self.momentum
            velocity += here.w
            if point.intercept is not None:
                bias_velocity = self.momentum * bias_velocity + here.intercept
            assert here.w is not None
            here.w[...] = velocity  # The gradient is no longer needed; its memory holds the step.
            alpha = None
            if learn_alpha:
                accumulated += here.alpha
                if (update + 1) % self.cycle[0] == 0:
                    alpha = alpha_step * accumulated
            bias = None if point.intercept is None else w_step * bias_velocity
            objective.descend(point, w=(here.w, w_step), alpha=alpha, intercept=bias)
