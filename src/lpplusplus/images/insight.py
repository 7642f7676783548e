"""What training can tell its user: is it better than the names alone, and which classes deserve a look."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from .._core.backend import unit_rows
from .._core.base import FewShotClassifier
from .._core.class_prompts import check_text
from .._core.folds import can_be_held_out
from .._core.parameters import Progress
from .answers import Answers
from .duplicates import Duplicate, duplicates, first_of_equals, leaked
from .evaluation import wilson
from .hold_out import Expectation, Study, expectations, folds_of, hold_out
from .training_data import TrainingData

WEAK = 5
"""Number of weakest classes that are named."""
LIKELIER = 14.0
"""An image looks mislabelled if another class is this many times as likely as its label."""
MISUNDERSTOOD = 0.25
"""A name is doubtful if it separates its class's images by less than this fraction of what the median name does."""
CLEARLY_BETTER = 0.3
"""Names are in another order if that recognises more images by this fraction, and by what chance would give."""
FEWEST_IN_ORDER = 4
"""Classes from which on the order of names is looked at."""
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
    row: int = field(default=-1, repr=False, compare=False)
    """Of the images that were asked about. Paths are not unique."""


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
    misplaced_names : dict
        For each class the one whose name fits its images, where most names fit another class than theirs; else empty.
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
    misplaced_names: dict[str, str] = field(default_factory=dict)
    duplicates_of_two_classes: list[Duplicate] = field(default_factory=list)
    duplicate_count: int = 0
    leaked: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it, under the names that files and `--json` have."""
        return asdict(self, dict_factory=as_written)


def as_written(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object as files and `--json` have them: without rows."""
    return {WRITTEN.get(name, name): value for name, value in fields if name not in ("row", "rows")}


@dataclass(frozen=True)
class Check:
    """What `ImageClassifier.check` found: what training found, what to expect, and duplicates within a class."""

    insight: Insight
    expected: list[Expectation] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        told = asdict(self, dict_factory=as_written)
        return {**told.pop("insight"), **told}


def examine(
    model: FewShotClassifier, data: TrainingData, progress: Progress | None = None
) -> tuple[Insight, Study | None]:
    """Measure a fitted classifier on validation data, or its method by cross-validation, and look at the photos.

    Also returns what it was measured on, if it could be measured.
    """
    support, validation = data.support, data.validation
    assert support.labels is not None
    found: dict[str, Any] = {
        "duplicates_of_two_classes": duplicates(support.rows, support.labels, support.paths),
        "duplicate_count": len(support) - len(np.unique(first_of_equals(support.rows, support.labels))),
    }
    if data.text is not None:
        text = check_text(data.text)[0]
        found["doubtful_names"] = doubtful_names(support.rows, support.labels, text, list(support.classes))
        found["misplaced_names"] = misplaced_names(data, text)
    if validation is not None:
        found["leaked"] = leaked(support, validation)
    study = hold_out(model, data, progress)
    if study is None:
        return Insight("not measured", **found), None
    right, scores = study.answers.right, study.answers.scores()
    for accuracy, over, other in (
        ("zero_shot_accuracy", "over_names", study.by_names),
        ("examples_alone_accuracy", "over_examples", study.by_examples),
    ):
        if other is not None:
            found |= {accuracy: float(other.right.mean()), over: _lead(right, other.right, study.different)}
    missed = [score for score in scores.classes if score.recall is not None and score.recall < 1]
    missed.sort(key=lambda score: (score.recall, score.label))
    insight = Insight(
        study.measured,
        accuracy=float(right.mean()),
        interval=wilson(float(right.mean()), study.different),
        weakest=[Weakness(one.label, one.recall or 0.0, one.images) for one in missed[:WEAK]],
        confused=[Confusion(*pair) for pair in scores.confused(WEAK)],
        mislabelled=[] if validation is not None else mislabelled(study.answers),
        **found,
    )
    return insight, study


def check(data: TrainingData, insight: Insight, study: Study | None) -> Check:
    """Everything; `insight` and `study` are what `examine` returned."""
    support = data.support
    assert support.labels is not None
    same = duplicates(support.rows, support.labels, support.paths, within=True)
    if study is None:
        return Check(insight, [], same)
    _, fewer, right = study.with_fewer(1)
    return Check(
        insight,
        expectations(~study.answers.right, study.as_good_as(), 1 - right, fewer, study.photos),
        same,
    )


def _lead(right: NDArray[np.bool_], other: NDArray[np.bool_], different: int) -> tuple[float, float]:
    """Difference of two accuracies on the same images, of which so many are different; and its standard error."""
    difference = right.astype(float) - other
    return float(difference.mean()), float(difference.std() / np.sqrt(different))


def suspicion(answers: Answers) -> NDArray[np.float64]:
    """How unlikely each image's label is to a classifier that has not seen the image."""
    return np.asarray(1 - answers.probabilities[np.arange(len(answers.images)), answers.truth])


def mislabelled(answers: Answers, most: int = 10) -> list[Doubt]:
    """Images that look mislabelled, the most obvious first.

    The classifier has not seen the image, and finds another class much likelier than the label.

    Examples
    --------
    >>> from lpplusplus.images.embeddings import Embeddings
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
    return [Doubt(paths[i], label[truth[i]], label[best[i]], round(float(other[i]), 4), int(i)) for i in order]


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


def misplaced_names(data: TrainingData, text: NDArray[np.float32]) -> dict[str, str]:
    """For each class the one whose name fits its images, if the names seem to be in another order; else nothing.

    The best order for one half of the images has to recognise far more of the other half than the given one does. For
    names that mean nothing no order does.
    """
    present, y = np.unique(data.task.y, return_inverse=True)
    if len(present) < FEWEST_IN_ORDER or not can_be_held_out(y):
        return {}
    halves = folds_of(data.support, 2, np.arange(len(data.support)))
    cosines = unit_rows(data.support.rows) @ unit_rows(text).T
    gains, orders = [], []
    for part in range(2):
        learn, ask = halves != part, halves == part
        fit = np.stack([cosines[learn & (y == k)].mean(axis=0) for k in range(len(present))])
        fit = fit - fit.mean(axis=0)
        order = linear_sum_assignment(fit - fit.mean(axis=1, keepdims=True), maximize=True)[1]
        given, best = (float((cosines[ask][:, names].argmax(axis=1) == y[ask]).mean()) for names in (present, order))
        gains.append(best - given)
        orders.append(order)
    if np.mean(gains) < CLEARLY_BETTER + 1 / len(present):
        return {}
    both = zip(present.tolist(), *(order.tolist() for order in orders), strict=True)
    label = data.support.classes
    return {label[k]: label[first] for k, first, second in both if k != first == second}
