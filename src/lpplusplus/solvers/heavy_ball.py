"""What the authors' released code runs: heavy-ball descent, and α by the sum of all gradients so far."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _arrays
from ..curvature import step_size, text_constant, visual_constant
from ..objective import Objective, Point
from .base import Iterate, Observer


@dataclass(frozen=True)
class HeavyBall:
    """Full-batch gradient steps with momentum on W and the intercept, and now and then one on α.

    The α step comes every `alpha_every` updates, in the same breath as the W step, and uses the running sum of all α
    gradients since the start: in the released loop nobody clears that buffer, and it is what makes α move at all.
    An update is one W step, with or without α.
    """

    updates: int = 300
    momentum: float = 0.9
    alpha_every: int = 10
    tau_w: float = 1.0
    tau_alpha: float = 16.0
    learn_alpha: bool = True
    coordinates = "any"

    @property
    def evaluations(self) -> int:
        return self.updates

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.learn_alpha and point.alpha is not None
        w_step = step_size(visual_constant(objective, self.tau_w))
        velocity = _arrays.zeros(point.v, point.v.shape)
        if learn_alpha:
            alpha_step = step_size(text_constant(objective, self.tau_alpha))
            accumulated = _arrays.zeros(point.v, point.alpha.shape)  # type: ignore[union-attr]
        if point.intercept is not None:
            bias_velocity = _arrays.zeros(point.v, point.intercept.shape)
        for update in range(self.updates + 1):
            last = update == self.updates
            here = objective.evaluate(point, w=not last, alpha=learn_alpha and not last)
            if observer(Iterate(update, float(update), here.loss, point)) or last:
                return
            velocity *= self.momentum
            velocity += here.w
            if point.intercept is not None:
                bias_velocity = self.momentum * bias_velocity + here.intercept
            assert here.w is not None
            here.w[...] = velocity  # The gradient is spent: its memory carries the step.
            alpha = None
            if learn_alpha:
                accumulated += here.alpha
                if (update + 1) % self.alpha_every == 0:
                    alpha = alpha_step * accumulated
            bias = None if point.intercept is None else w_step * bias_velocity
            objective.descend(point, w=(here.w, w_step), alpha=alpha, intercept=bias)
