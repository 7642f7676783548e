"""When to stop, by the log-loss of held-out images: of each fold of the support in turn, or of validation data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.threads import rows_per_chunk
from .objective import Objective, Point, Support
from .objective.cross_entropy import cross_entropy, own_entries
from .solvers import Iterate, Solver

SAME_LOSS = 0.5
"""Two iterates have the same loss if their losses differ by at most this many standard errors of the difference."""
SAME_ACCURACY = 2.0
"""The same for accuracy."""
CLEARLY_WORSE = 2.0
"""A loss is clearly worse if it is higher by more than this many standard errors of the difference."""
PATIENCE = 3
"""A run ends when its held-out loss has been clearly worse than its lowest for this many iterates in a row."""
ENOUGH_IMAGES = 30
"""With fewer held-out images a standard error says too little to end a run."""


class Record(NamedTuple):
    """Loss and correctness of each held-out image at each iterate, the start first; (iterates, images)."""

    losses: np.ndarray[Any, Any]
    hits: np.ndarray[Any, Any]
    """1 for a right prediction, 0 for a wrong one."""


class HeldOut:
    """Observer that scores held-out images. It stops the solver after `most` iterates, or when `patience` runs out."""

    def __init__(
        self,
        objective: Objective,
        X: Array,
        y: Array,
        patience: int | None,
        most: int | None = None,
        roots: Array | None = None,
    ) -> None:
        self._watch, self._y = objective.watch(X), y
        self._team, self._most = objective.team, most
        self._patience = patience if X.shape[0] >= ENOUGH_IMAGES else None
        self._height = rows_per_chunk(objective.support.n_classes)
        self._losses: list[np.ndarray[Any, Any]] = []
        self._hits: list[np.ndarray[Any, Any]] = []
        self._lowest, self._worse = 0, 0
        self._weights = None if roots is None else backend.to_numpy(roots) ** 2

    def __call__(self, iterate: Iterate) -> bool:
        def work(worker: int) -> list[tuple[Array, Array]]:
            mine = self._team.share(len(self._watch), worker)
            starts = range(mine.start, mine.stop, self._height)
            return [self._score(iterate, slice(a, min(a + self._height, mine.stop))) for a in starts]

        parts = [part for parts in self._team.map(work) for part in parts]
        losses, hits = (np.concatenate([backend.to_numpy(x) for x in column]) for column in zip(*parts, strict=True))
        if self._weights is not None:
            losses, hits = losses * self._weights, hits * self._weights
        self._losses.append(losses)
        self._hits.append(hits)
        excess = losses.astype(np.float64) - self._losses[self._lowest]
        if excess.sum() < 0:
            self._lowest = len(self._losses) - 1
        self._worse = 0 if _within(excess[None, :], CLEARLY_WORSE)[0] else self._worse + 1
        return self._worse == self._patience or len(self._losses) == self._most

    def _score(self, iterate: Iterate, rows: slice) -> tuple[Array, Array]:
        z, y = self._watch.logits(iterate.point, rows), self._y[rows]
        hits = z.argmax(1) == y
        return cross_entropy(z, own_entries(y, z.shape[1]), out=z), hits

    @property
    def record(self) -> Record:
        """All iterates so far."""
        return Record(np.stack(self._losses), np.stack(self._hits))


def cross_validate(
    support: Support,
    bounds: list[int],
    solver: Solver,
    begin: Callable[[Support], tuple[Objective, Point]],
    *,
    patience: int | None,
) -> Record:
    """Hold out each fold in turn. No run goes on for longer than those before it; the record has the shortest length.

    Parameters
    ----------
    support
        Examples sorted by fold: fold j are the rows `bounds[j]:bounds[j + 1]`.
    solver
        Runs on each fold's complement.
    begin
        Builds the objective of a support and the point to start from.
    patience
        Iterates with a clearly worse loss after which a run ends; None to go on to the end.
    """
    records: list[Record] = []
    for low, high in pairwise(bounds):
        if low == high:
            continue
        rows = tuple((a, b) for a, b in ((0, low), (high, bounds[-1])) if a < b)
        objective, point = begin(replace(support, rows=rows))
        most = len(records[-1].losses) if records else None
        X, roots = support.F[low:high, :], support.roots
        if roots is not None:  # Of mean weight 1 over all folds, so that means over images are weighted means.
            X = X / roots[low:high, None]
            roots = roots[low:high] / (roots**2).mean() ** 0.5
        held = HeldOut(objective, X, support.y[low:high], patience, most, roots)
        solver.run(objective, point, held)
        records.append(held.record)
        del objective, point, held  # Free their memory before the next fold needs as much.
    shortest = len(records[-1].losses)
    return Record(
        np.concatenate([record.losses[:shortest] for record in records], axis=1),
        np.concatenate([record.hits[:shortest] for record in records], axis=1),
    )


def best_stop(record: Record) -> int:
    """The iterate to stop at: where held-out loss no longer falls, unless accuracy has already dropped there.

    First choice is the first iterate with the same loss as the lowest, meaning within half a standard error of the
    difference: log-loss along the flow has a flat bottom, and accuracy is a little better at its beginning. Loss also
    falls merely because logits grow. So if accuracy at that iterate is more than two standard errors below its best,
    the last earlier iterate that is as accurate as the best is taken, or, if there is none, the first later one
    (docs/explanation/flow.md).

    >>> losses = np.array([[1.0, 1.2], [0.51, 0.69], [0.4, 0.79], [0.9, 0.9]])
    >>> best_stop(Record(losses, np.ones((4, 2))))
    1
    """
    losses, hits = (np.asarray(column, dtype=np.float64) for column in record)
    lowest = int(np.argmin(losses.mean(axis=1)))
    stop = int(np.flatnonzero(_within(losses - losses[lowest], SAME_LOSS))[0])
    surest = len(hits) - 1 - int(np.argmax(hits.mean(axis=1)[::-1]))
    accurate = np.flatnonzero(_within(hits[surest] - hits, SAME_ACCURACY))
    return int(max(accurate[accurate <= stop], default=accurate[0]))


def _within(excess: np.ndarray[Any, Any], errors: float) -> np.ndarray[Any, Any]:
    """Which rows have a mean of at most `errors` standard errors."""
    return excess.mean(axis=1) <= errors * excess.std(axis=1) / np.sqrt(excess.shape[1])  # type: ignore[no-any-return]
