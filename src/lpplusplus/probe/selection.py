"""Which iterate of a solver becomes the classifier: the last, or the best on validation data.

With a few examples per class the loss has no minimum (its infimum 0 lies at infinity), and accuracy falls again on the
way there. When to stop is part of the method. Each way of choosing is an observer of the solver.
"""

from .._core.backend import Array
from .._core.history import History
from .counting import hit_counter
from .objective import Objective, Point
from .solvers import Iterate

HELD_OUT_COLUMNS = ("held_out_time", "held_out_loss", "held_out_accuracy", "held_out_scale")
COLUMNS = ("update", "time", "loss", "validation_accuracy", *HELD_OUT_COLUMNS)
"""Columns of a probe's history, one entry per iterate, the start first.

The last four are about held-out images and have iterates of their own: time, mean loss at the best temperature,
accuracy, and the factor of the logits (the inverse of this temperature).
"""
SMALL_LOSS = 1 / 32
"""Stop below this mean loss on the support: if the names already fit, more steps only make the classifier worse."""


class Last:
    """Take the last iterate: after `stop` updates, at a loss below `enough`, or when the solver ends by itself."""

    def __init__(self, point: Point, history: History, stop: int | None = None, enough: float = -1.0) -> None:
        self.best, self.update = point, 0
        self._history, self._stop, self._enough = history, stop, enough

    def __call__(self, iterate: Iterate) -> bool:
        self._history.add(update=iterate.update, time=iterate.time, loss=iterate.loss)
        self.update = iterate.update
        return iterate.update == self._stop or iterate.loss < self._enough


class BestOnValidation:
    """Take the iterate with the most correct predictions on a validation set.

    A small validation set has many ties: `ties` says whether the first or the latest of them wins. `from_update=1`
    leaves the start out, as the released code does.
    """

    def __init__(
        self,
        objective: Objective,
        point: Point,
        history: History,
        X: Array,
        y: Array,
        *,
        ties: str = "latest",
        from_update: int = 0,
    ) -> None:
        self.best, self.update, self.hits = point.copy(), 0, -1
        self._objective, self._history, self._size = objective, history, y.shape[0]
        self._count = hit_counter(objective, X, y)
        self._margin = 0 if ties == "latest" else 1
        self._from = from_update

    def __call__(self, iterate: Iterate) -> bool:
        hits = self._count(iterate.point)
        self._history.add(
            update=iterate.update, time=iterate.time, loss=iterate.loss, validation_accuracy=hits / self._size
        )
        if iterate.update >= self._from and hits >= self.hits + self._margin:
            self.hits, self.update = hits, iterate.update
            self._objective.keep(iterate.point, self.best)
        return False
