"""Embed the images of all requests: threads decode, and one thread at a time runs the encoder on decoded images.

Nothing waits for a batch to fill. The images that arrive while the encoder works are its next batch. So batches are
large under load, and a single request is answered at once. What waits is known to the event loop alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from anyio import CapacityLimiter, to_thread
from numpy.typing import NDArray

from ...encoders import Encoder, EncoderError
from ...encoders.pixels.decoding import ImageError, Limits, decode
from .errors import Metrics, Refusal


@dataclass(frozen=True)
class Picture:
    """An image file that was sent."""

    name: str
    content: bytes


@dataclass(frozen=True, eq=False)
class _DecodedPicture:
    encoder: Encoder
    prepared: Any
    row: asyncio.Future[NDArray[np.float32]]


class Batcher:
    """Answers `embed` as long as `run` runs."""

    def __init__(self, limits: Limits, queue: int, metrics: Metrics, workers: int | None = None) -> None:
        self._limits, self._queue, self._metrics = limits, queue, metrics
        self._decoders, self._encoders = CapacityLimiter(workers or joblib.cpu_count()), CapacityLimiter(1)
        self._ready: list[_DecodedPicture] = []
        self._arrived = asyncio.Event()
        self._waiting = 0

    async def embed(self, encoder: Encoder, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """Embeddings, (n, D)."""
        if self._waiting + len(pictures) > self._queue:
            raise Refusal(429, "queue_full", f"{self._waiting} images wait, of {self._queue} at most: try again soon.")
        self._count(len(pictures))
        rows = [asyncio.ensure_future(self._row(encoder, picture)) for picture in pictures]
        try:
            return np.stack(await asyncio.gather(*rows))
        except ImageError as error:
            raise Refusal(422, "bad_image", str(error)) from None
        except EncoderError as error:
            raise Refusal(503, "encoder_failed", str(error)) from None
        finally:
            for row in rows:
                row.cancel()  # If one failed or time is up, the others need not start.
            self._count(-len(pictures))

    async def run(self) -> None:
        """Encode what is ready, for ever."""
        while True:
            await self._arrived.wait()
            self._ready = [one for one in self._ready if not one.row.done()]
            if not self._ready:
                self._arrived.clear()
                continue
            encoder = self._ready[0].encoder
            batch = [one for one in self._ready if one.encoder is encoder][: encoder.batch_size]
            self._ready = [one for one in self._ready if one not in batch]
            try:
                rows = await to_thread.run_sync(self._encode, encoder, batch, limiter=self._encoders)
            except Exception as error:
                for one in batch:
                    if not one.row.done():
                        one.row.set_exception(error)
                continue
            for one, row in zip(batch, rows, strict=True):
                if not one.row.done():
                    one.row.set_result(row)

    def _count(self, more: int) -> None:
        self._waiting += more
        self._metrics.queue.set(self._waiting)

    async def _row(self, encoder: Encoder, picture: Picture) -> NDArray[np.float32]:
        prepared = await to_thread.run_sync(self._prepare, encoder, picture, limiter=self._decoders)
        row: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._ready.append(_DecodedPicture(encoder, prepared, row))
        self._arrived.set()
        return await row

    def _prepare(self, encoder: Encoder, picture: Picture) -> Any:
        try:
            return encoder.prepare(decode(picture.content, picture.name, self._limits))
        except ImageError as error:  # The encoder, which may refuse it as well, does not know its name.
            raise ImageError(picture.name, error.reason) from None

    def _encode(self, encoder: Encoder, batch: Sequence[_DecodedPicture]) -> NDArray[np.float32]:
        with self._metrics.encoder_seconds.time():
            rows = np.asarray(encoder.encode_prepared([one.prepared for one in batch]), np.float32)
        if rows.shape != (len(batch), encoder.dim) or not np.isfinite(rows).all():
            raise EncoderError(f"{encoder.spec} gave embeddings of shape {rows.shape}, or not finite.")
        self._metrics.batch_images.observe(len(batch))
        return rows
