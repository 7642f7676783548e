"""Algorithm 1 of the paper: block majorize-minimize steps on W and α in turn."""

from dataclasses import dataclass

from ..lipschitz import certified, gamma_alpha, gamma_w, step_size
from ..objective import Objective, Point
from .base import Cycle, Factor, Flag, Iterate, Observer, Solver


@dataclass(frozen=True)
class BlockMM(Solver):
    """`cycle[0]` gradient steps on W, then `cycle[1]` on α at the new W, and so on.

    Each step minimises a quadratic that majorizes the loss in its block, so its length is one over the block's
    curvature, and it lowers the loss (Lemma 2.1) where the constants really are bounds (`certified`). Every step counts
    as an update: 300 updates of the default cycle are 27 whole cycles and three steps. The intercept, where there is
    one, moves with W.
    """

    cycle: Cycle = (10, 1)
    tau_w: Factor = 1.0
    tau_alpha: Factor = 16.0
    certified: Flag = False

    coordinates = "any"

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.moves_alpha and point.alpha is not None
        if self.certified:
            constants = certified(objective, intercept=point.intercept is not None)
            w_step, alpha_step = step_size(constants.w), step_size(constants.alpha)
        else:
            w_step = step_size(gamma_w(objective, self.tau_w))
            alpha_step = step_size(gamma_alpha(objective, tau=self.tau_alpha)) if learn_alpha else 0
        w_updates = 0
        budget = self.budget
        for update in range(budget + 1):
            last = update == budget
            on_alpha = learn_alpha and update % sum(self.cycle) >= self.cycle[0]
            on_w = not on_alpha and not last
            here = objective.evaluate(point, w=on_w, alpha=on_alpha and not last, factor=w_step if on_w else 1)
            if observer(Iterate(update, float(w_updates), here.loss, point)) or last:
                return
            if on_alpha:
                objective.descend(point, alpha=here.alpha * alpha_step)
            else:
                objective.descend(point, w=(here.w, 1), intercept=here.intercept)
                w_updates += 1
