"""Which iterate of a solver becomes the classifier: the last, or the best on validation data.

With a few examples per class the loss has no minimum (its infimum 0 lies at infinity), and accuracy falls again on the
way there. When to stop is part of the method. Each way of choosing is an observer of the solver. Correct answers on
validation images are counted without scoring all of them at every update.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.history import History
from .._core.threads import rows_per_chunk
from .objective import Objective, Point, Support
from .solvers import Iterate

HELD_OUT_COLUMNS = ("held_out_time", "held_out_loss", "held_out_accuracy", "held_out_scale")
COLUMNS = ("update", "time", "loss", "validation_accuracy", *HELD_OUT_COLUMNS)
"""Columns of a probe's history, one entry per iterate, the start first.

The last four are about held-out images and have iterates of their own: time, mean loss at the best temperature,
accuracy, and the factor of the logits (the inverse of this temperature).
"""
SMALL_LOSS = 1 / 12
"""Stop below this mean loss of the support's images: if they already fit, more steps make the classifier worse."""


class Last:
    """Take the last iterate: after `stop` updates, at a loss below `enough`, or when the solver ends by itself."""

    def __init__(
        self, point: Point, history: History, stop: int | None = None, enough: float = -1.0,
        loss: Callable[[Point], float] | None = None,
    ) -> None:  # fmt: skip
        self.best, self.update = point, 0
        self._history, self._stop, self._enough, self._loss = history, stop, enough, loss

    def __call__(self, iterate: Iterate) -> bool:
        self._history.add(update=iterate.update, time=iterate.time, loss=iterate.loss)
        self.update = iterate.update
        if self._enough < 0:
            return iterate.update == self._stop
        return (iterate.loss if self._loss is None else self._loss(iterate.point)) < self._enough


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
        self._history, self._size = history, y.shape[0]
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
            self.best.assign(iterate.point)
        return False


WORTH_BEING_LAZY = 2.0e7
"""If scoring all validation images takes fewer multiplications than this, score them all: it is cheaper."""


def hit_counter(objective: Objective, X: Array, y: Array) -> Callable[[Point], int]:
    """A function that counts correct predictions on `X`, `y` at a point, in the cheaper of two exact ways."""
    return (CountChanged if worth_being_lazy(objective.support, X) else CountAll)(objective, X, y)


def worth_being_lazy(support: Support, X: Array) -> bool:
    """Whether scoring all of `X` at every update costs more than finding out which predictions can have changed."""
    return bool(X.shape[0] * support.n_classes * min(support.dim, support.size) >= WORTH_BEING_LAZY)


class CountAll:
    """Score every image at every point."""

    def __init__(self, objective: Objective, X: Array, y: Array) -> None:
        self._watch, self._y = objective.watch(X), y

    def __call__(self, point: Point) -> int:
        right = self._watch.logits(point).argmax(1) == self._y
        return int(backend.namespace(right).count_nonzero(right))


class CountChanged:
    """Score only the images whose prediction can have become right or wrong since they were last scored.

    Between two points the logit of image x for class k changes by at most ‖x‖·‖Δv_k‖ + |Δb_k|. An image that is right
    by some margin over all other classes stays right until the classes have travelled that far, and one that is wrong
    by some margin stays wrong. The counts are exact: a margin within rounding counts as none.
    """

    slack = 1e-4
    """Fraction of the distance added for rounding."""

    def __init__(self, objective: Objective, X: Array, y: Array) -> None:
        self._objective, self._watch, self._labels = objective, objective.watch(X), y
        self._distances = objective.start_distance_bound()
        # Small arrays and many small operations: numpy is fastest at those, even for images on a GPU.
        self._y = backend.to_numpy(y)
        self._anyone = objective.support.n_classes  # The last distance: the class that moved most.
        self._other = np.zeros_like(self._y)  # Compare with any class if right, else with the predicted one.
        self._right = np.zeros(len(self._y), dtype=bool)
        self._limit = np.full(len(self._y), -np.inf)  # Distance travelled at which to score again.
        self._distance = self._limit
        norms = backend.to_numpy(self._watch.norms).astype(np.float64)
        self._reach = np.maximum(norms, 1.0) * (1 + self.slack)

    def __call__(self, point: Point) -> int:
        self._distance = backend.to_numpy(self._distances).astype(np.float64)
        near = self._distance[self._y] + self._distance[self._other] < self._limit
        rows = np.flatnonzero(~near)  # NaN is not near.
        height = rows_per_chunk(self._anyone) // 2  # Their embeddings are gathered beside their logits.
        for low in range(0, len(rows), height):
            self._score(point, rows[low : low + height])
        return int(np.count_nonzero(self._right))

    def _score(self, point: Point, rows: np.ndarray[Any, Any]) -> None:
        logits = self._watch.logits(point, backend.like(rows, self._labels), self._objective.team)
        z, y, everyone = backend.to_numpy(logits), self._y[rows], np.arange(len(rows))
        predicted = z.argmax(axis=1)
        right = predicted == y
        own = z[everyone, y]
        z[everyone, y] = -np.inf
        rounding = 16 * float(np.finfo(z.dtype).eps)
        margin = np.abs(own - z.max(axis=1)) - rounding * (1 + np.abs(own))
        other = np.where(right, self._anyone, predicted)
        self._right[rows], self._other[rows] = right, other
        self._limit[rows] = margin / self._reach[rows] + self._distance[y] + self._distance[other]
