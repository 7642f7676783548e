"""The classifiers of a service, and the one place where their encoders run.

A replaced file is loaded again; if that fails, the old classifier stays in use.

Threads decode the images of all requests, and one thread at a time runs the encoder on decoded images. Nothing waits
for a batch to fill. The images that arrive while the encoder works are its next batch. So batches are large under load,
and a single request is answered at once. What waits is known to the event loop alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from anyio import CapacityLimiter, to_thread
from numpy.typing import NDArray
from PIL import Image

from ..._core.base import FewShotClassifier
from ..._core.model_file import load
from ...encoders import Encoder, EncoderError
from ...encoders.pixels.decoding import ImageError, Limits, decode
from ...images.answers import answers, method_of
from ...images.classifier import ImageClassifier
from ...images.embeddings import Embeddings, Origin
from .errors import Metrics, Refusal

log = logging.getLogger(__name__)
Picture = tuple[str, bytes]
"""The name of an image file that was sent, and its content."""


@dataclass(frozen=True)
class Model:
    """A classifier that is ready to answer. It is never changed, only replaced."""

    path: Path
    classifier: ImageClassifier | FewShotClassifier
    encoder: Encoder | None
    """None for one that was trained on arrays: it takes embeddings only."""
    loaded: str
    seen: tuple[int, ...] | None
    """The state of the file that was looked at last."""
    problem: str | None = None
    """Why the newer file is not used, without paths; None if there is no problem."""

    @property
    def name(self) -> str:
        """What requests call it."""
        return self.path.stem

    @property
    def method(self) -> Any:
        """The fitted method."""
        return method_of(self.classifier)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.method.n_features_in_)

    @property
    def names(self) -> dict[str, str]:
        """The name in prompts of each label."""
        labels = [str(label) for label in self.method.classes_.tolist()]
        return dict(zip(labels, getattr(self.classifier, "names_", labels), strict=True))

    @property
    def origin(self) -> Origin | None:
        """What made the embeddings that it takes, if that is known."""
        return getattr(self.classifier, "origin_", None)


class ModelRegistry:
    """Classifiers by name.

    Parameters
    ----------
    paths
        Files of saved classifiers; the first is the default.
    encoder, allow_network
        As in `ImageClassifier.load`.
    on_reload
        Called as `on_reload(name, success)` after each attempt to load a newer file.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        encoder: str | None = None,
        allow_network: bool = False,
        on_reload: Callable[[str, bool], None] = lambda name, success: None,
    ) -> None:
        self._where, self._allow_network, self.on_reload = encoder, allow_network, on_reload
        self._models: dict[str, Model] = {}
        for path in paths:
            if path.stem in self._models:
                other = self._models[path.stem].path
                raise ValueError(f"{path} and {other} would both be called {path.stem!r}: rename one.")
            self._models[path.stem] = self._load(path)

    @property
    def models(self) -> list[Model]:
        """All of them, the default first."""
        return [*self._models.values()]

    def pick(self, name: str | None) -> Model:
        """The model of that name; the first if no name is given."""
        if name is None:
            return self.models[0]
        if name not in self._models:
            raise Refusal(404, "no_such_model", f"there is no model {name!r}; there is {', '.join(self._models)}.")
        return self._models[name]

    def warm_up(self) -> None:
        """Run every encoder and every model once, so that no user waits for the slow first run."""
        grey = Image.new("RGB", (64, 64), "grey")
        for model in self.models:
            rows = np.ones((1, model.dim), np.float32) if model.encoder is None else model.encoder.encode_images([grey])
            answers(model.classifier, Embeddings(rows[:, None], paths=["warm-up"]))

    def refresh(self) -> None:
        """Load files that were replaced since the last check. Running requests keep the model they began with."""
        for model in self.models:
            state = _state(model.path)
            if state == model.seen:
                continue
            try:
                newer = self._load(model.path)
                log.info("%s: the new file is in use.", model.path)
            except Exception as error:  # Whatever is wrong with the new one, the old one still answers.
                reason = " ".join(str(error).split())
                problem = f"{without_paths(reason, model.path)} The file before it is still in use."
                newer = replace(model, seen=state, problem=problem)
                log.error("%s: %s", model.path, reason)
            self._models[model.name] = newer
            self.on_reload(model.name, newer.problem is None)

    def _load(self, path: Path) -> Model:
        seen, loaded = _state(path), datetime.now(timezone.utc).isoformat(timespec="seconds")
        method = load(path)
        if "images" not in method.metadata_:
            return Model(path, method, None, loaded, seen)
        clf = ImageClassifier.load(path, encoder=self._where, allow_network=self._allow_network)
        return Model(path, clf, self._encoder(clf), loaded, seen)

    def _encoder(self, clf: ImageClassifier) -> Encoder | None:
        """The encoder; one that is already open is shared between models, with its batches."""
        if clf.origin_ is None:
            return None
        for model in self.models:
            if model.encoder is not None and clf.origin_.comparable(Origin.of(model.encoder)):
                return model.encoder
        return clf.open_encoder()


class Batcher:
    """Answers `embed` as long as `run` runs."""

    def __init__(self, limits: Limits, queue: int, metrics: Metrics, workers: int | None = None) -> None:
        self._limits, self._queue, self._metrics = limits, queue, metrics
        self._decoders, self._encoders = CapacityLimiter(workers or joblib.cpu_count()), CapacityLimiter(1)
        self._ready: list[tuple[Encoder, Any, asyncio.Future[NDArray[np.float32]]]] = []
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
            self._ready = [one for one in self._ready if not one[2].done()]
            if not self._ready:
                self._arrived.clear()
                continue
            encoder, batch = self._next()
            prepared, waiting = [picture for _, picture, _ in batch], [row for _, _, row in batch]
            try:
                rows = await to_thread.run_sync(self._encode, encoder, prepared, limiter=self._encoders)
            except Exception as error:
                for row in waiting:
                    if not row.done():
                        row.set_exception(error)
                continue
            for row, embedding in zip(waiting, rows, strict=True):
                if not row.done():
                    row.set_result(embedding)

    def _next(self) -> Any:
        """The encoder whose turn it is, and its next batch."""
        encoder = self._ready[0][0]
        same = [one for one in self._ready if one[0] is encoder]
        batch, rest = same[: encoder.batch_size], same[encoder.batch_size :]
        self._ready = [one for one in self._ready if one[0] is not encoder] + rest
        return encoder, batch

    def _count(self, more: int) -> None:
        self._waiting += more
        self._metrics.queue.set(self._waiting)

    async def _row(self, encoder: Encoder, picture: Picture) -> NDArray[np.float32]:
        prepared = await to_thread.run_sync(self._prepare, encoder, picture, limiter=self._decoders)
        row: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._ready.append((encoder, prepared, row))
        self._arrived.set()
        return await row

    def _prepare(self, encoder: Encoder, picture: Picture) -> Any:
        name, content = picture
        try:
            return encoder.prepare(decode(content, name, self._limits))
        except ImageError as error:  # The encoder, which may refuse it as well, does not know its name.
            raise ImageError(name, error.reason) from None

    def _encode(self, encoder: Encoder, prepared: list[Any]) -> NDArray[np.float32]:
        with self._metrics.encoder_seconds.time():
            rows = np.asarray(encoder.encode_prepared(prepared), np.float32)
        if rows.shape != (len(prepared), encoder.dim) or not np.isfinite(rows).all():
            raise EncoderError(f"{encoder.spec} gave embeddings of shape {rows.shape}, or not finite.")
        self._metrics.batch_images.observe(len(prepared))
        return rows


def without_paths(reason: str, file: Path) -> str:
    """What is wrong with a file, for an answer: with its name only; a reason with another path is left to the log.

    >>> without_paths("/home/me/a.lpp is truncated.", Path("/home/me/a.lpp"))
    'a.lpp is truncated.'
    >>> without_paths("/home/me/clip/model.onnx is missing.", Path("/home/me/a.lpp"))
    'a.lpp cannot be used: the log says why.'
    """
    shown = reason.replace(str(file), file.name)
    return f"{file.name} cannot be used: the log says why." if "/" in shown or "\\" in shown else shown


def _state(path: Path) -> tuple[int, ...] | None:
    """A value that changes when the file is replaced or written; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
