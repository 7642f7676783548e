"""How far to go, asked of the support alone: held-out log-loss along the walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from . import _arrays
from ._arrays import Array
from .objective import Objective, Point, Support, rows_per_chunk
from .objective.base import cross_entropy, own_entries
from .solvers import Iterate, Solver

SAME_LOSS, SAME_ACCURACY, CLEARLY_WORSE = 0.5, 2.0, 2.0
"""Standard errors of a difference within which two iterates count as equal, and beyond which one is worse."""
PATIENCE, ENOUGH_IMAGES = 3, 30
"""A walk is over when its held-out loss has been clearly above its lowest for so many iterates of the flow in a row.

A few hard images can lift it for a while; of fewer than the second, not even a standard error tells.
"""


def assign_folds(y: np.ndarray[Any, Any], n_folds: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A fold for each example; every class is dealt out evenly, and the folds are of even size.

    A class with fewer examples than folds is held out in some folds only, and never altogether. Classes are dealt in
    the order in which they first appear, so that neither their names nor the order of `classes=` matters.

    >>> assign_folds(np.array([0, 0, 1, 1]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    >>> assign_folds(np.array([8, 8, 5, 5]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    """
    _, first, label = np.unique(y, return_index=True, return_inverse=True)
    order = np.lexsort((rng.permutation(len(y)), first[label]))
    folds = np.empty(len(y), dtype=np.intp)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


class Record(NamedTuple):
    """What became of each held-out image at each iterate, the start first; (iterates, images)."""

    losses: np.ndarray[Any, Any]
    hits: np.ndarray[Any, Any]
    """1 for a right prediction, 0 for a wrong one."""


class HeldOut:
    """Observer that scores images left out of the loss, and stops after `most` iterates or when `patience` is over."""

    def __init__(self, objective: Objective, X: Array, y: Array, patience: int | None, most: int | None = None) -> None:
        self._watch, self._y = objective.watch(X), y
        self._team, self._most = objective.team, most
        self._patience = patience if X.shape[0] >= ENOUGH_IMAGES else None
        self._height = rows_per_chunk(objective.support.n_classes)
        self._losses: list[np.ndarray[Any, Any]] = []
        self._hits: list[np.ndarray[Any, Any]] = []
        self._lowest, self._worse = 0, 0

    def __call__(self, iterate: Iterate) -> bool:
        def work(worker: int) -> list[tuple[Array, Array]]:
            mine = self._team.share(len(self._watch), worker)
            starts = range(mine.start, mine.stop, self._height)
            return [self._score(iterate, slice(a, min(a + self._height, mine.stop))) for a in starts]

        parts = [part for parts in self._team.map(work) for part in parts]
        losses, hits = (np.concatenate([_arrays.to_numpy(x) for x in column]) for column in zip(*parts, strict=True))
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
    """Hold out each fold in turn; the record goes as far as every fold went, and no fold further than those before it.

    Parameters
    ----------
    support
        Examples sorted by fold: fold j are the rows `bounds[j]:bounds[j + 1]`.
    solver
        Walks each fold's complement.
    begin
        Builds the objective of a support and the point to start from.
    patience
        Iterates to go on where a fold's loss is clearly above its lowest; None to walk to the end.
    """
    records: list[Record] = []
    for low, high in pairwise(bounds):
        if low == high:
            continue
        rows = tuple((a, b) for a, b in ((0, low), (high, bounds[-1])) if a < b)
        objective, point = begin(replace(support, rows=rows))
        most = len(records[-1].losses) if records else None
        held = HeldOut(objective, support.F[low:high, :], support.y[low:high], patience, most)
        solver.run(objective, point, held)
        records.append(held.record)
        del objective, point, held  # Their buffers, before the next fold makes its own.
    shortest = len(records[-1].losses)
    return Record(
        np.concatenate([record.losses[:shortest] for record in records], axis=1),
        np.concatenate([record.hits[:shortest] for record in records], axis=1),
    )


def best_stop(record: Record) -> int:
    """How far to go: as far as held-out loss falls, unless that costs accuracy.

    The first iterate whose loss cannot be told from the lowest, meaning within half a standard error of the difference:
    log-loss along the flow has a flat bottom, and on its near side accuracy is a little better. Loss also falls merely
    because logits grow, so where accuracy has by then dropped clearly (by two standard errors) below its best, the last
    iterate before that drop is taken; where it is clearly still to rise, the first that is as accurate as the best
    (docs/flow.md).

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
    """Which rows have a mean of at most `errors` standard errors above zero."""
    return excess.mean(axis=1) <= errors * excess.std(axis=1) / np.sqrt(excess.shape[1])  # type: ignore[no-any-return]
