"""When to stop, by the log-loss of held-out images: each fold of the support in turn, or validation data.

Each iterate is judged by its loss at the best temperature: log-loss also falls merely because logits grow, and that is
no reason to go on. So its logits are multiplied by the factor that gives the lowest loss. The classifier's own factor
comes from the logits of the chosen iterate (`held_out`). See docs/explanation/flow.md.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.threads import ALONE, Team, rows_per_chunk
from .objective import Objective, Point
from .solvers import Iterate, Solver

Kept = TypeVar("Kept")

SCALES = tuple(2.0**j for j in range(-3, 5))
"""Factors of the logits to try; between them the loss is interpolated."""
CLEARLY_WORSE = 2.0
"""A loss is clearly worse if it is higher by more than this many standard errors of the difference."""
PATIENCE = 3
"""A run ends when its held-out loss has been clearly worse than its lowest for this many iterates in a row."""
FEW_IMAGES = 30
"""With fewer held-out images a standard error says too little to end a run."""
ENOUGH_IMAGES = 500
"""With this many held-out images the choice is certain: no more are scored, and no further fold is run."""
SHORT_PATIENCE = 2
"""With enough images, a run ends when its loss has not been clearly better than its lowest for this many iterates."""


class Record(NamedTuple):
    """How each iterate did on held-out images, the start first."""

    times: np.ndarray[Any, Any]
    """`Iterate.time`: how far along the path each iterate is; (iterates,)."""
    losses: np.ndarray[Any, Any]
    """Loss of each image with its logits times each of `SCALES`; (iterates, scales, images)."""
    hits: np.ndarray[Any, Any]
    """1 for a right prediction, 0 for a wrong one; (iterates, images)."""
    gaps: np.ndarray[Any, Any]
    """How far the logit of the right class is above the mean logit; (iterates, images)."""
    logits: list[np.ndarray[Any, Any]] = []  # noqa: RUF012  (A default of a NamedTuple, never written to.)
    """Logits of every n-th image of each fold; (classes, images) for each iterate."""


class HeldOut:
    """Observer that scores held-out images. It stops the solver after `most` iterates, or when `patience` runs out.

    The record has the logits of the first image and of each `every`-th after it. With `by_itself` (no other record
    joins this one) it has them at the best iterate only.
    """

    def __init__(
        self, objective: Objective, X: Array, y: Array, patience: int | None, weights: Array | None = None,
        every: int = 1, *, by_itself: bool = False,
    ) -> None:  # fmt: skip
        self.objective = objective
        self.most: int | None = None
        self._watch, self._y, self._every = objective.watch(X), y, every
        self._scales = backend.like(np.asarray(SCALES), X, dtype=X.dtype)
        self._team, self._by_itself = objective.team, by_itself
        self._patience = patience if X.shape[0] >= FEW_IMAGES else None
        self._certain = self._patience is not None and X.shape[0] >= ENOUGH_IMAGES
        if self._certain:
            self._patience = SHORT_PATIENCE
        self._height = -(-rows_per_chunk(objective.support.n_classes) // len(SCALES))
        self._times: list[float] = []
        self._scores: list[tuple[np.ndarray[Any, Any], ...]] = []
        self._logits: list[np.ndarray[Any, Any]] = []
        self._lowest, self._worse = np.empty(0), 0
        self._weights = None if weights is None else backend.to_numpy(weights)

    def __call__(self, iterate: Iterate) -> bool:
        def work(worker: int) -> list[tuple[Array, ...]]:
            mine = self._team.share(len(self._watch), worker)
            starts = range(mine.start, mine.stop, self._height)
            return [self._score(iterate, slice(a, min(a + self._height, mine.stop))) for a in starts]

        parts = [part for parts in self._team.map(work) for part in parts]
        columns = zip(*parts, strict=True)
        *scores, logits = (np.concatenate([backend.to_numpy(x) for x in column], axis=-1) for column in columns)
        if self._weights is not None:  # Of mean 1, so that means over images are weighted means.
            scores = [score * self._weights for score in scores]
        self._times.append(iterate.time)
        self._scores.append(tuple(scores))
        self._logits.append(logits)
        if self._by_itself:
            best = judge(self.record).stop
            self._logits = [kept if i == best else kept[:, :0].copy() for i, kept in enumerate(self._logits)]
        losses = scores[0].astype(np.float64)
        losses = losses[np.argmin(losses.mean(axis=1))]
        if not len(self._lowest):
            self._lowest = losses + 1
        excess = losses - self._lowest
        clear = CLEARLY_WORSE * excess.std() / np.sqrt(len(excess))
        self._worse = self._worse + 1 if excess.mean() > (-clear if self._certain else clear) else 0
        if losses.sum() < self._lowest.sum():
            self._lowest = losses
        return self._worse == self._patience or len(self._times) == self.most

    def _score(self, iterate: Iterate, rows: slice) -> tuple[Array, ...]:
        """What the record keeps, for some of the images."""
        z, y = self._watch.logits(iterate.point, rows), self._y[rows]
        xp = backend.namespace(z)
        hits = z.argmax(1) == y
        gaps = z[backend.arange(y, y.shape[0]), y] - xp.mean(z, axis=1)
        kept = z[-rows.start % self._every :: self._every, :].T
        z = z - xp.max(z, axis=1)[:, None]
        own = z[backend.arange(y, y.shape[0]), y]
        # Powers below e⁻⁸⁰ change nothing, and subnormal numbers would be slow.
        powers = (self._scales[:, None, None] * z).clip(-80.0)
        totals = backend.row_sums(xp.exp(powers, out=powers).reshape(-1, z.shape[1]))
        return xp.log(totals).reshape(len(SCALES), -1) - self._scales[:, None] * own, hits, gaps, kept

    @property
    def record(self) -> Record:
        """All iterates so far."""
        losses, hits, gaps = map(np.stack, zip(*self._scores, strict=True))
        return Record(np.asarray(self._times), losses, hits, gaps, self._logits)


def cross_validate(
    walks: Sequence[tuple[Any, Any]], hold_out: Callable[[Any, Any], tuple[HeldOut, Point, Kept]], solver: Solver,
    team: Team = ALONE,
) -> tuple[Record, list[Kept]]:  # fmt: skip
    """Hold out each fold in turn. The record has the length of the shortest run.

    Parameters
    ----------
    walks
        Rows to hold out and rows that remain, as `splits` gives them.
    hold_out
        Gives the observer of the images that are held out, the point to start from, and anything to hand back.
    solver
        Runs on each fold's complement.
    team
        Its threads run the folds side by side.
    """
    lengths: list[int] = []

    def walk(number: int) -> tuple[Record, Kept]:
        held, point, kept = hold_out(*walks[number])
        # No run goes on for longer than the shortest so far: the record has the length of the shortest.
        held.most = min(lengths, default=None)
        solver.run(held.objective, point, held)
        record = held.record
        lengths.append(len(record.times))
        return record, kept

    records, kept = zip(*team.each(walk, len(walks)), strict=True)
    if len(records) == 1:
        return records[0], list(kept)
    times, *columns, logits = ([part[: min(lengths)] for part in column] for column in zip(*records, strict=True))
    losses, hits, gaps = (np.concatenate(column, axis=-1) for column in columns)
    joined = [np.concatenate(parts, axis=-1) for parts in zip(*logits, strict=True)]
    return Record(times[0], losses, hits, gaps, joined), list(kept)


class Judgement(NamedTuple):
    """Loss of each iterate at its best temperature, and the factor of the logits that gives it."""

    losses: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any]

    @property
    def stop(self) -> int:
        """The iterate with the lowest loss."""
        return int(np.argmin(self.losses))


def judge(record: Record) -> Judgement:
    """The loss of each iterate at its best temperature, as if one more image with a random label had been held out.

    A random label costs mean gap x scale more than a right one. Without it, a few held-out images that are all right
    would make the classifier certain. The best scale is the lowest point of the parabola through the best of `SCALES`
    and its two neighbours.

    >>> losses = np.array([1.0, 0.8, 0.6, 0.5, 0.6, 0.8, 1.0, 1.2]).reshape(1, 8, 1)
    >>> [float(x[0]) for x in judge(Record(np.zeros(1), losses, np.ones((1, 1)), np.zeros((1, 1))))]
    [0.5, 1.0]
    """
    images = record.hits.shape[1]
    means = record.losses.mean(axis=2, dtype=np.float64)
    means += np.asarray(SCALES) * record.gaps.mean(axis=1, dtype=np.float64)[:, None] / (images + 1)
    best = np.clip(np.argmin(means, axis=1), 1, len(SCALES) - 2)
    left, middle, right = (np.take_along_axis(means, best[:, None] + j, axis=1)[:, 0] for j in (-1, 0, 1))
    slope, bend = (right - left) / 2, right - 2 * middle + left
    shift = np.clip(-slope / np.where(bend > 0, bend, np.inf), -1, 1)
    shift = np.where(bend > 0, shift, -np.sign(slope))
    losses = middle + slope * shift + bend * shift**2 / 2
    return Judgement(losses, np.asarray(SCALES)[best] * 2.0**shift)
