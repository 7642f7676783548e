"""A classifier that is fitted again after every annotation, in the background."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from ..encoders import Encoder
from ..encoders.class_text import class_texts
from ..encoders.pixels.decoding import ImageError, Limits, decode, quiet_pillow
from ..images.answers import answers
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings, Origin
from ..methods.zero_shot import ZeroShot
from .label_studio import LabelConfig, Photos
from .latest_worker import LatestWorker

log = logging.getLogger(__name__)
MOST_KEPT = 100_000
"""Embeddings kept in memory; beyond, the oldest without an annotation are dropped, and computed again if needed."""
Annotations = dict[int, tuple[str, str] | None]
"""Place of the image and label, by the annotation's number; None for one that was deleted."""


class AnnotationLearner:
    """Learns from the annotations of one project.

    Parameters
    ----------
    encoder, template
        As in `ImageClassifier`.
    photos
        Where the images are.
    output
        File that has the newest classifier.
    limits
        Largest image that is decoded.
    """

    def __init__(self, encoder: Encoder, template: str, photos: Photos, output: Path, limits: Limits) -> None:
        self._encoder, self._template, self._photos = encoder, template, photos
        self._output, self._limits = output, limits
        self._rows: dict[str, tuple[NDArray[np.float32], bytes]] = {}
        self._annotations: Annotations = {}
        self._newest: Annotations = {}
        """What was annotated, and deleted, since the last export was asked for."""
        self._reading, self._configuring = threading.Lock(), threading.Lock()
        self._annotating, self._exporting = threading.Lock(), threading.Lock()
        self._worker = LatestWorker(self._fit, name="lpplusplus-fit")
        self.config: LabelConfig | None = None
        self.model: FewShotClassifier | None = None
        self.version = "names"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Learn in the background, inside the `async with` block."""
        with quiet_pillow(), closing(self._photos), self._worker:
            yield

    @property
    def problem(self) -> str | None:
        """Why the last fit failed; the classifier before it still answers."""
        return self._worker.problem

    def configure(self, text: Any) -> LabelConfig:
        """Use a project's labelling configuration. If its classes are new, fit again."""
        config = LabelConfig.read(text)
        with self._configuring:
            if config != self.config:
                self.config = config
                names = class_texts(self._encoder, config.names, [self._template])
                self.model, self.version = ZeroShot().fit(text=names, classes=list(config.labels)), "names"
                self._worker.want(config)
        return config

    def annotate(self, changes: Annotations) -> None:
        """Add, change and remove annotations; then fit."""
        with self._annotating:
            self._annotations = self._annotations | changes
            self._newest |= changes
        if self.config is not None:
            self._worker.want(self.config)

    def catch_up(self, project: int) -> None:
        """Get all annotations from Label Studio: after a start, the backend has none."""
        config = self.config
        if config is None or not self._photos.has_token:
            return
        with self._exporting:
            with self._annotating:
                self._newest = {}
            exported: Annotations = dict(_annotations(self._photos.annotated(project), config))
            with self._annotating:  # What came while the export was made is newer.
                self._annotations = exported | self._newest
        self.annotate({})

    def predict(self, places: list[Any]) -> list[tuple[str, float] | None]:
        """Label and probability for each image; None for an image that cannot be read (the log says why)."""
        found = {number: row for number, place in enumerate(places) if (row := self._row(str(place))) is not None}
        likeliest: list[tuple[str, float] | None] = [None] * len(places)
        if self.model is not None and found:
            rows = np.stack([row for row, _ in found.values()])[:, None]
            said = answers(self.model, Embeddings(rows, paths=[str(places[number]) for number in found])).as_dicts()
            for number, one in zip(found, said, strict=True):
                likeliest[number] = one["top"][0]["label"], one["top"][0]["probability"]
        return likeliest

    def wait(self) -> None:
        """Wait until all annotations are learned."""
        self._worker.wait()

    def _fit(self, config: LabelConfig, _: Callable[[], None]) -> None:
        """On the worker's thread: one fit learns all annotations that came during the last fit."""
        annotated = [
            (where, label, row)
            for where, label in filter(None, self._annotations.values())
            if label in config.labels and (row := self._row(where)) is not None
        ]
        if not annotated:
            return
        places, labels, rows = zip(*annotated, strict=True)
        support = Embeddings(
            np.stack([row for row, _ in rows])[:, None],
            np.array(labels),
            places,
            config.labels,
            config.names,
            Origin.of(self._encoder),
            hashes=np.frombuffer(b"".join(digest for _, digest in rows), np.uint8).reshape(-1, 32),
        )
        clf = ImageClassifier(self._encoder, template=self._template).fit(support)
        clf.save(self._output)
        self.model, self.version = clf.classifier_, f"{len(rows)} annotations"
        log.info("%s: fitted on %s.", self._output, self.version)

    def _row(self, where: str) -> tuple[NDArray[np.float32], bytes] | None:
        """Embedding and SHA-256 of an image, which is fetched once; None if it cannot be used (the log says why)."""
        with self._reading:
            if where not in self._rows:
                try:
                    content = self._photos.read(where)
                    row = self._encoder.encode_images([decode(content, where, self._limits)])[0]
                except ImageError as error:
                    log.warning("%s: %s", where, error.reason)
                    return None
                self._rows[where] = row, hashlib.sha256(content).digest()
                if len(self._rows) > MOST_KEPT:
                    needed = {annotated for annotated, _ in filter(None, self._annotations.values())} | {where}
                    for old in [old for old in self._rows if old not in needed][: 1 + MOST_KEPT // 100]:
                        del self._rows[old]
            return self._rows[where]


def _annotations(tasks: list[dict[str, Any]], config: LabelConfig) -> Iterator[tuple[int, tuple[str, str]]]:
    """What an export says."""
    for task in tasks:
        for annotation in task.get("annotations", ()):
            label = config.label_of(annotation.get("result"))
            if label is not None and not annotation.get("was_cancelled"):
                yield int(annotation["id"]), (str((task.get("data") or {}).get(config.field)), label)
