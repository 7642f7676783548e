"""The state of a project at one moment, and its answer about a photo."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from ..images.answers import FALSE_ALARMS, Answers, Question, answers, none_threshold
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings
from ..images.insight import Check, Insight
from ..images.suggesting import Suggestion
from .folder import Listing

SURE = 0.95
"""From this probability on a photo is sorted with others at one click."""
NEAREST = 4
"""Training photos that are shown as the reason for an answer."""
PROGRESS = frozenset(("phase", "done", "total", "measuring"))
"""Fields that change often, and are shown in one place only."""
Phase = Literal["idle", "opening", "embedding", "learning"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a project at one moment. The page shows only this.

    Attributes
    ----------
    version
        Grows with every change, except for changes of `PROGRESS`.
    listing
        The folder.
    model, labels
        The model that answers, and its classes in order; None before there are two classes.
    classifier
        The classifier of `model`; None if only names were learned.
    insight, held, check, curve
        Measurements of the classifier `measured`: the present one, or the one before it.
    suggested
        Which of the unsorted photos to label next.
    sure
        The class of each unsorted photo that is probably of it (`SURE`), and not probably of none.
    unreadable, embedded
        Photos that cannot be read, and why; number of those that are embedded.
    phase, done, total
        The running work and its progress.
    measuring
        Whether the classifier is being measured at the same time.
    problem
        Why the last attempt failed.
    seconds
        Time from a change of the folder until the classifier was ready.
    """

    listing: Listing
    encoder: str
    version: int = 0
    model: FewShotClassifier | None = None
    labels: tuple[str, ...] = ()
    classifier: ImageClassifier | None = None
    measured: ImageClassifier | None = None
    insight: Insight | None = None
    held: Answers | None = None
    check: Check | None = None
    curve: tuple[list[float], dict[str, list[float]]] | None = None
    suggested: tuple[Suggestion, ...] = ()
    sure: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    embedded: int = 0
    phase: Phase = "idle"
    measuring: bool = False
    done: int = 0
    total: int = 0
    problem: str | None = None
    seconds: float | None = None

    @property
    def learned(self) -> int:
        """Number of photos that the present classifier has learned."""
        return 0 if self.classifier is None else len(self.classifier.support_)


def answer(now: Snapshot, row: NDArray[np.float32], top: int = 5) -> dict[str, Any] | None:
    """What a snapshot's classifier says of one embedding, (1, D), as `Answers.as_dicts` has it.

    It lacks `none_of_these` where there are too few photos to tell, and `nearest` where only names were learned.
    """
    if now.model is None:
        return None
    question = replace(_about_none(now), nearest=0 if now.classifier is None else NEAREST)
    photo = Embeddings(row[:, None], paths=["the photo"])
    return answers(now.classifier or now.model, photo, question).as_dicts(top)[0]


def _about_none(now: Snapshot) -> Question:
    """Asks for none of these where there are enough photos to tell."""
    limit = None if now.classifier is None or now.model is None else none_threshold(now.model)
    return Question(none=FALSE_ALARMS if limit is not None and np.isfinite(limit) else None)


def sure_of(now: Snapshot, found: Embeddings) -> dict[str, str]:
    """The class of each photo that a classifier is sure of; nothing before it has learned photos."""
    if now.classifier is None or not len(found):
        return {}
    said = answers(now.classifier, found, _about_none(now))
    sure = said.probabilities.max(axis=1) > SURE
    sure &= True if said.none is None else ~said.none
    best = said.probabilities.argmax(axis=1)
    return {found.paths[row]: said.classes[int(best[row])] for row in np.flatnonzero(sure).tolist()}
