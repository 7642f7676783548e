"""How far to go, asked of the support alone: held-out log-loss along the walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from . import _arrays
from ._arrays import Array
from .objective import Objective, Point, Support, rows_per_chunk
from .objective.base import cross_entropy, own_entries
from .solvers import Iterate, Solver

FOLDS = 4
STANDARD_ERRORS = 0.5
PATIENCE = 3
"""A fold is over when its held-out loss has stood above its minimum for this many iterates of the flow."""


def assign_folds(y: np.ndarray[Any, Any], n_folds: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A fold for each example; every class is dealt out evenly, and the folds are of even size.

    A class with fewer examples than folds is held out in some folds only, and never altogether.

    >>> assign_folds(np.array([0, 0, 1, 1]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    """
    order = np.lexsort((rng.permutation(len(y)), y))
    folds = np.empty(len(y), dtype=np.intp)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


class HeldOut:
    """Observer that scores the images of the fold left out."""

    def __init__(self, objective: Objective, X: Array, y: Array, patience: int | None) -> None:
        self._watch, self._y = objective.watch(X), y
        self._team, self._patience = objective.team, patience
        self._height = rows_per_chunk(objective.support.n_classes)
        self.losses: list[np.ndarray[Any, Any]] = []
        """At each iterate, the loss of each image."""
        self._best, self._best_at = np.inf, 0

    def __call__(self, iterate: Iterate) -> bool:
        def work(worker: int) -> list[Array]:
            mine = self._team.share(len(self._watch), worker)
            starts = range(mine.start, mine.stop, self._height)
            return [self._score(iterate, slice(a, min(a + self._height, mine.stop))) for a in starts]

        parts = [_arrays.to_numpy(part) for parts in self._team.map(work) for part in parts]
        self.losses.append(np.concatenate(parts))
        total = float(self.losses[-1].sum(dtype=np.float64))
        if total < self._best:
            self._best, self._best_at = total, len(self.losses)
        return self._patience is not None and len(self.losses) - self._best_at >= self._patience

    def _score(self, iterate: Iterate, rows: slice) -> Array:
        z, y = self._watch.logits(iterate.point, rows), self._y[rows]
        return cross_entropy(z, own_entries(y, z.shape[1]), out=z)


def held_out_losses(
    support: Support,
    bounds: list[int],
    solver: Solver,
    begin: Callable[[Support], tuple[Objective, Point]],
    *,
    patience: int | None,
) -> np.ndarray[Any, Any]:
    """Held-out log-loss of each image at each iterate, (iterates, N), the start first, as far as every fold went.

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
    paths = []
    for low, high in pairwise(bounds):
        if low == high:
            continue
        rows = tuple((a, b) for a, b in ((0, low), (high, bounds[-1])) if a < b)
        objective, point = begin(replace(support, rows=rows))
        held = HeldOut(objective, support.F[low:high, :], support.y[low:high], patience)
        solver.run(objective, point, held)
        paths.append(held.losses)
        del objective, point, held  # Their buffers, before the next fold makes its own.
    shortest = min(len(path) for path in paths)
    return np.stack([np.concatenate([path[j] for path in paths]) for j in range(shortest)])


def best_stop(losses: np.ndarray[Any, Any]) -> int:
    """The first iterate whose held-out loss cannot be told from the lowest one.

    "Cannot be told" means within half a standard error of the difference. Log-loss along the flow has a flat bottom,
    and on its near side accuracy is a little better (docs/flow.md).

    >>> best_stop(np.array([[1.0, 1.2], [0.5, 0.7], [0.5, 0.6999], [0.9, 0.9]]))
    1
    """
    means = losses.mean(axis=1, dtype=np.float64)
    lowest = int(np.argmin(means))
    differences = losses - losses[lowest]
    error = differences.std(axis=1, dtype=np.float64) / np.sqrt(losses.shape[1])
    return int(np.flatnonzero(means <= means[lowest] + STANDARD_ERRORS * error)[0])
