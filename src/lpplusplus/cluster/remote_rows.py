"""Embeddings that several processes hold, each a part of the rows, and the loss on them.

A fit is made of sums over rows. Each process gets the weights, (D, K) numbers, and sends back sums over its rows: the
gradient of W, just as large, and a few numbers per class. No row travels. Sums are added in the order of the rows, so
results repeat bit for bit as long as the rows are divided in the same way. The processes keep nothing but rows between
two calls, so one that is lost and started again only has to read its rows again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import array_api_compat
import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.rows import Rows
from .._core.threads import lazy, team
from ..probe.objective import Point, PrimalObjective, Support
from ..probe.objective.primal import Pass, Share


class Holders(Protocol):
    """The processes. Process h holds the rows from `starts[h]` to `starts[h + 1]`."""

    starts: Sequence[int]
    """The first row of each process; last, the number of all rows."""
    like: np.ndarray[Any, Any]
    """An empty array of the same width and precision as the rows, (0, D)."""

    def put(self, thing: Any) -> Any:
        """A reference to `thing` for use in calls, so that it is sent once and not with every call."""

    def call(self, holder: int, *arguments: Any) -> Any:
        """Start `held(X, first, *arguments)` in a process, with its rows as `X`."""

    def wait(self, begun: Any) -> Any:
        """The result of a call; raises its exception."""


def held(
    X: Array, first: int, work: Callable[..., Any], common: dict[str, Any], unit: bool, index: Any, factors: Any,
    *along: Any,
) -> Any:  # fmt: skip
    """In a process with the rows `X`, of which the first is row `first` of all: do `work`."""
    rows = Rows(X, index, unit=unit, factors=factors)
    rows.first = first
    return work(rows, *along, **common)


class RemoteObjective(PrimalObjective):
    """L in the coordinates of the weights; its images are `RemoteRows`."""

    def _make_room(self) -> None:
        pass

    def _prepare(self, point: Point, *, w: bool, alpha: bool, kappa: bool) -> Pass:
        # The gradient of α always comes from that of W: no products with the text are kept.
        return super()._prepare(point, w=w or alpha, alpha=alpha, kappa=kappa)

    def over_images(self, asked: Pass) -> tuple[list[Share], Array | None]:
        support, shares, gradient = self.support, [], None
        for share, part in support.F.each(_images_there, support.y, support.roots, k=support.n_classes, asked=asked):
            shares.append(share)
            if gradient is None:
                gradient = None if part is None else backend.copy(part)
            else:
                gradient += part
        return shares, gradient


def _images_there(F: Rows, y: Array, roots: Array | None, k: int, asked: Pass) -> tuple[Share, Array | None]:
    """A pass over the images of one process, on all threads that it has."""
    support = Support(F, y, k, None, roots)
    with team(F, 4.0 * support.size * support.dim * k) as workers:
        shares, gradient = PrimalObjective(support, team=workers, freeze=False).over_images(asked)
    loss, intercept, kappa, _, sizes = zip(*shares, strict=True)
    return Share(sum(loss), sum(intercept), sum(kappa), 0.0, max(sizes)), gradient


class RemoteRows(Rows):
    """Rows that other processes hold; used in place of `Rows`.

    Parameters
    ----------
    holders
        The processes.
    index, unit, factors
        As in `Rows`.
    """

    form = RemoteObjective

    def __init__(
        self, holders: Holders, index: Array | None = None, *, unit: bool = False, factors: Array | None = None
    ) -> None:
        self.source, self._index, self._unit, self._factors = holders.like, index, unit, factors
        self._map, self._holders = None, holders
        count = holders.starts[-1] if index is None else len(index)
        self.shape = int(count), int(holders.like.shape[1])
        self.dtype = np.dtype(backend.working_dtype(holders.like))
        self.device = array_api_compat.device(holders.like)
        self._sent: list[tuple[Any, list[Any]]] = []

    def each(self, work: Callable[..., Any], *along: Array | None, **common: Any) -> Iterator[Any]:
        """`work(rows, *along, **common)` in each process that holds some of these rows, in the order of the rows.

        Parameters
        ----------
        work
            A function of a module; it gets `Rows`.
        along
            Arrays with an entry for each row, or None. Each process gets its part; the same array is sent only once.
        common
            Arguments that are the same for all.
        """
        everywhere = self._holders.put(common)
        columns = [self._parts(one) for one in (self._local, self._factors, *along)]
        calls = deque(
            self._holders.call(holder, work, everywhere, self._unit, *(column[part] for column in columns))
            for part, (holder, _) in enumerate(self._mine)
        )
        # Each answer is released when it has been used, so that not all have to fit into memory at once.
        return (self._holders.wait(calls.popleft()) for _ in range(len(calls)))

    def read(self, rows: Any, room: Array | None = None) -> Array:
        """Some of the rows, brought here."""
        wanted = self.take(np.arange(len(self))[rows])
        assert isinstance(wanted, RemoteRows)
        block = np.empty(wanted.shape, self.dtype)
        for (_, mine), part in zip(wanted._mine, wanted.each(_all_of), strict=True):
            block[mine] = part
        return block

    def unit(self) -> Rows:
        """Scaled to length 1, at every reading."""
        return self._with(self._index, self._factors, unit=True)

    def _with(self, index: Array | None, factors: Array | None, unit: bool) -> Rows:
        return RemoteRows(self._holders, index, unit=unit, factors=factors)

    @lazy
    def _mine(self) -> list[tuple[int, Any]]:
        """The processes that hold some of these rows, each with the positions of its rows among them."""
        ranges = enumerate(pairwise(self._holders.starts))
        if self._index is None:
            return [(holder, slice(low, high)) for holder, (low, high) in ranges if low < high]
        found = [
            (holder, np.flatnonzero((self._index >= low) & (self._index < high))) for holder, (low, high) in ranges
        ]
        return [(holder, mine) for holder, mine in found if len(mine)]

    @lazy
    def _local(self) -> Array | None:
        """The position of each row in its process; None for all rows."""
        if self._index is None:
            return None
        starts = np.asarray(self._holders.starts)
        return self._index - starts[np.searchsorted(starts, self._index, side="right") - 1]

    def _parts(self, column: Array | None) -> list[Any]:
        """Each process's part of an array, sent once."""
        if column is None:
            return [None] * len(self._mine)
        for known, parts in self._sent:
            if known is column:
                return parts
        parts = [self._holders.put(column[mine]) for _, mine in self._mine]
        self._sent.append((column, parts))
        return parts


def _all_of(rows: Rows) -> Array:
    return rows[:, :]
