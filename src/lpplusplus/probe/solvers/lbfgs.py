"""SciPy's L-BFGS on all blocks, for the paper's comparison of optimisers.

It reaches a low loss in few evaluations, but a lower accuracy than slower solvers: with a few examples per class, the
path to a loss matters as much as the loss itself.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.optimize

from ..._core import backend
from ..._core.parameters import number
from ..objective import Coefficients, Objective, Point
from .base import Iterate, Observer, Solver


@dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS-B without bounds; an update is one accepted iteration, whose line search may evaluate more than once."""

    memory: Annotated[int, number(1, whole=True)] = 10
    tolerance: Annotated[float, number(0)] = 1e-9

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        start = objective.weights(point)
        learn_alpha = self.moves_alpha and start.alpha is not None
        learned = [
            block
            for block, wanted in ((start.W, True), (start.alpha, learn_alpha), (start.intercept, True))
            if wanted and block is not None
        ]

        def unpack(x: np.ndarray[Any, Any]) -> Coefficients:
            blocks, offset = [], 0
            for block in learned:
                size = int(np.prod(block.shape))
                part = x[offset : offset + size].reshape(tuple(block.shape))
                blocks.append(backend.like(part, start.W, dtype=start.W.dtype))
                offset += size
            alpha = blocks[1] if learn_alpha else start.alpha
            return Coefficients(blocks[0], alpha, None if start.intercept is None else blocks[-1])

        def pack(*blocks: Any) -> np.ndarray[Any, Any]:
            parts = [backend.to_numpy(block).reshape(-1) for block in blocks if block is not None]
            return np.concatenate(parts).astype(np.float64)

        def value_and_gradient(x: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
            here = objective.evaluate(objective.at(unpack(x)), w=True, alpha=learn_alpha)
            return here.loss, pack(here.w.T, here.alpha, here.intercept)  # type: ignore[union-attr]

        update = 0

        def show(intermediate_result: Any) -> None:
            nonlocal update
            update += 1
            # A copy: SciPy goes on writing to its array, and α and the intercept of a point may be kept as they are.
            objective.jump(point, objective.at(unpack(intermediate_result.x.copy())))
            if observer(Iterate(update, float("nan"), float(intermediate_result.fun), point)):
                raise StopIteration

        stop = observer(Iterate(0, float("nan"), objective.evaluate(point).loss, point))
        if stop or self.budget == 0:
            return
        options = {
            "maxiter": self.budget,
            "maxfun": 100 * self.budget,
            "maxcor": self.memory,
            "ftol": 0.0,
            "gtol": self.tolerance,
        }
        scipy.optimize.minimize(
            value_and_gradient, pack(*learned), jac=True, method="L-BFGS-B", callback=show, options=options
        )
