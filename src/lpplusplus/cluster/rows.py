"""Embeddings that Ray workers hold, for a fit that asks each of them for sums over its rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.errors import BriefError
from ..images.embeddings import DIGEST, Embeddings, Origin, share_of
from ..images.errors import SourceError
from ..images.parquet import is_parquet, read_parquet
from ..images.parquet.addresses import spelled
from ..images.parquet.reading import files_of
from ..images.parquet.tables import named_classes
from ..images.saving import MOST_DIGESTS
from ..images.store import FeatureStore, is_store
from .connection import RETRIES, ClusterError, Slots, plain_error
from .jobs import absolute
from .remote_rows import RemoteRows, held

ARRAYS = ".npy"
"""Ending of a file with rows only: `np.load` maps it, and it is read block by block."""


@dataclass(frozen=True)
class RowsInfo:
    """What the driver has to know about the rows that a worker holds.

    Attributes
    ----------
    like
        An empty array of the same width and precision, (0, D).
    labels
        The different labels, and for each row the position of its label; None without labels.
    classes, names, origin
        As in `Embeddings`.
    digests
        The smallest of the images' digests, as many as a saved classifier keeps.
    """

    rows: int
    like: NDArray[Any]
    labels: tuple[NDArray[Any], NDArray[np.int32]] | None
    classes: tuple[str, ...]
    names: tuple[str, ...]
    origin: Origin | None
    digests: NDArray[np.uint64]


class RowWorker:
    """In a worker: some files of a data set.

    They are read at the first call. A worker that was lost and started again elsewhere reads them again; it keeps
    nothing else.
    """

    def __init__(self, place: str, share: tuple[int, int]) -> None:
        self._place, self._share = place, share
        self._X: NDArray[Any] | None = None

    def about(self) -> RowsInfo:
        """Read the files."""
        found = self._read()
        labels = None
        if found.labels is not None:
            different, which = np.unique(found.labels, return_inverse=True)
            labels = different, which.astype(np.int32)
        known = [] if self._place.endswith(ARRAYS) else found.digests()
        digests = np.unique(np.frombuffer(b"".join(known), f">u{DIGEST}"))[:MOST_DIGESTS]
        X = self._rows()
        return RowsInfo(len(X), X[:0], labels, found.classes, found.names, found.origin, digests)

    def do(self, first: int, *arguments: Any) -> Any:
        """See `held`."""
        X = self._rows()
        try:
            return held(X, first, *arguments)
        except (MemoryError, OSError) as error:  # Problems of its machine; errors of checks go to the user unchanged.
            raise ClusterError(repr(error)) from None

    def _rows(self) -> NDArray[Any]:
        return self._read().X[:, 0] if self._X is None else self._X

    def _read(self) -> Embeddings:
        try:
            found = _open(self._place, self._share)
        except Exception as error:
            said = str(error) if isinstance(error, BriefError | OSError | ImportError) else repr(error)
            raise ClusterError(said) from None
        if found.X.shape[1] > 1:
            raise ClusterError(
                f"{spelled(self._place)} has {found.X.shape[1]} random crops of each image: workers hold one embedding "
                f"each. Train with --engine local, or embed without --views."
            )
        self._X = found.X[:, 0]
        return found


def _open(place: str, share: tuple[int, int]) -> Embeddings:
    if place.endswith(ARRAYS):
        mapped = np.load(place, mmap_mode="r", allow_pickle=False)
        if mapped.ndim != 2 or mapped.dtype.kind != "f":
            raise SourceError(f"{place} has {mapped.dtype} of shape {mapped.shape}, expected (n, D) real numbers.")
        return Embeddings(share_of(mapped, share)[:, None])
    return FeatureStore(place).load(share=share) if is_store(Path(place)) else read_parquet(place, share=share)


class RowWorkers:
    """`Holders` that are actors of Ray."""

    def __init__(self, actors: Sequence[Any], about: Sequence[RowsInfo]) -> None:
        self._actors = actors
        self.starts = np.cumsum([0, *(one.rows for one in about)]).tolist()
        self.like = about[0].like

    def put(self, thing: Any) -> Any:
        import ray

        return ray.put(thing)

    def call(self, holder: int, *arguments: Any) -> Any:
        return self._actors[holder].do.remote(self.starts[holder], *arguments)

    def wait(self, begun: Any) -> Any:
        return _answer(begun)


def _answer(begun: Any) -> Any:
    import ray

    try:
        return ray.get(begun)
    except ray.exceptions.RayError as error:
        raise plain_error(error) from None


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
    files = _files(place)
    count = min(slots.check(), files)
    # While a worker restarts, calls are repeated; if it is lost for good, they fail.
    kind = ray.remote(max_restarts=RETRIES, max_task_retries=-1, **slots.options)(RowWorker)
    actors = [kind.remote(place, (number, count)) for number in range(count)]
    try:
        about = [_answer(begun) for begun in [actor.about.remote() for actor in actors]]
        yield _together(about, RemoteRows(RowWorkers(actors, about)), spelled(source))
    finally:
        for actor in actors:
            ray.kill(actor)


def _files(place: str) -> int:
    """Into how many parts a source can be divided."""
    if place.endswith(ARRAYS):
        return len(np.load(place, mmap_mode="r", allow_pickle=False))
    if is_store(Path(place)):
        return FeatureStore(place).shards
    if is_parquet(place):
        return files_of(place)
    if not Path(place).exists():
        raise SourceError(f"{place} does not exist.")
    raise SourceError(
        f"{spelled(place)} has no embeddings to train on: name a Parquet data set or a feature store, as lpp embed "
        f"makes them."
    )


def _together(about: Sequence[RowsInfo], X: RemoteRows, where: str) -> Embeddings:
    first = about[0]
    for one in about:
        if one.like.shape != first.like.shape or one.origin != first.origin or (one.labels is None) != (
            first.labels is None
        ):  # fmt: skip
            raise SourceError(f"{where}: its files differ in their columns, or in what made their embeddings.")
    labels, classes, names = None, first.classes, first.names
    if first.labels is not None:
        if any(one.classes != classes for one in about):  # No index says which there are.
            every = set().union(*(one.classes for one in about))
            classes, names = named_classes(every, all(label.isdecimal() for label in every), where)
        labels = np.concatenate([one.labels[0][one.labels[1]] for one in about if one.labels is not None])
    digests = np.unique(np.concatenate([one.digests for one in about]))[:MOST_DIGESTS]
    hashes = digests.astype(f">u{DIGEST}").view(np.uint8).reshape(-1, DIGEST)
    return Embeddings(X, labels, (), classes, names, first.origin, hashes=hashes, reused=len(X))  # type: ignore[arg-type]
