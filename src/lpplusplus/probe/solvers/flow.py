"""LP++'s descent as a flow in time, integrated with a few long semi-implicit steps.

Gradient steps of length 1/γ_w are Euler's method for dW/dt = -∂L/∂W. It takes 300 of them only because a longer step
would overshoot along the direction that all images share. With the curvature treated implicitly, that limit is gone.
The Hessian of class k's block is mean_i p_ik(1-p_ik) f_i f_iᵀ ≈ κ_k FᵀF/N with κ_k = mean_i p_ik(1-p_ik), and since
Diag(p) - ppᵀ is the Laplacian of a graph with degrees p_k(1-p_k), the coupling between classes at most doubles it. So
in the eigenbasis (λ_d) of FᵀF/N a step of length h is

    W ← W - h ∂L/∂W / (1 + c h κ_k λ_d),   c = 3/2.

However long, such a step is at most 2/c of the step to the minimum: c > 1 is stable, c = 2 never overshoots, and a
smaller c stays closer to the flow. Steps double in length, as the flow slows down. κ_k FᵀF/N weights all images alike.
Late on the path p(1-p) is large for a few images only, and the curvature along them is underestimated: from the time at
which LP++ stops, c = 6 makes up for that. At any time a step that raises the loss is taken back and halved, so the loss
never rises. See docs/explanation/flow.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ..._core import backend
from ..._core.parameters import nothing, number
from ..lipschitz import gamma_alpha, gamma_w, step_size
from ..objective import Evaluation, Objective, Point
from .base import LPP_UPDATES, Cycle, Factor, Flag, Iterate, Observer, Solver

FAR_UPDATES = 120_000
"""Budget if held-out loss decides when to stop."""
LPP_TIME = LPP_UPDATES * 10 / 11
"""The time at which LP++ itself stops: its 300 updates without those on α."""
EARLY_STEPS = 6
"""Time points up to `LPP_TIME`."""
RATIO = 2.0
"""Each time point is this many times the one before it."""
DAMPING_EARLY = 1.5
"""c before `LPP_TIME`."""
DAMPING_LATE = 6.0
"""c from `LPP_TIME` on."""
LATE_STEPS = 8
"""If only the end of the path is needed: keep this many last time points, and every second one before them."""
SMALLEST_STEP = 2.0**-30
"""Fraction of a planned step below which a rising loss is rounding and not curvature."""


def times(end: float, *, direct: bool = False) -> tuple[float, ...]:
    """Geometric time points up to `end`; all but the last are the same for every `end`.

    `direct` is for a path of which only the end is needed: a long one may then start with longer steps, because later
    steps correct their error.

    >>> [round(t, 1) for t in times(LPP_TIME)]
    [8.5, 17.0, 34.1, 68.2, 136.4, 272.7]
    >>> [round(t) for t in times(2000)[5:]]
    [273, 545, 1091, 2000]
    >>> [round(t) for t in times(16 * LPP_TIME, direct=True)]
    [34, 68, 136, 273, 545, 1091, 2182, 4364]
    >>> [round(t) for t in times(128 * LPP_TIME, direct=True)]
    [17, 68, 273, 545, 1091, 2182, 4364, 8727, 17455, 34909]
    """
    if end <= 0:
        return ()
    points = [LPP_TIME * RATIO**-j for j in reversed(range(EARLY_STEPS))]
    while points[-1] < end:
        points.append(points[-1] * RATIO)
    # No last step much shorter than the others: it would change little and cost as much.
    points = [*(t for t in points if 1.3 * t < end), end]
    if direct:
        points = points[-LATE_STEPS - 2 : 0 : -2][::-1] + points[-LATE_STEPS:]
    return tuple(points)


@dataclass(frozen=True)
class Flow(Solver):
    """The flow up to the time that `updates` of block-MM with this `cycle`, steps on α included, would reach.

    Its own iterates are time points. α and the intercept flow along, each at the pace of its own block.
    """

    cycle: Cycle = (10, 1)
    tau_w: Factor = 1.0
    tau_alpha: Factor = 16.0
    direct: Flag = False
    """Whether only the end of the path is needed; see `times`."""
    end_time: Annotated[float | None, number(0), nothing("the time that the updates reach")] = None
    """Time to stop at, in steps of 1/γ_w; None for the time that `updates` reach."""

    coordinates = "any"
    long_steps = True

    @property
    def end(self) -> float:
        """Time to stop at, in steps of 1/γ_w."""
        return self.budget * self.cycle[0] / sum(self.cycle) if self.end_time is None else self.end_time

    @property
    def evaluations(self) -> int:
        return len(times(self.end, direct=self.direct))

    def for_task(self, shots: float, *, held_out: bool, direct: bool) -> Flow:
        """With a budget and time points that suit the task, if they are not given.

        Held-out loss tells when to stop, so the budget may then be large. Without it the flow goes LP++'s 300 updates
        per shot: with more examples there is more to learn before the probe overfits (docs/explanation/flow.md).
        """
        suitable = FAR_UPDATES if held_out else round(LPP_UPDATES * shots)
        updates = suitable if self.updates is None else self.updates
        return replace(self, updates=updates, direct=self.direct or direct)

    def until(self, time: float) -> Flow:
        return replace(self, end_time=time, direct=True)

    def run(self, objective: Objective, point: Point, observer: Observer) -> None:
        learn_alpha = self.moves_alpha and point.alpha is not None
        schedule = times(self.end, direct=self.direct)
        w_unit = step_size(gamma_w(objective, self.tau_w)) if schedule else 0.0
        alpha_unit = 0.0
        if learn_alpha and schedule:
            # In block-MM the text block makes cycle[1] steps while the visual one makes cycle[0].
            pace = self.cycle[1] / self.cycle[0]
            alpha_unit = pace * step_size(gamma_alpha(objective, tau=self.tau_alpha))
        before = point.copy() if schedule else point
        now = 0.0

        def look(more: bool) -> Evaluation:
            return objective.evaluate(point, w=more, alpha=more and learn_alpha, kappa=more)

        def move(here: Evaluation, h: float) -> None:
            damping = DAMPING_EARLY if now < 0.999 * LPP_TIME else DAMPING_LATE
            assert here.kappa is not None
            kappa = damping * here.kappa
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
                noise = _rounding(point, here.loss)
                move(here, h)
                there = look(not last)
                while not there.loss <= here.loss + noise:  # A step too far may also end at NaN.
                    objective.retreat(point, before)
                    h /= 2
                    if h < SMALLEST_STEP * whole:
                        h = whole  # What is left is rounding: do not move.
                        there = look(not last)
                        break
                    move(look(True), h)
                    there = look(True)
                if not there.loss <= here.loss - noise:
                    h = whole  # The rest of this step would gain no more than rounding: do not move.
                now = target if h == whole else now + h
                here = there
            if observer(Iterate(update, target, here.loss, point)):
                return


def _rounding(point: Point, loss: float) -> float:
    """Largest difference between two losses that may be rounding."""
    xp = backend.namespace(point.v)
    return 8 * float(xp.finfo(point.v.dtype).eps) * (1 + abs(loss))
