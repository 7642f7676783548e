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

SAME_LOSS, SAME_ACCURACY = 0.5, 2.0
"""Standard errors of a difference within which two iterates count as equal."""
PATIENCE = 3
"""A fold is over when its held-out loss has stood above its minimum for this many iterates of the flow."""


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
    """Observer that scores images left out of the loss."""

    def __init__(self, objective: Objective, X: Array, y: Array, patience: int | None) -> None:
        self._watch, self._y = objective.watch(X), y
        self._team, self._patience = objective.team, patience
        self._height = rows_per_chunk(objective.support.n_classes)
        self._losses: list[np.ndarray[Any, Any]] = []
        self._hits: list[np.ndarray[Any, Any]] = []
        self._best, self._best_at = np.inf, 0

    def __call__(self, iterate: Iterate) -> bool:
        def work(worker: int) -> list[tuple[Array, Array]]:
            mine = self._team.share(len(self._watch), worker)
            starts = range(mine.start, mine.stop, self._height)
            return [self._score(iterate, slice(a, min(a + self._height, mine.stop))) for a in starts]

        parts = [part for parts in self._team.map(work) for part in parts]
        losses, hits = (np.concatenate([_arrays.to_numpy(x) for x in column]) for column in zip(*parts, strict=True))
        self._losses.append(losses)
        self._hits.append(hits)
        total = float(losses.sum(dtype=np.float64))
        if total < self._best:
            self._best, self._best_at = total, len(self._losses)
        return self._patience is not None and len(self._losses) - self._best_at >= self._patience

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
    """Hold out each fold in turn; the record goes as far as every fold went.

    Parameters
    ----------
    support
        Examples sorted by fold: fold j are the rows `bounds[j]:bounds[j + 1]`.
    solver
        Walks each fold's complement.
    begin
        Builds the objective of a support and the point to start from.
    patience
        Iterates to go on after a fold's best; None to walk to the end.
    """
    records = []
    for low, high in pairwise(bounds):
        if low == high:
            continue
        rows = tuple((a, b) for a, b in ((0, low), (high, bounds[-1])) if a < b)
        objective, point = begin(replace(support, rows=rows))
        held = HeldOut(objective, support.F[low:high, :], support.y[low:high], patience)
        solver.run(objective, point, held)
        records.append(held.record)
        del objective, point, held  # Their buffers, before the next fold makes its own.
    shortest = min(len(record.losses) for record in records)
    return Record(
        np.concatenate([record.losses[:shortest] for record in records], axis=1),
        np.concatenate([record.hits[:shortest] for record in records], axis=1),
    )


def best_stop(record: Record) -> int:
    """How far to go: as far as held-out loss falls, unless that costs accuracy.

    The first iterate whose loss cannot be told from the lowest, meaning within half a standard error of the difference:
    log-loss along the flow has a flat bottom, and on its near side accuracy is a little better. Loss also falls merely
    because logits grow, so where accuracy has by then dropped clearly (by two standard errors) below its best, the last
    iterate before that drop is taken (docs/flow.md).

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
