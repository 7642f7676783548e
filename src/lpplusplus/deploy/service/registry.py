"""The classifiers of a service. A replaced file is loaded again; if that fails, the old classifier stays in use."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..._core.base import FewShotClassifier
from ..._core.model_file import load
from ...encoders import Encoder
from ...images.answers import answers, method_of
from ...images.classifier import ImageClassifier
from ...images.embeddings import Embeddings, Origin
from .errors import Refusal

log = logging.getLogger(__name__)


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
