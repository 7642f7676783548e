"""What training can tell its user: is it better than the names alone, and which classes deserve a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._core.backend import unit_rows
from .._core.base import FewShotClassifier
from .._core.class_prompts import check_text
from .._core.folds import assign_folds
from .._core.progress import Progress
from ..methods.zero_shot import ZeroShot
from .embeddings import Embeddings

FOLDS = 4
"""Folds of the cross-validation where there is no validation data."""
WEAK = 5
"""Number of weakest classes that are named."""
SAME_IMAGE = 0.98
"""Likeness from which two images of different classes are taken for the same image."""
FEW_ENOUGH = 50_000
"""Largest number of images of which all pairs are compared."""
MISUNDERSTOOD = 0.25
"""A name is doubtful if it separates its class's images by less than this fraction of what the median name does."""


@dataclass(frozen=True)
class Weakness:
    """A class that is often missed."""

    label: str
    accuracy: float
    images: int


@dataclass(frozen=True)
class Twins:
    """Two images of different classes that look the same to the encoder."""

    first: str
    first_label: str
    second: str
    second_label: str
    likeness: float
    """1 for equal embeddings, 0 for embeddings as far apart as those of two images are on average."""


@dataclass(frozen=True)
class Insight:
    """What was learned, in numbers.

    Attributes
    ----------
    measured : str
        How accuracy was measured: "validation", "4-fold cross-validation", or "not measured" where neither is possible.
    accuracy, zero_shot_accuracy : float or None
        Fraction of held-out images that the classifier, and the class names alone, get right. None if not measured, or
        if there are no class names.
    weakest : list of Weakness
        The classes with the lowest accuracy, if below 1.
    doubtful_names : list of str
        Classes whose names the encoder seems not to understand.
    twins : list of Twins
        Pairs of images of different classes that look the same.
    copies : int
        Number of validation images that are also training images, which makes any classifier look good.
    """

    measured: str
    accuracy: float | None = None
    zero_shot_accuracy: float | None = None
    weakest: list[Weakness] = field(default_factory=list)
    doubtful_names: list[str] = field(default_factory=list)
    twins: list[Twins] = field(default_factory=list)
    copies: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


def look_into(
    model: FewShotClassifier,
    support: Embeddings,
    text: NDArray[np.float32] | None,
    validation: Embeddings | None,
    progress: Progress | None = None,
) -> Insight:
    """Measure a fitted classifier on validation data, or its method by cross-validation, and look at the support."""
    assert support.labels is not None
    classes = list(support.classes)
    doubtful = [] if text is None else doubtful_names(support.rows, support.labels, check_text(text)[0], classes)
    twins = look_alikes(support.rows, support.labels, support.paths)
    copies = 0
    if validation is not None:
        assert validation.labels is not None
        answers, truth, held = model.predict(validation.rows), validation.labels, validation.rows
        measured = "validation"
        seen = {row.tobytes() for row in support.rows}
        copies = sum(row.tobytes() in seen for row in held)
    else:
        _, counts = np.unique(support.labels, return_counts=True)
        # A fold leaves one of a class's two examples, and folds of its own need two.
        if counts.min() < (3 if getattr(model, "selection", None) == "cross-validation" else 2):
            return Insight("not measured", doubtful_names=doubtful, twins=twins)
        answers, truth, held = _held_out(model, support, text, progress), support.labels, support.rows
        measured = f"{FOLDS}-fold cross-validation"
    zero_shot = None
    if text is not None:
        names = ZeroShot().fit(support.rows, support.labels, text=text, classes=classes)
        zero_shot = float((names.predict(held) == truth).mean())
    right = answers == truth
    return Insight(measured, float(right.mean()), zero_shot, _weakest(right, truth), doubtful, twins, copies)


def _held_out(
    model: FewShotClassifier, support: Embeddings, text: NDArray[np.float32] | None, progress: Progress | None
) -> NDArray[np.str_]:
    """What the method answers for each example when it has not seen it."""
    y = support.labels
    assert y is not None
    position = {label: i for i, label in enumerate(support.classes)}
    folds = assign_folds(np.array([position[label] for label in y]), FOLDS, np.random.default_rng(0))
    answers = np.empty(len(y), np.array(support.classes).dtype)  # A class without examples may have the longest label.
    present = [label for label in support.classes if label in set(y.tolist())]
    known = list(support.classes) if text is not None else present
    for fold in range(FOLDS):
        held = folds == fold
        if held.any():
            part = clone(model).fit(support.X[~held], y[~held], text=text, classes=known)
            answers[held] = part.predict(support.rows[held])
        if progress is not None:
            progress(fold + 1, FOLDS)
    return answers


def _weakest(right: NDArray[np.bool_], truth: NDArray[np.str_]) -> list[Weakness]:
    scores = [
        Weakness(str(label), float(right[truth == label].mean()), int((truth == label).sum()))
        for label in np.unique(truth)
    ]
    return sorted((score for score in scores if score.accuracy < 1), key=lambda score: score.accuracy)[:WEAK]


def doubtful_names(
    rows: NDArray[np.float32], labels: NDArray[np.str_], text: NDArray[np.float32], classes: list[str]
) -> list[str]:
    """Classes whose names fit their own images hardly better than other images.

    A name's gap is its mean cosine with its class's images minus that with all other images. A name is doubtful if its
    gap is small compared with the median gap.

    Examples
    --------
    >>> rows = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    >>> names = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 1.0, 0]])
    >>> doubtful_names(rows, np.array(["cat", "dog", "zyzzyva"]), names, ["cat", "dog", "zyzzyva"])
    ['zyzzyva']
    """
    cosines = unit_rows(rows) @ unit_rows(text).T
    gaps = {}
    for k, label in enumerate(classes):
        own = labels == label
        if own.any() and not own.all():
            gaps[label] = float(cosines[own, k].mean() - cosines[~own, k].mean())
    if not gaps:
        return []
    enough = MISUNDERSTOOD * max(0.0, float(np.median(list(gaps.values()))))
    return sorted((label for label, gap in gaps.items() if gap <= enough), key=lambda label: gaps[label])


def look_alikes(
    rows: NDArray[np.float32], labels: NDArray[np.str_], paths: Sequence[str], most: int = 10
) -> list[Twins]:
    """Pairs of images of different classes whose embeddings are almost the same, the closest first.

    Distances are compared with the mean distance of two images, since in some models all embeddings are close. With
    more than `FEW_ENOUGH` images nothing is compared.
    """
    if len(rows) > FEW_ENOUGH:
        return []
    F = unit_rows(rows)
    mean = F.mean(axis=0, dtype=np.float64)
    spread = max(1 - float(mean @ mean), 1e-6)  # Half the mean squared distance of two unit vectors.
    found: list[tuple[float, int, int]] = []
    height = max(1, 2**22 // len(F))
    for low in range(0, len(F), height):
        likeness = 1 - (1 - F[low : low + height] @ F.T) / spread
        i, j = np.nonzero(likeness >= SAME_IMAGE)
        apart = (i + low < j) & (labels[i + low] != labels[j])
        i, j = i[apart], j[apart]
        closest = np.argsort(-likeness[i, j], kind="stable")[:most]
        found += [(float(likeness[a, b]), int(a + low), int(b)) for a, b in zip(i[closest], j[closest], strict=True)]
        found = sorted(found, key=lambda pair: -pair[0])[:most]
    return [Twins(paths[i], str(labels[i]), paths[j], str(labels[j]), min(1.0, round(c, 4))) for c, i, j in found]
