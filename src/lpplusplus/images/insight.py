"""What training can tell its user: is it better than the names alone, and which classes deserve a look."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._core.backend import unit_rows
from .._core.base import FewShotClassifier
from .._core.class_prompts import check_text
from .._core.folds import assign_folds, can_be_held_out
from .._core.progress import Progress
from ..methods.zero_shot import ZeroShot
from ..probe.estimator import LPPlusPlus
from .answers import Answers
from .duplicates import Duplicate, duplicates, first_of_equals
from .embeddings import Embeddings
from .evaluation import wilson

FOLDS = 4
"""Folds of the cross-validation where there is no validation data."""
WEAK = 5
"""Number of weakest classes that are named."""
LIKELIER = 14.0
"""An image looks mislabelled if another class is this many times as likely as its label."""
MISUNDERSTOOD = 0.25
"""A name is doubtful if it separates its class's images by less than this fraction of what the median name does."""
BY_CHANCE = 1.64
"""Also if by less than this many standard errors, as is true of a meaningless name 19 times of 20."""

WRITTEN = {"duplicates_of_two_classes": "twins", "duplicate_count": "repeats", "leaked": "copies"}
"""Names in files and in `--json` that differ from those of `Insight`."""


@dataclass(frozen=True)
class Weakness:
    """A class that is often missed."""

    label: str
    accuracy: float
    images: int


@dataclass(frozen=True)
class Confusion:
    """Images of one class that were taken for another."""

    truth: str
    answer: str
    images: int


@dataclass(frozen=True)
class Doubt:
    """An image that looks like another class than its label says."""

    path: str
    label: str
    answer: str
    probability: float
    """Probability of that other class."""


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
    interval : (float, float) or None
        95 % confidence interval of the accuracy on other images of the same kind.
    examples_alone_accuracy : float or None
        The accuracy of LP++ without class names, measured in the same way.
    over_names, over_examples : (float, float) or None
        Accuracy minus that of names alone, and minus that of examples alone; each with its standard error.
    weakest : list of Weakness
        The classes with the lowest accuracy, if below 1.
    confused : list of Confusion
        The most frequent mistakes.
    mislabelled : list of Doubt
        Images that look mislabelled, the most obvious first.
    doubtful_names : list of str
        Classes whose names the encoder seems not to understand.
    duplicates_of_two_classes : list of Duplicate
        Pairs of images of different classes that look the same.
    duplicate_count : int
        Number of training images that look the same as an earlier one of their class. They are left out together.
    leaked : int
        Number of validation images that are also training images, which makes any classifier look good.
    """

    measured: str
    accuracy: float | None = None
    zero_shot_accuracy: float | None = None
    interval: tuple[float, float] | None = None
    examples_alone_accuracy: float | None = None
    over_names: tuple[float, float] | None = None
    over_examples: tuple[float, float] | None = None
    weakest: list[Weakness] = field(default_factory=list)
    confused: list[Confusion] = field(default_factory=list)
    mislabelled: list[Doubt] = field(default_factory=list)
    doubtful_names: list[str] = field(default_factory=list)
    duplicates_of_two_classes: list[Duplicate] = field(default_factory=list)
    duplicate_count: int = 0
    leaked: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it, under the names that files and `--json` have."""
        return {WRITTEN.get(name, name): value for name, value in asdict(self).items()}


def examine(
    model: FewShotClassifier,
    support: Embeddings,
    text: NDArray[np.float32] | None,
    validation: Embeddings | None,
    progress: Progress | None = None,
) -> tuple[Insight, Answers | None]:
    """Measure a fitted classifier on validation data, or its method by cross-validation, and look at the support.

    Also returns the held-out images with the answers, if it could be measured.
    """
    assert support.labels is not None
    classes = list(support.classes)
    found: dict[str, Any] = {
        "duplicates_of_two_classes": duplicates(support.rows, support.labels, support.paths),
        "duplicate_count": len(support) - len(np.unique(first_of_equals(support.rows, support.labels))),
    }
    if text is not None:
        found["doubtful_names"] = doubtful_names(support.rows, support.labels, check_text(text)[0], classes)
    several = text is not None and len(_present(support)) > 1
    examples_alone = LPPlusPlus(alpha="none") if several else None
    if validation is not None:
        measured, held, different = "validation", validation, len(validation)
        seen = {row.tobytes() for row in support.rows}
        found["leaked"] = sum(row.tobytes() in seen for row in held.rows)
        said = asked(model, held, classes)
        if examples_alone is not None:
            examples_alone.fit(support.X, support.labels, classes=_present(support))
            visual = asked(examples_alone, held, classes)
    else:
        counts = np.unique(support.labels, return_counts=True)[1]
        # A class of two has one example left without its fold, and cross-validation within the fit needs two.
        few = getattr(model, "selection", None) == "cross-validation" and counts.min() < 3
        if few or not can_be_held_out(support.labels):
            return Insight("not measured", **found), None
        folds = folds_of(support)
        measured, held = f"{FOLDS}-fold cross-validation", support.subset(folds >= 0)
        different = len(np.unique(_held_together(support)[folds >= 0]))
        said, visual = _held_out([model, examples_alone], support, folds, text, progress)
    answers = Answers(held, said, classes)
    right = answers.right
    if text is not None:
        names = ZeroShot().fit(support.rows, support.labels, text=text, classes=classes)
        by_names = Answers(held, asked(names, held, classes), classes).right
        found |= {"zero_shot_accuracy": float(by_names.mean()), "over_names": _lead(right, by_names, different)}
    if examples_alone is not None:
        alone = Answers(held, visual, classes).right
        found |= {"examples_alone_accuracy": float(alone.mean()), "over_examples": _lead(right, alone, different)}
    assert held.labels is not None
    insight = Insight(
        measured,
        accuracy=float(right.mean()),
        interval=wilson(float(right.mean()), different),
        weakest=_weakest(right, held.labels),
        confused=[Confusion(*pair) for pair in answers.scores().confused(WEAK)],
        mislabelled=[] if validation is not None else mislabelled(answers),
        **found,
    )
    return insight, answers


def _present(support: Embeddings) -> list[str]:
    """Classes that have images; the others are known by their names only."""
    there = set(() if support.labels is None else support.labels.tolist())
    return [label for label in support.classes if label in there]


def asked(model: FewShotClassifier, images: Embeddings, classes: list[str]) -> NDArray[np.float64]:
    """Probabilities of all classes, in their order; 0 for one that the model does not know."""
    known = [classes.index(str(label)) for label in model.classes_.tolist()]
    probabilities = np.zeros((len(images), len(classes)))
    probabilities[:, known] = model.predict_proba(images.rows)
    return probabilities


def _lead(right: NDArray[np.bool_], other: NDArray[np.bool_], different: int) -> tuple[float, float]:
    """Difference of two accuracies on the same images, of which so many are different; and its standard error."""
    difference = right.astype(float) - other
    return float(difference.mean()), float(difference.std() / np.sqrt(different))


def _held_out(
    models: Sequence[FewShotClassifier | None],
    support: Embeddings,
    folds: NDArray[np.intp],
    text: NDArray[np.float32] | None,
    progress: Progress | None,
) -> list[NDArray[np.float64]]:
    """Probabilities by each method for each held-out example, fitted without it. Only the first may use names."""
    y, classes = support.labels, list(support.classes)
    assert y is not None
    said = [np.zeros((len(y), len(classes))) for _ in models]
    for fold in range(FOLDS):
        held = folds == fold
        for number, model in enumerate(models):
            if held.any() and model is not None:
                names = text if number == 0 else None
                part = clone(model).fit(
                    support.X[~held], y[~held], text=names, classes=classes if names is not None else _present(support)
                )
                said[number][held] = asked(part, support.subset(held), classes)
        if progress is not None:
            progress(fold + 1, FOLDS)
    return [answers[folds >= 0] for answers in said]


def folds_of(support: Embeddings) -> NDArray[np.intp]:
    """The fold in which each example is held out; -1 for the only example of a class.

    Two examples that look the same are in the same fold: one would give away the other.
    """
    assert support.labels is not None
    position = {label: i for i, label in enumerate(support.classes)}
    indices = np.array([position[label] for label in support.labels.tolist()])
    different, group = np.unique(_held_together(support), return_inverse=True)
    return assign_folds(indices[different], FOLDS, np.random.default_rng(0))[group]


def _held_together(support: Embeddings) -> NDArray[np.intp]:
    """`first_of_equals`; each image for itself if too few different ones would be left to measure anything."""
    assert support.labels is not None
    first = first_of_equals(support.rows, support.labels)
    return first if can_be_held_out(support.labels[np.unique(first)]) else np.arange(len(first))


def suspicion(answers: Answers) -> NDArray[np.float64]:
    """How unlikely each image's label is to a classifier that has not seen the image."""
    return np.asarray(1 - answers.probabilities[np.arange(len(answers.images)), answers.truth])


def mislabelled(answers: Answers, most: int = 10) -> list[Doubt]:
    """Images that look mislabelled, the most obvious first.

    The classifier has not seen the image, and finds another class much likelier than the label.

    Examples
    --------
    >>> images = Embeddings(np.zeros((4, 1, 2)), np.array(["a", "a", "b", "b"]), ["1.jpg", "2.jpg", "3.jpg", "4.jpg"])
    >>> said = np.array([[0.9, 0.1], [0.02, 0.98], [0.1, 0.9], [0.4, 0.6]])
    >>> mislabelled(Answers(images, said, ["a", "b"]))
    [Doubt(path='2.jpg', label='a', answer='b', probability=0.98)]
    """
    truth, said = answers.truth, answers.probabilities
    rows, best = np.arange(len(truth)), said.argmax(axis=1)
    own, other = said[rows, truth], said[rows, best]
    odd = np.flatnonzero(other >= LIKELIER * own)
    order = odd[np.argsort(-suspicion(answers)[odd], kind="stable")][:most]
    label = answers.classes
    paths = answers.images.paths
    return [Doubt(paths[i], label[truth[i]], label[best[i]], round(float(other[i]), 4)) for i in order]


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
    gap is small compared with the median gap, or with chance (perhaps no name is understood).

    Examples
    --------
    >>> rows = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    >>> names = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 1.0, 0]])
    >>> doubtful_names(rows, np.array(["cat", "dog", "zyzzyva"]), names, ["cat", "dog", "zyzzyva"])
    ['zyzzyva']
    """
    cosines = unit_rows(rows) @ unit_rows(text).T
    gaps, chance = {}, {}
    for k, label in enumerate(classes):
        own = labels == label
        if own.any() and not own.all():
            others = cosines[~own, k]
            gaps[label] = float(cosines[own, k].mean() - others.mean())
            chance[label] = BY_CHANCE * float(others.std()) * (1 / own.sum() + 1 / len(others)) ** 0.5
    if not gaps:
        return []
    enough = MISUNDERSTOOD * max(0.0, float(np.median(list(gaps.values()))))
    return sorted((label for label, gap in gaps.items() if gap <= max(enough, chance[label])), key=gaps.__getitem__)
