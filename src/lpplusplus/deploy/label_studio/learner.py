"""A classifier that is fitted again after every annotation, in the background."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.base import FewShotClassifier
from ...encoders import Encoder
from ...encoders.class_text import class_texts
from ...encoders.pixels.decoding import ImageError, Limits, decode, quiet_pillow
from ...images.classifier import ImageClassifier
from ...images.embeddings import Embeddings, Origin
from ...methods.zero_shot import ZeroShot
from .config import LabelConfig
from .photos import Photos

log = logging.getLogger(__name__)
MOST_KEPT = 100_000
"""Embeddings kept in memory; beyond, the oldest without an annotation are dropped, and computed again if needed."""


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
        self._rows: OrderedDict[str, tuple[NDArray[np.float32], bytes]] = OrderedDict()
        self._annotations: dict[int, tuple[str, str]] = {}
        """Place of the image and label, by the annotation's number."""
        self._reading, self._configuring = threading.Lock(), threading.Lock()
        self._changed = threading.Condition()
        self._wanted = self._done = 0
        self._stopping = False
        self.config: LabelConfig | None = None
        self.model: FewShotClassifier | None = None
        self.version = "names"
        self.problem: str | None = None

    def __enter__(self) -> AnnotationLearner:
        self._exit = ExitStack()
        self._exit.enter_context(quiet_pillow())
        self._thread = threading.Thread(target=self._fit_for_ever, name="lpplusplus-fit", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._exit.close()
        self._photos.close()

    def configure(self, text: Any) -> LabelConfig:
        """Use a project's labelling configuration. If its classes are new, fit again."""
        config = LabelConfig.read(text)
        with self._configuring:
            if config != self.config:
                self.config = config
                names = class_texts(self._encoder, _names(config), [self._template])
                self.model, self.version = ZeroShot().fit(text=names, classes=list(config.labels)), "names"
                self._want()
        return config

    def annotate(self, number: int, where: Any, label: str | None) -> None:
        """Add an annotation, or remove it if `label` is None; then fit."""
        if label is None:
            self._annotations.pop(number, None)
        else:
            self._annotations[number] = (str(where), label)
        self._want()

    def forget(self, numbers: list[int]) -> None:
        """Drop annotations that were deleted."""
        for number in numbers:
            self._annotations.pop(number, None)
        self._want()

    def catch_up(self, project: int) -> None:
        """Get all annotations from Label Studio: after a start, the backend has none."""
        config = self.config
        if config is None or not self._photos.has_token:
            return
        found = {}
        for task in self._photos.annotated(project):
            for annotation in task.get("annotations", ()):
                label = config.label_of(annotation.get("result"))
                if label is not None and not annotation.get("was_cancelled"):
                    found[int(annotation["id"])] = (str(task.get("data", {}).get(config.field)), label)
        self._annotations = found
        self._want()

    def predict(self, places: list[Any]) -> list[tuple[str, float] | None]:
        """Label and probability for each image; None for an image that cannot be read (the log says why)."""
        model = self.model
        answers: list[tuple[str, float] | None] = []
        if model is None:
            return [None for _ in places]
        for where in places:
            try:
                (chances,) = model.predict_proba(self._row(str(where))[0][None])
                best = int(np.argmax(chances))
                answers.append((str(model.classes_[best]), float(chances[best])))
            except ImageError as error:
                log.warning("%s", error)
                answers.append(None)
        return answers

    def wait(self) -> None:
        """Wait until all annotations are learned."""
        with self._changed:
            self._changed.wait_for(lambda: self._done == self._wanted or self._stopping)

    def _want(self) -> None:
        with self._changed:
            self._wanted += 1
            self._changed.notify_all()

    def _fit_for_ever(self) -> None:
        """In a separate thread: one fit learns all annotations that came during the last fit."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._done < self._wanted or self._stopping)
                if self._stopping:
                    return
                wanted = self._wanted
            try:
                self._fit()
            except Exception as error:  # The classifier before it still answers.
                self.problem = " ".join(str(error).split())
                log.error("not fitted: %s", self.problem)
            with self._changed:
                self._done = wanted
                self._changed.notify_all()

    def _fit(self) -> None:
        config, rows, labels, places, digests = self.config, [], [], [], []
        for where, label in list(self._annotations.values()):
            try:
                row, digest = self._row(where)
            except ImageError as error:
                log.warning("%s", error)
                continue
            if config is not None and label in config.labels:
                rows.append(row)
                labels.append(label)
                places.append(where)
                digests.append(digest)
        if config is None or not rows:
            return
        support = Embeddings(
            np.stack(rows)[:, None],
            np.array(labels),
            places,
            config.labels,
            _names(config),
            Origin.of(self._encoder),
            hashes=np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32),
        )
        clf = ImageClassifier(self._encoder, template=self._template).fit(support)
        clf.save(self._output)
        self.model, self.version, self.problem = clf.classifier_, f"{len(rows)} annotations", None
        log.info("%s: fitted on %s.", self._output, self.version)

    def _row(self, where: str) -> tuple[NDArray[np.float32], bytes]:
        """Embedding and SHA-256 of an image, which is fetched once."""
        with self._reading:
            if where not in self._rows:
                content = self._photos.read(where)
                row = self._encoder.encode_images([decode(content, where, self._limits)])[0]
                self._rows[where] = row, hashlib.sha256(content).digest()
                while len(self._rows) > MOST_KEPT:
                    self._rows.popitem(last=False)
            return self._rows[where]


def _names(config: LabelConfig) -> tuple[str, ...]:
    """Names of the classes in prompts."""
    return tuple(label.replace("_", " ") for label in config.labels)
