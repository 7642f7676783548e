"""Embed the images of all requests: a pool of threads decodes, one thread runs the encoder on decoded images.

Nothing waits for a batch to fill. The images that arrive while the encoder works are its next batch. So batches are
large under load, and a single request is answered at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from ...encoders import Encoder, EncoderError
from ...encoders.pixels.decoding import ImageError, Limits, decode, quiet_pillow
from ...encoders.pixels.preprocessing import ElongatedError
from .errors import Metrics, Refusal


@dataclass(frozen=True)
class Picture:
    """An image file that was sent."""

    name: str
    content: bytes


@dataclass(eq=False)
class _PictureJob:
    picture: Picture
    encoder: Encoder
    row: Future[NDArray[np.float32]]
    prepared: Any = None


class Batcher:
    """A context manager: entering starts its threads, leaving waits for the images under way."""

    def __init__(self, limits: Limits, queue: int, metrics: Metrics, workers: int | None = None) -> None:
        self._limits, self._queue, self._metrics = limits, queue, metrics
        self._workers = workers or joblib.cpu_count()
        self._ready: deque[_PictureJob] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._waiting = 0

    def __enter__(self) -> Batcher:
        self._exit = ExitStack()
        self._exit.enter_context(quiet_pillow())
        self._thread = threading.Thread(target=self._encode_for_ever, name="lpplusplus-encoder", daemon=True)
        self._thread.start()
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="lpplusplus-decode")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True)
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        self._exit.close()

    async def embed(self, encoder: Encoder, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """Embeddings, (n, D). Called from the event loop; only there waiting images are counted."""
        if self._waiting + len(pictures) > self._queue:
            raise Refusal(
                429, "queue_full", f"{self._waiting} images wait, of {self._queue} at most: try again in a moment.",
                Retry_After="1",
            )  # fmt: skip
        jobs = [_PictureJob(picture, encoder, Future()) for picture in pictures]
        self._count(len(jobs))
        try:
            for job in jobs:
                self._pool.submit(self._prepare, job)
            rows: list[Any] = [await asyncio.wrap_future(job.row) for job in jobs]
            return np.stack(rows)
        except ImageError as error:
            raise Refusal(422, "bad_image", str(error)) from None
        except EncoderError as error:
            raise Refusal(503, "encoder_failed", str(error)) from None
        finally:
            for job in jobs:
                job.row.cancel()  # If one failed or time is up, the others need not start.
            self._count(-len(jobs))

    def _count(self, more: int) -> None:
        self._waiting += more
        self._metrics.queue.set(self._waiting)

    def _prepare(self, job: _PictureJob) -> None:
        """On a thread of the pool."""
        if job.row.cancelled():
            return
        try:
            image = decode(job.picture.content, job.picture.name, self._limits)
            job.prepared = job.encoder.prepare(image)
        except ElongatedError as error:
            _fail(job, ImageError(job.picture.name, error.reason))
        except Exception as error:
            _fail(job, error)
        else:
            with self._changed:
                self._ready.append(job)
                self._changed.notify()

    def _encode_for_ever(self) -> None:
        """On the encoder's thread."""
        while batch := self._next_batch():
            encoder = batch[0].encoder
            try:
                with self._metrics.encoder_seconds.time():
                    rows = np.asarray(encoder.encode_prepared([job.prepared for job in batch]), np.float32)
                if rows.shape != (len(batch), encoder.dim) or not np.isfinite(rows).all():
                    raise EncoderError(f"{encoder.spec} gave embeddings of shape {rows.shape}, or not finite.")
            except Exception as error:
                for job in batch:
                    _fail(job, error)
                continue
            self._metrics.batch_images.observe(len(batch))
            for job, row in zip(batch, rows, strict=True):
                if job.row.set_running_or_notify_cancel():
                    job.row.set_result(row)

    def _next_batch(self) -> list[_PictureJob]:
        """The images that have waited longest, all for one encoder; empty at the end."""
        with self._changed:
            while True:
                self._ready = deque(job for job in self._ready if not job.row.cancelled())
                if self._ready or self._stopping:
                    break
                self._changed.wait()
            if not self._ready:
                return []
            encoder = self._ready[0].encoder
            batch = [job for job in self._ready if job.encoder is encoder][: encoder.batch_size]
            taken = set(map(id, batch))
            self._ready = deque(job for job in self._ready if id(job) not in taken)
            return batch


def _fail(job: _PictureJob, error: Exception) -> None:
    if job.row.set_running_or_notify_cancel():
        job.row.set_exception(error)
