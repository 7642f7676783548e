"""Rows that Ray workers hold, and the loss on them: a fit asks each worker for sums over its rows.

Each worker gets the weights, (D, K) numbers, and sends back sums: the gradient of W, just as large, and a few numbers
per class. No row travels. Sums are added in the order of the rows, so results repeat bit for bit as long as the rows
are divided in the same way. Workers keep nothing but rows between two calls, so one that is lost and started again only
has to read its rows again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from .._core import backend
from .._core.backend import Array
from .._core.rows import Rows
from .._core.threads import lazy, team
from ..images.embeddings import DIGEST, Embeddings, share_of
from ..images.errors import SourceError
from ..images.parquet import is_parquet, read_parquet
from ..images.parquet.addresses import spelled
from ..images.parquet.reading import files_of
from ..images.parquet.tables import named_classes
from ..images.saving import MOST_DIGESTS
from ..images.store import FeatureStore, is_store
from ..probe.objective import Point, PrimalObjective, Support
from ..probe.objective.primal import Pass, Share
from .connection import RETRIES, ClusterError, Slots, outcome, sendable
from .jobs import absolute

ARRAYS = ".npy"
"""Ending of a file with rows only: `np.load` maps it, and it is read block by block."""


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
        The processes: `RowWorkers`, or what has the same attributes.
    index, unit, factors
        As in `Rows`.
    """

    form = RemoteObjective

    def __init__(
        self, holders: RowWorkers, index: Array | None = None, *, unit: bool = False, factors: Array | None = None
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
        ranges, index = enumerate(pairwise(self._holders.starts)), self._index
        if index is None:
            return [(holder, slice(low, high)) for holder, (low, high) in ranges if low < high]
        found = [(holder, np.flatnonzero((index >= low) & (index < high))) for holder, (low, high) in ranges]
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


Info: TypeAlias = tuple[int, Embeddings, NDArray[np.int32] | None]
"""What the driver has to know about the rows that a worker holds: their number; embeddings without rows and paths, with
each different label once, and the smallest digests; and for each row the position of its label."""


class RowWorker:
    """In a worker: some files of a data set.

    They are read at the first call. A worker that was lost and started again elsewhere reads them again; it keeps
    nothing else.
    """

    def __init__(self, place: str, share: tuple[int, int]) -> None:
        self._place, self._share = place, share
        self._X: NDArray[Any] | None = None

    def about(self) -> Info:
        """Read the files."""
        embeddings = self._read()
        labels, which = embeddings.labels, None
        if labels is not None:
            labels, positions = np.unique(labels, return_inverse=True)
            which = positions.astype(np.int32)
        known = [] if self._place.endswith(ARRAYS) else embeddings.digests()
        hashes = _smallest(np.frombuffer(b"".join(known), np.uint8).reshape(-1, DIGEST))
        bare = Embeddings(embeddings.X[:0], labels, (), embeddings.classes, embeddings.names, embeddings.origin,
                          hashes=hashes)  # fmt: skip
        return len(embeddings), bare, which

    def do(self, first: int, *arguments: Any) -> Any:
        """See `held`."""
        X = self._read().X[:, 0] if self._X is None else self._X
        try:
            return held(X, first, *arguments)
        except (MemoryError, OSError) as error:  # Problems of its machine; errors of checks go to the user unchanged.
            raise ClusterError(repr(error)) from None

    def _read(self) -> Embeddings:
        try:
            embeddings = _source(self._place)[1](self._share)
        except Exception as error:
            raise sendable(error) from None
        if embeddings.X.shape[1] > 1:
            raise ClusterError(
                f"{spelled(self._place)} has {embeddings.X.shape[1]} random crops of each image: workers hold one "
                f"embedding each. Train with --engine local, or embed without --views."
            )
        self._X = embeddings.X[:, 0]
        return embeddings


def _smallest(digests: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """As many different digests, (n, DIGEST), as a saved classifier keeps."""
    numbers = np.unique(np.ascontiguousarray(digests).view(f">u{DIGEST}"))[:MOST_DIGESTS]
    return numbers.view(np.uint8).reshape(-1, DIGEST)


def _source(place: str) -> tuple[int, Callable[[tuple[int, int]], Embeddings]]:
    """Into how many parts a source can be divided, and what reads part k of n."""
    if place.endswith(ARRAYS):
        mapped = np.load(place, mmap_mode="r", allow_pickle=False)
        if mapped.ndim != 2 or mapped.dtype.kind != "f":
            raise SourceError(f"{place} has {mapped.dtype} of shape {mapped.shape}, expected (n, D) real numbers.")
        return len(mapped), lambda share: Embeddings(share_of(mapped, share)[:, None])
    if is_store(Path(place)):
        store = FeatureStore(place)
        return store.shards, lambda share: store.load(share=share)
    if is_parquet(place):
        return files_of(place), lambda share: read_parquet(place, share=share)
    if not Path(place).exists():
        raise SourceError(f"{place} does not exist.")
    raise SourceError(
        f"{spelled(place)} has no embeddings to train on: name a Parquet data set or a feature store, as lpp embed "
        f"makes them."
    )


class RowWorkers:
    """The processes, actors of Ray. Process h holds the rows from `starts[h]` to `starts[h + 1]`."""

    def __init__(self, actors: Sequence[Any], about: Sequence[Info]) -> None:
        self._actors = actors
        self.starts = np.cumsum([0, *(rows for rows, *_ in about)]).tolist()
        self.like = about[0][1].X[:, 0]
        """An empty array of the same width and precision as the rows, (0, D)."""

    def put(self, thing: Any) -> Any:
        """A reference to `thing` for use in calls, so that it is sent once and not with every call."""
        import ray

        return ray.put(thing)

    def call(self, holder: int, *arguments: Any) -> Any:
        """Start `held(X, first, *arguments)` in a process, with its rows as `X`."""
        return self._actors[holder].do.remote(self.starts[holder], *arguments)

    def wait(self, begun: Any) -> Any:
        """The result of a call; raises its exception."""
        return _answer(begun)


def _answer(begun: Any) -> Any:
    result = outcome(begun)
    if isinstance(result, Exception):
        raise result
    return result


@contextmanager
def distributed_rows(source: str, slots: Slots | None = None) -> Iterator[Embeddings]:
    """Embeddings whose rows are held by workers of the connected cluster, inside the `with` block.

    Pass `X` of the result to `fit` of `LPPlusPlus`, `GDA` or `ZeroShot`, in place of an array: workers get weights and
    send back sums per class. No process holds all rows. Up to rounding, the classifier is that of a fit in memory.
    `hashes` are those that a saved classifier keeps, in no order.

    Parameters
    ----------
    source
        A Parquet data set or what clip-retrieval wrote, by path or address; a feature store; or a `.npy` file with rows
        only, which workers map. Every node must be able to read it. A worker takes whole files.
    slots
        What each worker asks for.

    Examples
    --------
    with connected("head:6379"), distributed_rows("s3://bucket/features") as found:
        probe = LPPlusPlus().fit(found.X, found.labels, text=T)
    """
    import ray

    place, slots = absolute(source), slots or Slots()
    count = min(slots.check(), _source(place)[0])
    # While a worker restarts, calls are repeated; if it is lost for good, they fail.
    kind = ray.remote(max_restarts=RETRIES, max_task_retries=-1, **slots.options)(RowWorker)
    actors = [kind.remote(place, (number, count)) for number in range(count)]
    try:
        about = [_answer(begun) for begun in [actor.about.remote() for actor in actors]]
        yield _together(about, RemoteRows(RowWorkers(actors, about)), spelled(source))
    finally:
        for actor in actors:
            ray.kill(actor)


def _together(about: Sequence[Info], X: RemoteRows, where: str) -> Embeddings:
    parts = [part for _, part, _ in about]
    first = parts[0]
    if len({(part.X.shape, part.X.dtype, part.origin, part.labels is None) for part in parts}) > 1:
        raise SourceError(f"{where}: its files differ in their columns, or in what made their embeddings.")
    labels, classes, names = None, first.classes, first.names
    if first.labels is not None:
        if any(part.classes != classes for part in parts):  # No index says which there are.
            every = set().union(*(part.classes for part in parts))
            classes, names = named_classes(every, all(label.isdecimal() for label in every), where)
        labels = np.concatenate([part.labels[which] for _, part, which in about if part.labels is not None])
    hashes = _smallest(np.concatenate([part.hashes for part in parts if part.hashes is not None]))
    return Embeddings(X, labels, (), classes, names, first.origin, hashes=hashes, reused=len(X))  # type: ignore[arg-type]
