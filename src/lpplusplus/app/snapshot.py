"""What is known of a project at one moment, and what that says of a photo."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from ..deploy.export.none_of_these import FALSE_ALARMS, threshold
from ..images.answering import nearest
from ..images.checking import Check
from ..images.classifier import ImageClassifier
from ..images.evaluation import Answers
from ..images.insight import Insight
from ..images.suggesting import Suggestion
from ..probe.estimator import LPPlusPlus
from .project import Listing

NEAREST = 4
"""Training photos that are shown as the reason of an answer."""
PROGRESS = frozenset(("phase", "done", "total", "measuring"))
"""What changes often, and is shown in one place only."""
Phase = Literal["idle", "opening", "embedding", "learning"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known at one moment. The page shows this and nothing else.

    Attributes
    ----------
    number, version
        The first grows with everything that changes, the second with everything but `PROGRESS`.
    listing
        The folder.
    model, labels
        What answers, and its classes in order; None before there are two classes.
    classifier
        The same, if photos were learned, not only names.
    insight, held, check, curve
        What was measured of `measured`, the classifier that is the present one or the one before.
    suggested
        Which of the unsorted photos to label next.
    unreadable, embedded
        Photos that cannot be read, and why; number of those that are embedded.
    phase, done, total
        What is under way.
    measuring
        Whether the classifier is being measured, beside that.
    problem
        Why the last attempt failed.
    seconds
        From the change of the folder that was noticed to its classifier.
    """

    number: int
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
    curve: tuple[list[int], dict[str, list[float]]] | None = None
    suggested: tuple[Suggestion, ...] = ()
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


@dataclass(frozen=True)
class Reply:
    """What is said of one photo."""

    answers: tuple[tuple[str, float], ...]
    """Labels and probabilities, the likeliest first."""
    none: bool | None
    """Whether it shows none of the classes; None where there are too few photos to tell."""
    nearest: tuple[str, ...]
    """The training photos that it looks most like."""


def answered(now: Snapshot, rows: NDArray[np.float32]) -> Reply | None:
    """What a snapshot's classifier says of one embedding, (1, D)."""
    if now.model is None:
        return None
    (chances,) = np.asarray(now.model.predict_proba(rows))
    order = np.argsort(-chances, kind="stable")
    answers = tuple((now.labels[i], float(chances[i])) for i in order)
    none: bool | None = None
    reasons: tuple[str, ...] = ()
    if now.classifier is not None:
        (near,) = nearest(now.classifier, rows, NEAREST)
        reasons = tuple(now.classifier.support_.paths[row] for row in near)
        limit = threshold(now.model)
        if isinstance(now.model, LPPlusPlus) and limit is not None and np.isfinite(limit):
            none = bool(np.asarray(now.model.none_of_these(rows, FALSE_ALARMS))[0])
    return Reply(answers, none, reasons)
