"""How far to go: which iterate of a solver's walk becomes the classifier.

With a handful of examples the loss has no minimum (its infimum 0 lies at infinity) and accuracy falls again on the
way there. Stopping is part of the method, and each way of choosing where is an observer of the walk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from . import _arrays
from ._arrays import Array
from .objective import Objective, Point, Support, rows_per_chunk
from .solvers import Iterate

WORTH_BEING_LAZY = 2.0e7
"""Multiplications in scoring all validation images below which bounds cost more than they save."""


@dataclass
class History:
    """What happened along the walk, one entry an iterate; the start comes first.

    Columns that a way of selecting does not measure stay empty.

    >>> from lpplusplus import LPPlusPlus
    >>> probe = LPPlusPlus(recipe="paper", updates=2).fit(np.eye(4), [0, 0, 1, 1])
    >>> probe.history_.update
    [0, 1, 2]
    >>> sorted(probe.history_.as_arrays())
    ['loss', 'time', 'update']
    """

    update: list[int] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)
    held_out_loss: list[float] = field(default_factory=list)
    """Mean loss of held-out images at the same iterate; longer than the walk where those walks went on."""
    held_out_accuracy: list[float] = field(default_factory=list)

    def add(self, iterate: Iterate) -> None:
        """Note an iterate."""
        self.update.append(iterate.update)
        self.time.append(iterate.time)
        self.loss.append(iterate.loss)

    def as_lists(self) -> dict[str, list[float | None]]:
        """All columns; NaN, which JSON does not have, as None."""
        return {
            column.name: [None if value != value else value for value in getattr(self, column.name)]
            for column in fields(self)
        }

    @classmethod
    def from_lists(cls, columns: dict[str, list[float | None]]) -> History:
        """The inverse of `as_lists`."""
        if not all(isinstance(x, int | float | None) for column in columns.values() for x in column):
            raise ValueError("the history has entries that are not numbers")
        nan = float("nan")
        return cls(**{k: [nan if x is None else x for x in v] for k, v in columns.items()})  # type: ignore[arg-type]

    def as_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The columns that were filled, as arrays to plot."""
        columns = {column.name: np.asarray(getattr(self, column.name)) for column in fields(self)}
        return {name: values for name, values in columns.items() if values.size}


class Last:
    """Keep going until `stop` updates are made (or the solver ends) and take where that is."""

    def __init__(self, point: Point, history: History, stop: int | None = None) -> None:
        self.best, self.update = point, 0
        self._history, self._stop = history, stop

    def __call__(self, iterate: Iterate) -> bool:
        self._history.add(iterate)
        self.update = iterate.update
        return iterate.update == self._stop


class BestOnValidation:
    """Remember the iterate with the most validation images right.

    A validation set of K images has many ties; `ties` says whether the first or the latest of them wins.
    `from_update=1` leaves the start out, as the released code does.
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
        self._history.add(iterate)
        hits = self._count(iterate.point)
        self._history.validation_accuracy.append(hits / self._size)
        if iterate.update >= self._from and hits >= self.hits + self._margin:
            self.hits, self.update = hits, iterate.update
            self._objective.keep(iterate.point, self.best)
        return False


def hit_counter(objective: Objective, X: Array, y: Array) -> Callable[[Point], int]:
    """Counts correct predictions among `X`, `y` at a point, in the cheaper of two exact ways."""
    return (CountChanged if worth_being_lazy(objective.support, X) else CountAll)(objective, X, y)


def worth_being_lazy(support: Support, X: Array) -> bool:
    """Whether scoring all of `X` at every update costs more than bounding who can have changed."""
    return bool(X.shape[0] * support.n_classes * min(support.dim, support.size) >= WORTH_BEING_LAZY)


class CountAll:
    """Scores every image at every point."""

    def __init__(self, objective: Objective, X: Array, y: Array) -> None:
        self._watch, self._y = objective.watch(X), y

    def __call__(self, point: Point) -> int:
        right = self._watch.logits(point).argmax(1) == self._y
        return int(_arrays.namespace(right).count_nonzero(right))


class CountChanged:
    """Scores only the images whose answer can have changed since they were last looked at.

    Between two points the logit of image x for class k changes by at most ‖x‖·‖Δv_k‖ + |Δb_k|. An image that was right
    by some margin over all other classes stays right, and one that was wrong by some margin stays wrong, until the
    classes concerned have travelled that far. Exact: a margin too small for the arithmetic counts as none.
    """

    slack = 1e-4
    """Part of the distance added for rounding."""

    def __init__(self, objective: Objective, X: Array, y: Array) -> None:
        self._objective, self._watch, self._labels = objective, objective.watch(X), y
        self._odometer = objective.start_odometer()
        # Small arrays, many small steps: those are numpy's, wherever the images live.
        self._y = _arrays.to_numpy(y)
        self._anyone = objective.support.n_classes  # The odometer's entry for "whichever class moved most".
        self._other = np.zeros_like(self._y)  # The class that can change the answer, besides the right one.
        self._right = np.zeros(len(self._y), dtype=bool)
        self._limit = np.full(len(self._y), -np.inf)  # Distance at which to look again.
        self._distance = self._limit
        norms = _arrays.to_numpy(self._watch.norms).astype(np.float64)
        self._reach = np.maximum(norms, 1.0) * (1 + self.slack)

    def __call__(self, point: Point) -> int:
        self._distance = _arrays.to_numpy(self._odometer).astype(np.float64)
        rows = np.flatnonzero(self._distance[self._y] + self._distance[self._other] >= self._limit)
        height = rows_per_chunk(self._anyone) // 2  # Their embeddings are gathered beside their logits.
        for low in range(0, len(rows), height):
            self._look(point, rows[low : low + height])
        return int(np.count_nonzero(self._right))

    def _look(self, point: Point, rows: np.ndarray[Any, Any]) -> None:
        logits = self._watch.logits(point, _arrays.like(rows, self._labels), self._objective.team)
        z, y, everyone = _arrays.to_numpy(logits), self._y[rows], np.arange(len(rows))
        predicted = z.argmax(axis=1)
        right = predicted == y
        own = z[everyone, y]
        z[everyone, y] = -np.inf
        rounding = 16 * float(np.finfo(z.dtype).eps)
        margin = np.abs(own - z.max(axis=1)) - rounding * (1 + np.abs(own))
        other = np.where(right, self._anyone, predicted)
        self._right[rows], self._other[rows] = right, other
        self._limit[rows] = margin / self._reach[rows] + self._distance[y] + self._distance[other]
