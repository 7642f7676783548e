"""Adam on all blocks, for the paper's comparison of optimisers."""

import math
from dataclasses import dataclass
from typing import Annotated

from ..._core import backend
from ..._core.backend import Array
from ..._core.parameters import pair
from ..objective import Objective, Point
from .base import Factor, Iterate, Observer, Rate, Solver
from .gradient_descent import step_length


class Moments:
    """Adam's running averages for one block."""

    def __init__(self, block: Array, beta: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> None:
        self._first, self._second, self._step = (backend.zeros(block, block.shape) for _ in range(3))
        self._beta, self._epsilon, self._done = beta, epsilon, 0

    def direction(self, gradient: Array) -> Array:
        """The normalised step for the next gradient, in an array that the step after it overwrites."""
        xp, (b1, b2), step = backend.namespace(gradient), self._beta, self._step
        self._done += 1
        self._first *= b1
        self._first += xp.multiply(gradient, 1 - b1, out=step)
        self._second *= b2
        xp.multiply(gradient, gradient, out=step)
        step *= 1 - b2
        self._second += step
        # m / (1 - b1^t) / (√(v / (1 - b2^t)) + ε), with both corrections outside of the arrays.
        correction = math.sqrt(1 - b2**self._done)
        xp.sqrt(self._second, out=step)
        step += self._epsilon * correction
        xp.divide(self._first, step, out=step)
        step *= correction / (1 - b1**self._done)
        return step


@dataclass(frozen=True)
class Adam(Solver):
    """Adam with its authors' constants; `learning_rate=None` is gradient descent's step, which does not suit Adam."""

    learning_rate: Rate = None
    beta: Annotated[tuple[float, float], pair((0, 0), whole=False)] = (0.9, 0.999)
    epsilon: Factor = 1e-8
    tau_w: Factor = 1.0
    tau_alpha: Factor = 16.0

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.moves_alpha and point.alpha is not None
        rate = step_length(
            self.learning_rate, objective, tau_w=self.tau_w, tau_alpha=self.tau_alpha, learn_alpha=learn_alpha
        )
        moments = {
            name: Moments(block, self.beta, self.epsilon)
            for name, block in (("w", point.v), ("alpha", point.alpha), ("b", point.intercept))
            if block is not None
        }
        budget = self.budget
        for update in range(budget + 1):
            last = update == budget
            here = objective.evaluate(point, w=not last, alpha=learn_alpha and not last)
            if observer(Iterate(update, float("nan"), here.loss, point)) or last:
                return
            step = {
                name: rate * moments[name].direction(gradient)
                for name, gradient in (("alpha", here.alpha), ("b", here.intercept))
                if gradient is not None
            }
            w = moments["w"].direction(here.w)
            objective.descend(point, w=(w, rate), alpha=step.get("alpha"), intercept=step.get("b"))
