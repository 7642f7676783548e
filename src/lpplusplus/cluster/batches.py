"""How many images an encoder should take at once, found by trying."""

import statistics
import time
from typing import Any

from ..encoders import Encoder
from ..encoders.pixels.decoding import DEFAULT_LIMITS, ImageError, decode
from ..images.sources.image_set import ImageSet

LARGEST = 512
GAIN = 0.9
"""A larger batch is used only if it takes less than this part of the time per image: with the encoder's own batch size,
rows are those of the local engine, bit for bit."""


def measured_batch(encoder: Encoder, images: ImageSet, rounds: int = 3) -> int | None:
    """The batch size that is clearly fastest, or None for the encoder's own.

    A size that does not fit into memory ends the search. A few real images are enough: the encoder's time does not
    depend on what they show.
    """
    some = _prepared(encoder, images, encoder.batch_size)
    if not some:
        return None
    best, size = None, encoder.batch_size
    fastest = _seconds(encoder, some, size, rounds)
    while 2 * size <= LARGEST:
        size *= 2
        try:
            seconds = _seconds(encoder, some, size, rounds)
        except (MemoryError, RuntimeError):  # Torch and onnxruntime raise RuntimeError when out of memory.
            break
        if seconds > GAIN * fastest:
            break
        best, fastest = size, seconds
    return best


def _prepared(encoder: Encoder, images: ImageSet, count: int) -> list[Any]:
    found: list[Any] = []
    for item, name in zip(images.items, images.paths(), strict=True):
        if len(found) >= count:
            break
        try:
            found.append(encoder.prepare(decode(item.read_bytes(DEFAULT_LIMITS), name)))  # type: ignore[union-attr, call-arg]
        except ImageError:
            continue
    return found


def _seconds(encoder: Encoder, some: list[Any], size: int, rounds: int) -> float:
    """Median time per image."""
    batch = [some[k % len(some)] for k in range(size)]
    encoder.encode_prepared(batch)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        encoder.encode_prepared(batch)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / size
