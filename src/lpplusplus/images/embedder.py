"""Images to embeddings: worker threads read and decode while this thread runs the encoder, or run a small one too.

Embeddings depend on the list of images, the encoder and the views; not on the number of workers, nor on interruptions.
Therefore images are taken in their order, no batch crosses the border of a shard, and the random numbers of a view come
from the image's content.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from .._core.parameters import Progress
from ..encoders import Encoder, EncoderError
from ..encoders.pixels.decoding import (
    DEFAULT_LIMITS,
    ImageError,
    Limits,
    convert,
    decode,
    quiet_pillow,
)
from ..encoders.pixels.preprocessing import ElongatedError
from .embeddings import Embeddings, Origin
from .errors import SourceError
from .sources import ImageSet
from .sources.image_set import StoredFile, content_of
from .store import ROWS_PER_SHARD, Shard, StoreWriter
from .store.shards import list_digest

HANDFUL = 16
"""Views that a worker thread prepares before it runs a small encoder on them. To decode and to encode use the core's
cache in different ways: to change between them for each image costs time."""


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
) -> Embeddings:
    """Embed images, with or without a feature store.

    Parameters
    ----------
    images
        What to embed.
    encoder
        With what.
    store
        Folder of a feature store. Embeddings that it has are not computed again, and afterwards it holds just these
        images. After an interruption the next call goes on from the last finished shard. A store of another encoder or
        of other images is refused.
    views
        0 for the centre crop of each image, else the number of random crops.
    on_error
        "stop" raises the `ImageError` of the first bad image of the list; "skip" leaves bad images out and lists them
        in `skipped`.
    workers
        Number of threads that read and decode, and run the encoder if it is `one_by_one`; by default one per core.
    progress
        Called as `progress(done, total)` in this thread, after each batch and at the end.
    limits
        Largest image that is decoded.
    """
    _check_options(on_error, views, workers)
    if images.problems and on_error == "stop":
        raise images.problems[0]
    if not images.items and not images.problems:
        raise SourceError(f"{images.source} has no images.")
    origin = Origin.of(encoder, views)
    run = _EmbedRun(images, encoder, origin, limits, on_error == "skip", progress)
    with quiet_pillow(), nullcontext() if store is None else StoreWriter(store, origin, run.listed) as run.store:
        if run.store is not None:
            run.store.refuse_others(len(images), run.digest)
        run.all(workers or joblib.cpu_count())
        X = run.finish()
    positions = np.array(run.positions, np.intp)
    return Embeddings(
        X,
        None if images.labels is None else images.labels[positions],
        [run.paths[position] for position in run.positions],
        images.classes,
        images.names,
        origin,
        hashes=_stacked(run.digests),
        positions=positions,
        skipped=[*images.problems, *run.skipped],
        ignored=images.ignored,
        reused=run.reused,
        computed=run.computed,
        items=[images.items[position] for position in run.positions],
        source=images.source,
    )


def _check_options(on_error: str, views: int, workers: int | None) -> None:
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error must be 'stop' or 'skip', got {on_error!r}.")
    if isinstance(views, bool) or not isinstance(views, int | np.integer) or views < 0:
        raise ValueError(f"views must be a whole number from 0, got {views!r}.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")


class _Read(NamedTuple):
    """An image's hash, and its views: as the encoder takes them, or embedded if it is `one_by_one`.

    None instead of views if the embedding is known already.
    """

    digest: bytes
    views: list[Any] | None


class _EmbedRun:
    """One call of `embed`."""

    def __init__(
        self, images: ImageSet, encoder: Encoder, origin: Origin, limits: Limits, skip: bool,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.images, self.encoder, self.origin, self.limits = images, encoder, origin, limits
        self.skip, self.progress = skip, progress
        self.paths = images.paths()
        self.labels = None if images.labels is None else images.labels.tolist()
        self.spans = [slice(a, min(a + ROWS_PER_SHARD, len(images))) for a in range(0, len(images), ROWS_PER_SHARD)]
        self.listed = [
            list_digest(self.paths[span], None if self.labels is None else self.labels[span]) for span in self.spans
        ]
        self.store: StoreWriter | None = None
        self.rows: dict[bytes, NDArray[np.float32]] = {}
        self.positions: list[int] = []
        self.digests: list[bytes] = []
        self.skipped: list[ImageError] = []
        self.reused = self.computed = 0

    def all(self, workers: int) -> None:
        """Every shard in turn."""
        pool = ThreadPoolExecutor(workers, thread_name_prefix="lpplusplus-decode")
        try:
            size = self._handful(workers)
            handfuls = (range(a, min(a + size, len(self.images))) for a in range(0, len(self.images), size))
            two_batches = -(-2 * self.encoder.batch_size // (size * self.origin.shape[0]))
            images = _in_order(pool, self._read, handfuls, workers + two_batches)
            for number in range(len(self.spans)):
                self._shard(number, images)
            self._report(len(self.images))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _handful(self, workers: int) -> int:
        """Images that a worker thread takes at once; fewer if there are few, so that all threads end together."""
        # Where this thread encodes, a handful only saves waking it for each image.
        most = HANDFUL // self.origin.shape[0] if self.encoder.one_by_one else 4
        return max(1, min(most, len(self.images) // (16 * workers)))

    def _shard(self, number: int, images: Iterator[_Read | ImageError]) -> None:
        span = self.spans[number]
        batches = _Batches(self.encoder, self.origin.shape)
        found: list[tuple[int, bytes]] = []
        for position in range(span.start, span.stop):
            image = next(images)
            if isinstance(image, ImageError):
                if not self.skip:
                    raise image
                self.skipped.append(image)
                continue
            found.append((position, image.digest))
            if image.digest in batches.digests or self._known(position, image.digest):
                self.reused += 1
                continue
            assert image.views is not None
            self.computed += 1
            if batches.add(image.digest, image.views):
                self._report(position + 1 - batches.waiting)
        batches.encode(1)
        self._keep(number, found, batches.embeddings())
        self._report(span.stop)

    def _known(self, position: int, digest: bytes) -> bool:
        """Whether an image's embedding is there already. Thread-safe."""
        return digest in self.rows if self.store is None else self.store.has(position // ROWS_PER_SHARD, digest)

    def _keep(self, number: int, found: list[tuple[int, bytes]], new: dict[bytes, NDArray[np.float32]]) -> None:
        """Keep a shard, on disk or in memory."""
        self.positions += [position for position, _ in found]
        self.digests += [digest for _, digest in found]
        if self.store is None:
            self.rows |= new
            return
        hashes = _stacked([digest for _, digest in found])
        positions = np.array([position - self.spans[number].start for position, _ in found], np.int32)
        if self.store.matches(number, hashes, positions):
            return
        rows = [new[digest] if digest in new else self.store.row(number, digest) for _, digest in found]
        paths = [self.paths[position] for position, _ in found]
        labels = None if self.labels is None else [self.labels[position] for position, _ in found]
        about = self.origin.key, self.listed[number]
        self.store.put(number, Shard(*about, self._stack(rows), hashes, positions, paths, labels))

    def _stack(self, rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.array(rows, np.float32).reshape(-1, *self.origin.shape)

    def finish(self) -> NDArray[np.float32]:
        """All embeddings, (n, V, D), when all shards are there."""
        if self.store is None:
            return self._stack([self.rows[digest] for digest in self.digests])
        self.store.finish(self.images.classes, self.images.names, self.images.labels is not None)
        return self.store.load()

    def _read(self, handful: range) -> list[_Read | ImageError]:
        """On a worker thread: prepare all images of a handful, then embed them if the encoder is `one_by_one`."""
        prepared = [self._prepared(position) for position in handful]
        return [self._embedded(image) for image in prepared] if self.encoder.one_by_one else prepared

    def _prepared(self, position: int) -> _Read | ImageError:
        """Read, hash, and prepare for the encoder unless the embedding is known."""
        item, name = self.images.items[position], self.paths[position]
        try:
            content, image = self._content(position)
            digest = hashlib.sha256(content).digest()
            if self._known(position, digest):
                return _Read(digest, None)
            image = image or decode(content, item if isinstance(item, Path) else name, self.limits)
        except ImageError as error:
            return error
        try:
            prepared = [self.encoder.prepare(image, rng) for rng in _generators(digest, self.origin.views)]
        except ElongatedError as error:
            return ImageError(name, error.reason)
        except Exception as error:
            raise EncoderError(f"{name}: {self.encoder.spec} cannot prepare this image ({error!r}).") from error
        return _Read(digest, prepared)

    def _content(self, position: int) -> tuple[bytes, Any]:
        """What is hashed: a file's bytes; or, of an image that is in no file, its pixels, with the image."""
        item = self.images.items[position]
        if isinstance(item, Path | StoredFile):
            return content_of(item, self.limits), None
        image = convert(item, self.limits, self.paths[position])
        return f"RGB {image.size}\n".encode() + image.tobytes(), image

    def digest(self, position: int) -> bytes | None:
        """The hash of an image; None if it cannot be read."""
        try:
            return hashlib.sha256(self._content(position)[0]).digest()
        except ImageError:
            return None

    def _embedded(self, image: _Read | ImageError) -> _Read | ImageError:
        if isinstance(image, ImageError) or image.views is None:
            return image
        return image._replace(views=[row for view in image.views for row in self.encoder.encode_prepared([view])])

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, len(self.images))


class _Batches:
    """The new images of one shard, encoded as soon as a batch is full."""

    def __init__(self, encoder: Encoder, shape: tuple[int, int]) -> None:
        self.encoder, self.shape = encoder, shape
        self.digests: dict[bytes, int] = {}
        self.queue: list[Any] = []
        self.done: list[NDArray[np.float32]] = [np.empty((0, shape[1]), np.float32)]

    @property
    def waiting(self) -> int:
        """Number of images that are not yet encoded in full."""
        return -(-len(self.queue) // self.shape[0])

    def add(self, digest: bytes, prepared: Sequence[Any]) -> bool:
        """Queue the views of an image; whether this filled a batch."""
        self.digests[digest] = len(self.digests)
        self.queue += prepared
        return self.encode(self.encoder.batch_size)

    def encode(self, least: int) -> bool:
        """Encode what waits, if it is so much; whether it was."""
        full = len(self.queue) >= least
        while len(self.queue) >= least:
            self._encode(self.queue[: self.encoder.batch_size])
            del self.queue[: self.encoder.batch_size]
        return full

    def embeddings(self) -> dict[bytes, NDArray[np.float32]]:
        """(V, D) of each image, by its hash."""
        rows = np.concatenate(self.done).reshape(-1, *self.shape)
        return {digest: rows[index] for digest, index in self.digests.items()}

    def _encode(self, batch: list[Any]) -> None:
        rows = np.asarray(batch if self.encoder.one_by_one else self.encoder.encode_prepared(batch), np.float32)
        if rows.shape != (len(batch), self.shape[1]):
            raise EncoderError(
                f"{self.encoder.spec} gave embeddings of shape {rows.shape} for {len(batch)} images, expected "
                f"{(len(batch), self.shape[1])}."
            )
        if not np.isfinite(rows).all():
            raise EncoderError(f"{self.encoder.spec} gave embeddings that are not finite: its weights are damaged.")
        self.done.append(rows)


def _stacked(digests: Sequence[bytes]) -> NDArray[np.uint8]:
    """(n, 32)."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)


def _in_order(
    pool: ThreadPoolExecutor, read: Callable[[range], list[_Read | ImageError]], handfuls: Iterable[range], ahead: int
) -> Iterator[_Read | ImageError]:
    """The images of each handful in turn; the pool works at most `ahead` handfuls in advance."""
    waiting: deque[Future[list[_Read | ImageError]]] = deque()
    for handful in handfuls:
        waiting.append(pool.submit(read, handful))
        if len(waiting) > ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def _generators(digest: bytes, views: int) -> list[np.random.Generator | None]:
    """A random generator per view, from the image's content and nothing else; None for the centre crop."""
    content = int.from_bytes(digest[:16], "big")
    return [np.random.default_rng([content, view]) for view in range(views)] or [None]
