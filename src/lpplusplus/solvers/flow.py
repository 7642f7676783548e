"""LP++'s descent as a flow in time, integrated with a few long semi-implicit steps.

Gradient steps of length 1/γ_w are Euler's method for dW/dt = -∂L/∂W, and 300 of them are needed only because a longer
one would overshoot along the direction that all images share. Treat the curvature implicitly and that limit is gone.
The Hessian of class k's block is mean_i p_ik(1-p_ik) f_i f_iᵀ ≈ κ_k FᵀF/N with κ_k = mean_i p_ik(1-p_ik), and since
Diag(p) - ppᵀ is the Laplacian of a graph with degrees p_k(1-p_k), the coupling between classes at most doubles it. So
in the eigenbasis (λ_d) of FᵀF/N a step of length h is

    W ← W - h ∂L/∂W / (1 + c h κ_k λ_d),   c = 3/2.

However long, it is at most 2/c of the step to the minimum: c > 1 is stable, c = 2 never overshoots, and a smaller c
stays closer to the flow. Steps double, as the flow slows down. κ_k FᵀF/N takes all images alike; late in the walk the
weights p(1-p) sit on the few that are still in doubt, and the curvature there is underestimated. From the time on at
which LP++ itself stops, c = 6 covers that, and at any time a step that raises the loss is taken back and halved, so the
loss never rises. See docs/flow.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import _arrays
from ..curvature import step_size, text_constant, visual_constant
from ..objective import Evaluation, Objective, Point
from .base import Iterate, Observer

LPP_TIME = 300 * 10 / 11
"""Where LP++ itself stops: its 300 updates less those spent on α."""
EARLY_STEPS, RATIO = 6, 2.0
"""Time points up to there; each, before and beyond, is so many times the one before."""
DAMPING_EARLY, DAMPING_LATE = 1.5, 6.0
ENOUGH_STEPS, NOT_NEEDED = 8, 2
"""Where nobody looks at the way, a walk of more steps than the first leaves out up to so many of its shortest."""
SMALLEST_STEP = 2.0**-30
"""Fraction of a planned step below which a rising loss is rounding, not curvature."""


def times(end: float, *, direct: bool = False) -> tuple[float, ...]:
    """Geometric time points up to `end`, the same for every `end` but for the last.

    `direct` is for a walk of which only the end is wanted: where it goes on for long, later steps mend what longer ones
    at the beginning got wrong.

    >>> [round(t, 1) for t in times(LPP_TIME)]
    [8.5, 17.0, 34.1, 68.2, 136.4, 272.7]
    >>> [round(t) for t in times(2000)[5:]]
    [273, 545, 1091, 2000]
    >>> [round(t) for t in times(16 * LPP_TIME, direct=True)]
    [34, 68, 136, 273, 545, 1091, 2182, 4364]
    """
    if end <= 0:
        return ()
    points = [LPP_TIME * RATIO**-j for j in reversed(range(EARLY_STEPS))]
    while points[-1] < end:
        points.append(points[-1] * RATIO)
    # A last step much shorter than the others would be an evaluation for nothing.
    points = [*(t for t in points if 1.3 * t < end), end]
    spare = min(NOT_NEEDED, max(0, len(points) - ENOUGH_STEPS)) if direct else 0
    return tuple(points[spare:])


@dataclass(frozen=True)
class Flow:
    """The flow up to the time that `updates` of block-MM with this `cycle` would take it, those on α included.

    An update of its own is one time point. α and the intercept flow along, each at the pace of its own block.
    """

    updates: int = 300
    cycle: tuple[int, int] = (10, 1)
    tau_w: float = 1.0
    tau_alpha: float = 16.0
    learn_alpha: bool = True
    direct: bool = False
    """Whether only the end of the walk is wanted; see `times`."""
    coordinates = "any"

    @property
    def end(self) -> float:
        """Time to stop at, in steps of 1/γ_w."""
        return self.updates * self.cycle[0] / sum(self.cycle)

    @property
    def evaluations(self) -> int:
        return len(times(self.end, direct=self.direct))

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.learn_alpha and point.alpha is not None
        schedule = times(self.end, direct=self.direct)
        w_unit = step_size(visual_constant(objective, self.tau_w))
        alpha_unit = 0.0
        if learn_alpha:
            # In block-MM the text block makes cycle[1] steps while the visual one makes cycle[0].
            pace = self.cycle[1] / self.cycle[0]
            alpha_unit = pace * step_size(text_constant(objective, self.tau_alpha))
        before = point.copy() if schedule else point
        now = 0.0

        def look(more: bool) -> Evaluation:
            return objective.evaluate(point, w=more, alpha=more and learn_alpha, spread=more)

        def move(here: Evaluation, h: float) -> None:
            damping = DAMPING_EARLY if now < 0.999 * LPP_TIME else DAMPING_LATE
            assert here.spread is not None
            kappa = damping * here.spread
            objective.damp(here.w, kappa * (h * w_unit))
            alpha = intercept = None
            if here.alpha is not None:
                length = h * alpha_unit
                alpha = length * here.alpha / (1 + length * kappa * objective.score_energy)
            if here.intercept is not None:
                length = h * w_unit
                intercept = length * here.intercept / (1 + length * kappa)
            objective.descend(point, w=(here.w, h * w_unit), alpha=alpha, intercept=intercept)

        here = look(bool(schedule))
        if observer(Iterate(0, 0.0, here.loss, point)):
            return
        for update, target in enumerate(schedule, start=1):
            last = update == len(schedule)
            while now < target:
                before.assign(point)
                whole = h = target - now
                move(here, h)
                there = look(not last)
                while there.loss > here.loss + _rounding(point, here.loss):
                    objective.retreat(point, before)
                    h /= 2
                    if h < SMALLEST_STEP * whole:
                        h = whole  # Only rounding is left to move on: stand still.
                        there = look(not last)
                        break
                    move(look(True), h)
                    there = look(True)
                now = target if h == whole else now + h
                here = there
            if observer(Iterate(update, target, here.loss, point)):
                return


def _rounding(point: Point, loss: float) -> float:
    """How much of a difference between two losses is noise of the arithmetic."""
    xp = _arrays.namespace(point.v)
    return 8 * float(xp.finfo(point.v.dtype).eps) * (1 + abs(loss))
