"""Pictures to embeddings: decoding on some threads beside inference on this one, with or without a feature store.

Results depend on the list of pictures, the encoder and the views, not on the number of workers or on interruptions:
pictures are taken in their order, batches are formed inside a shard, and a random view draws from the hash of its
picture's content.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from .encoders import Encoder, EncoderError
from .pixels.decoding import (
    CONVENTIONS,
    DEFAULT_LIMITS,
    ImageError,
    Limits,
    convert,
    decode,
    quiet_pillow,
    read_bytes,
)
from .pixels.preprocessing import ElongatedError
from .sources import ImageSet, SourceError
from .store import ROWS_PER_SHARD, FeatureStore, Settings, Shard, StoreWriter
from .store.shards import list_digest

Progress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of an `ImageSet`.

    Attributes
    ----------
    X
        (n, V, D) float32 as the encoder gives them, not normalised; V = 1 for the centre crop.
    labels
        n labels, or None.
    paths
        n paths, as `ImageSet.paths` has them.
    positions
        (n,) place of each in the `ImageSet`, which differs from 0 … n - 1 where pictures were skipped.
    hashes
        (n, 32) SHA-256 of each file's bytes, or of the pixels of a picture that is in no file.
    classes, names
        As the `ImageSet` has them.
    skipped
        Why pictures are missing, in their order.
    reused, computed
        How many embeddings came from the store or from an identical picture, and how many from the encoder.
    left_aside
        How many embeddings of another list the store held; they are now in its folder `replaced`.
    """

    X: NDArray[np.float32]
    labels: NDArray[np.str_] | None
    paths: list[str]
    positions: NDArray[np.intp]
    hashes: NDArray[np.uint8]
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    skipped: list[ImageError] = field(default_factory=list)
    reused: int = 0
    computed: int = 0
    left_aside: int = 0


def embed(
    images: ImageSet,
    encoder: Encoder,
    *,
    store: str | PathLike[str] | None = None,
    views: int = 0,
    on_error: Literal["stop", "skip"] = "stop",
    workers: int | None = None,
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Embedded:
    """Embed pictures, using and filling a feature store if one is named.

    Parameters
    ----------
    images
        What to embed.
    encoder
        With what.
    store
        Folder of a feature store, which afterwards holds just these images; what it has is not computed again. If this
        is interrupted, finished shards stay, and the next call goes on from there. Embeddings of another list, without
        an image of this one, are set aside and not removed.
    views
        0 for the centre crop, else how many random crops of each image.
    on_error
        "stop" raises the `ImageError` of the first bad image in the order of the list; "skip" goes on without, and
        lists it in `skipped`.
    workers
        Threads that read and decode; as many as there are cores unless told.
    progress
        Called as `progress(done, total)` in this thread, now and then and at the end.
    limits
        Largest image to decode.
    """
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error must be 'stop' or 'skip', got {on_error!r}.")
    if isinstance(views, bool) or not isinstance(views, int | np.integer) or views < 0:
        raise ValueError(f"views must be a whole number from 0, got {views!r}.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if images.problems and on_error == "stop":
        raise images.problems[0]
    if not images.items and not images.problems:
        raise SourceError(f"{images.origin} has no images.")
    settings = Settings(
        encoder.spec, encoder.fingerprint, encoder.preprocessing, int(encoder.dim), CONVENTIONS, int(views)
    )
    run = _Run(images, encoder, settings, limits, on_error == "skip", progress)
    writer = None if store is None else StoreWriter(store, settings, run.listed)
    with quiet_pillow(), writer or nullcontext():
        run.all(writer, workers or joblib.cpu_count())
        left_aside = 0
        if writer is None:
            X = np.concatenate(run.parts)
        else:
            left_aside = writer.finish(images.classes, images.names, images.labels is not None)
            X = FeatureStore(writer.path).load().X
    positions = np.array(run.positions, np.intp)
    return Embedded(
        X,
        None if images.labels is None else images.labels[positions],
        [run.paths[position] for position in run.positions],
        positions,
        _stacked(run.digests),
        images.classes,
        images.names,
        [*images.problems, *run.skipped],
        run.reused,
        run.computed,
        left_aside,
    )


class _Picture(NamedTuple):
    """A picture's hash, and its views as the encoder takes them unless its embedding is known already."""

    digest: bytes
    prepared: list[Any] | None


class _Run:
    """One call of `embed`."""

    def __init__(
        self, images: ImageSet, encoder: Encoder, settings: Settings, limits: Limits, skip: bool,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.images, self.encoder, self.settings, self.limits = images, encoder, settings, limits
        self.skip, self.progress = skip, progress
        self.paths = images.paths()
        self.labels = None if images.labels is None else images.labels.tolist()
        self.spans = [slice(a, min(a + ROWS_PER_SHARD, len(images))) for a in range(0, len(images), ROWS_PER_SHARD)]
        self.listed = [
            list_digest(self.paths[span], None if self.labels is None else self.labels[span]) for span in self.spans
        ]
        self.positions: list[int] = []
        self.digests: list[bytes] = []
        self.parts: list[NDArray[np.float32]] = [np.empty((0, *settings.shape), np.float32)]
        self.memory: dict[bytes, NDArray[np.float32]] = {}
        self.skipped: list[ImageError] = []
        self.reused = self.computed = 0

    def all(self, writer: StoreWriter | None, workers: int) -> None:
        """Every shard in turn."""
        pool = ThreadPoolExecutor(workers, thread_name_prefix="lpplusplus-decode")
        try:
            ahead = workers + -(-2 * self.encoder.batch_size // self.settings.shape[0])
            pictures = _in_order(pool, lambda position: self._read(position, writer), len(self.images), ahead)
            for number in range(len(self.spans)):
                self._shard(number, pictures, writer)
            self._report(len(self.images))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _shard(self, number: int, pictures: Iterator[_Picture | ImageError], writer: StoreWriter | None) -> None:
        span = self.spans[number]
        batches = _Batches(self.encoder, self.settings.shape)
        found: list[tuple[int, bytes]] = []
        for position in range(span.start, span.stop):
            picture = next(pictures)
            if isinstance(picture, ImageError):
                if not self.skip:
                    raise picture
                self.skipped.append(picture)
                continue
            found.append((position, picture.digest))
            if picture.digest in batches or self._knows(number, picture.digest, writer):
                self.reused += 1
                continue
            assert picture.prepared is not None
            self.computed += 1
            if batches.add(picture.digest, picture.prepared):
                self._report(position + 1 - batches.waiting)
        batches.flush()
        self._keep(number, found, batches, writer)
        self._report(span.stop)

    def _keep(self, number: int, found: list[tuple[int, bytes]], batches: _Batches, writer: StoreWriter | None) -> None:
        """Put a shard where it belongs: on disk or in memory."""
        self.positions += [position for position, _ in found]
        self.digests += [digest for _, digest in found]
        new = batches.embeddings()
        if writer is None:
            self.memory.update(new)
            rows = [self.memory[digest] for _, digest in found]
            self.parts.append(np.array(rows, np.float32).reshape(-1, *self.settings.shape))
            return
        span = self.spans[number]
        hashes = _stacked([digest for _, digest in found])
        positions = np.array([position - span.start for position, _ in found], np.int32)
        if writer.matches(number, hashes, positions):
            return
        rows = [new[digest] if digest in new else writer.row(number, digest) for _, digest in found]
        X = np.array(rows, np.float32).reshape(-1, *self.settings.shape)
        paths = [self.paths[position] for position, _ in found]
        labels = None if self.labels is None else [self.labels[position] for position, _ in found]
        shard = Shard(self.settings.key, self.listed[number], X, hashes, positions, paths, labels)
        writer.put(number, shard)

    def _read(self, position: int, writer: StoreWriter | None) -> _Picture | ImageError:
        """On a worker: bytes, hash, and unless it is known what the encoder wants to see."""
        item, name = self.images.items[position], self.paths[position]
        try:
            if isinstance(item, Path):
                content = read_bytes(item, self.limits)
                digest = hashlib.sha256(content).digest()
                if self._knows(position // ROWS_PER_SHARD, digest, writer):
                    return _Picture(digest, None)
                image = decode(content, item, self.limits)
            else:
                image = convert(item, self.limits, name)
                digest = hashlib.sha256(f"RGB {image.size}\n".encode() + image.tobytes()).digest()
                if self._knows(position // ROWS_PER_SHARD, digest, writer):
                    return _Picture(digest, None)
        except ImageError as error:
            return error
        try:
            if not self.settings.views:
                return _Picture(digest, [self.encoder.prepare(image)])
            return _Picture(digest, [self.encoder.prepare(image, rng) for rng in _draws(digest, self.settings.views)])
        except ElongatedError as error:
            return ImageError(name, str(error))
        except Exception as error:
            raise EncoderError(f"{name}: {self.encoder.spec} cannot prepare this image ({error!r}).") from error

    def _knows(self, number: int, digest: bytes, writer: StoreWriter | None) -> bool:
        return digest in self.memory if writer is None else writer.has(number, digest)

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, len(self.images))


class _Batches:
    """Prepared views of one shard's new pictures, encoded as soon as a batch is full."""

    def __init__(self, encoder: Encoder, shape: tuple[int, int]) -> None:
        self.encoder, self.shape = encoder, shape
        self.digests: dict[bytes, int] = {}
        self.queue: list[Any] = []
        self.done: list[NDArray[np.float32]] = [np.empty((0, shape[1]), np.float32)]

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.digests

    @property
    def waiting(self) -> int:
        """Pictures that are not yet encoded in full."""
        return -(-len(self.queue) // self.shape[0])

    def add(self, digest: bytes, prepared: Sequence[Any]) -> bool:
        """Whether this filled a batch."""
        self.digests[digest] = len(self.digests)
        self.queue += prepared
        size = self.encoder.batch_size
        full = len(self.queue) >= size
        while len(self.queue) >= size:
            self._encode(self.queue[:size])
            del self.queue[:size]
        return full

    def flush(self) -> None:
        """Encode what is left."""
        if self.queue:
            self._encode(self.queue)
            self.queue = []

    def embeddings(self) -> dict[bytes, NDArray[np.float32]]:
        """(V, D) for each picture."""
        rows = np.concatenate(self.done).reshape(-1, *self.shape)
        return {digest: rows[index] for digest, index in self.digests.items()}

    def _encode(self, batch: list[Any]) -> None:
        rows = np.asarray(self.encoder.encode_prepared(batch), np.float32)
        if rows.shape != (len(batch), self.shape[1]):
            raise EncoderError(f"{self.encoder.spec} gave embeddings of shape {rows.shape} for {len(batch)} images, "
                               f"expected {(len(batch), self.shape[1])}.")  # fmt: skip
        if not np.isfinite(rows).all():
            raise EncoderError(f"{self.encoder.spec} gave embeddings that are not finite: its weights are damaged.")
        self.done.append(rows)


def _stacked(digests: Sequence[bytes]) -> NDArray[np.uint8]:
    """(n, 32)."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)


def _in_order(
    pool: ThreadPoolExecutor, read: Callable[[int], _Picture | ImageError], count: int, ahead: int
) -> Iterator[_Picture | ImageError]:
    """Results of read(0), read(1), …, worked on by the pool up to `ahead` before they are asked for."""
    waiting: deque[Future[_Picture | ImageError]] = deque()
    for position in range(count):
        waiting.append(pool.submit(read, position))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _draws(digest: bytes, views: int) -> Iterator[np.random.Generator]:
    """A generator for each view of a picture, from its content and nothing else."""
    content = int.from_bytes(digest[:16], "big")
    return (np.random.default_rng([content, view]) for view in range(views))
