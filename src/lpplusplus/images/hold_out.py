"""What classifiers say of photos that they have not seen: the one loop that insight, check, curve and report read.

Without validation images every photo is left out of one of four folds, once. With fewer photos to learn from, it is
left out of one of two halves, of which the other, its half, its quarter, … is learned: two fits for each number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from .._core.base import FewShotClassifier
from .._core.folds import assign_folds, can_be_held_out
from .._core.parameters import Progress
from ..methods.zero_shot import ZeroShot
from ..probe.estimator import LPPlusPlus
from ..probe.held_out import BEHIND, what_is_lacking
from .answers import Answers, positions
from .duplicates import first_of_equals
from .embeddings import Embeddings
from .sources import sample_shots
from .training_data import TrainingData

FOLDS = 4
"""Folds of the cross-validation where there is no validation data."""
CHOICES = 5
NAMES, EXAMPLES, BOTH = "class names alone (zero-shot)", "examples alone (visual probe)", "both (LP++)"
"""What a learning curve compares."""
TIMES = (1, 2, 4)
SLOPE, SPREAD = 0.35, 0.2
"""Errors fall as a power of the number of photos. This is the prior for the exponent: mean and standard deviation."""
BENT = 0.2
"""Standard deviation of the exponent with more photos around the measured one: errors often fall more slowly later."""
FOLDED = 2.0
"""Factor of the variance, compared with independent answers: folds share photos, and another draw differs."""
Rounds = Sequence[tuple[NDArray[np.intp] | None, NDArray[np.intp]]]
"""Rows to learn from (None: all, as the first method has), and rows of the images to ask about."""


@dataclass(frozen=True)
class Expectation:
    """Accuracy on new photos, with some multiple of the photos to learn from."""

    times: int
    photos: float
    """Per class."""
    accuracy: float
    interval: tuple[float, float]
    """95 % confidence interval of the accuracy."""


@dataclass(frozen=True, eq=False)
class Study:
    """What classifiers say of photos that they have not seen.

    Attributes
    ----------
    answers
        Of the method that was trained, with prompts and views as it was trained.
    by_names, by_examples
        Of the class names alone, and of LP++ without names, about the same photos; None without names.
    different
        Number of different photos among them.
    groups
        The first photo that looks like each photo of the support; None if validation images were asked about.
    """

    model: FewShotClassifier
    data: TrainingData
    answers: Answers
    by_names: Answers | None
    by_examples: Answers | None
    different: int
    groups: NDArray[np.intp] | None
    _fewer: dict[int, tuple[float, float, NDArray[np.float64]]] = field(default_factory=dict, repr=False)

    @property
    def measured(self) -> str:
        """How it was measured, in words."""
        return "validation" if self.groups is None else f"{FOLDS}-fold cross-validation"

    @property
    def photos(self) -> float:
        """Number of photos per class."""
        return len(self.data.support) / len(self.data.present)

    def as_good_as(self, parts: int = FOLDS) -> float:
        """Photos per class with which a classifier of all photos would be as good as those of the folds.

        The class of a photo that is left out lacks more than the others.
        """
        if self.groups is None:
            return self.photos
        y, folds, lacking = self.data.task.y, folds_of(self.data.support, parts, self.groups), 0.0
        counts = np.bincount(y)
        for fold in range(parts):
            left = np.bincount(y[folds != fold], minlength=len(counts))
            own, all_classes = what_is_lacking(counts, left)[y[folds == fold]].T
            lacking += float((own + BEHIND * (own - all_classes)).sum())
        return self.photos * float(np.exp(-lacking / np.count_nonzero(folds >= 0)))

    def with_fewer(self, halvings: int) -> tuple[float, float, NDArray[np.float64]]:
        """Photos per class, as how many these are good, and how often each image is right where fewer are learned."""
        if halvings not in self._fewer:
            support, images, runs = self.data.support, self.answers.images, []
            if self.groups is None:
                runs.append([(self._halved(np.arange(len(support)), halvings), np.arange(len(images)))])
            else:
                images = support
                for seed in range(1 if self.photos >= FOLDS else 2):  # Of few photos, it matters much which are taken.
                    halves = folds_of(support, 2, self.groups, seed)
                    learned = [self._halved(np.flatnonzero(halves != part), halvings - 1) for part in range(2)]
                    runs.append([(rows, np.flatnonzero(halves == part)) for part, rows in enumerate(learned)])
            right = [_ask([self.model], self.data, images, rounds)[0].right for rounds in runs]
            photos = float(np.mean([len(rows) for rows, _ in runs[0]])) / len(self.data.present)
            good = self.as_good_as(2) if self.groups is not None and halvings == 1 else photos
            self._fewer[halvings] = photos, good, np.mean(right, axis=0)
        return self._fewer[halvings]

    def _halved(self, rows: NDArray[np.intp], times: int) -> NDArray[np.intp]:
        """Half of the rows of each class, at least one; and again."""
        for _ in range(times):
            rows = rows[assign_folds(self.data.task.y[rows], 2, np.random.default_rng(0)) < 1]
        return rows

    def curve(self, progress: Progress | None = None) -> tuple[list[float], dict[str, list[float]]]:
        """Numbers of photos per class, and accuracy for each; the last are those of `answers`."""
        typical = np.median(np.unique(self.data.task.y, return_counts=True)[1])
        halvings = range(int(np.log2(typical)), 0, -1)
        photos, both = [], []
        for done, times in enumerate(halvings, 1):
            learned, _, right = self.with_fewer(times)
            photos.append(learned)
            both.append(float(right.mean()))
            if progress is not None:
                progress(done, len(halvings))
        whole = self.photos if self.groups is None else self.photos * (1 - 1 / FOLDS)
        lines = {BOTH: [*both, float(self.answers.right.mean())]}
        if self.by_names is not None:
            lines = {NAMES: [float(self.by_names.right.mean())] * (len(both) + 1), **lines}
        return [*photos, whole], lines


def hold_out(model: FewShotClassifier, data: TrainingData, progress: Progress | None = None) -> Study | None:
    """Ask a fitted classifier about its validation data, or its method about photos left out; None if neither works."""
    support, groups = data.support, None
    several = data.text is not None and len(data.present) > 1
    methods = [model, LPPlusPlus(alpha="none")] if several else [model]
    if data.validation is not None:
        different = len(data.validation)
        answers = _ask(methods, data, data.validation, [(None, np.arange(different))])
    else:
        assert support.labels is not None
        fewest = np.unique(support.labels, return_counts=True)[1].min()
        # A class of two has one example left without its fold, and cross-validation within the fit needs two.
        few = getattr(model, "selection", None) == "cross-validation" and fewest < 3
        if few or not can_be_held_out(support.labels):
            return None
        groups = _groups(support)
        folds = folds_of(support, FOLDS, groups)
        rounds = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(FOLDS)]
        answers = _ask(methods, data, support, rounds, progress)
        different = len(np.unique(groups[folds >= 0]))
    by_names = None
    if data.text is not None:
        images, classes = answers[0].images, answers[0].classes
        named = ZeroShot().fit(text=data.text, classes=classes)
        by_names = Answers(images, asked(named, images.rows, classes), classes)
    return Study(model, data, answers[0], by_names, answers[1] if several else None, different, groups)


def _ask(
    methods: Sequence[FewShotClassifier],
    data: TrainingData,
    images: Embeddings,
    rounds: Rounds,
    progress: Progress | None = None,
) -> list[Answers]:
    """What each method says of the images of all rounds, fitted on what each round learns. The first uses names."""
    classes, rows = list(data.support.classes), images.rows
    probabilities = [np.zeros((len(images), len(classes))) for _ in methods]
    left_out = np.sort(np.concatenate([asked_about for _, asked_about in rounds]))
    for done, (learn, asked_about) in enumerate(rounds, 1):
        part = data if learn is None else data.rows(learn)
        for number, model in enumerate(methods if len(asked_about) else ()):
            if number or learn is not None:
                model = (part.without_names() if number or data.text is None else part).fitted(model)
            probabilities[number][asked_about] = asked(model, rows[asked_about], classes)
        if progress is not None:
            progress(done, len(rounds))
    those = images if len(left_out) == len(images) else images.subset(left_out)
    return [Answers(those, said[left_out], classes) for said in probabilities]


def asked(model: FewShotClassifier, rows: NDArray[np.float32], classes: Sequence[str]) -> NDArray[np.float64]:
    """Probabilities of all classes, in their order; 0 for one that the model does not know."""
    known = [classes.index(str(label)) for label in model.classes_.tolist()]
    probabilities = np.zeros((len(rows), len(classes)))
    probabilities[:, known] = model.predict_proba(rows)
    return probabilities


def folds_of(
    support: Embeddings, parts: int = FOLDS, groups: NDArray[np.intp] | None = None, seed: int = 0
) -> NDArray[np.intp]:
    """The fold in which each example is left out; -1 for the only example of a class.

    Two examples that look the same are in the same fold: one would give away the other.
    """
    indices = positions(support, support.classes)
    different, group = np.unique(_groups(support) if groups is None else groups, return_inverse=True)
    return np.asarray(assign_folds(indices[different], parts, np.random.default_rng(seed))[group])


def _groups(support: Embeddings) -> NDArray[np.intp]:
    """`first_of_equals`; each image for itself if too few different ones would be left to measure anything."""
    assert support.labels is not None
    first = first_of_equals(support.rows, support.labels)
    return first if can_be_held_out(support.labels[np.unique(first)]) else np.arange(len(first))


def expectations(
    full: NDArray[Any], at_full: float, less: NDArray[Any], at_less: float, now: float
) -> list[Expectation]:
    """Accuracy to expect with 1, 2 and 4 times the photos.

    The error is modelled as a power of the number of photos. Its exponent comes from two measurements and a prior. The
    interval has two parts, added as the squares of standard errors are: that of the error rate (Jeffreys' interval),
    and that of the exponent, which grows with the distance of the extrapolation.

    Parameters
    ----------
    full, less
        Which held-out images were wrong, or how often, with all and with fewer photos.
    at_full, at_less
        Photos per class in each.
    now
        Photos per class of the final classifier.

    Examples
    --------
    >>> wrong, more = np.arange(100) < 8, np.arange(100) < 12
    >>> [round(one.accuracy, 2) for one in expectations(wrong, 6.0, more, 3.0, 8.0)]
    [0.93, 0.95, 0.96]
    """
    if at_full < at_less:  # Two photos per class: with one of each a photo is asked about on better terms.
        full, at_full, less, at_less = less, at_less, full, at_full
    n, a, b = len(full), full.sum() + 0.5, less.sum() + 0.5
    level = np.log(max(full.sum(), 0.5) / n)
    rate = betaincinv(full.sum() / FOLDED + 0.5, (n - full.sum()) / FOLDED + 0.5, (0.025, 0.975))
    noise = (np.log(np.maximum(rate, 1e-9)) - level) ** 2
    slope, doubt = SLOPE, SPREAD**2
    if at_full > at_less:
        way = np.log(at_full / at_less)
        seen = np.log(b / a) / way
        unsure = max(1 / a + 1 / b - 2 * (full * less).sum() / (a * b), 1 / (n + 1)) / way**2 + BENT**2
        slope = (SLOPE / doubt + seen / unsure) / (1 / doubt + 1 / unsure)
        doubt = 1 / (1 / doubt + 1 / unsure)
    slope = max(0.0, float(slope))
    found = []
    for times in TIMES:
        ahead = np.log(times * now / at_full)
        less_wrong, more_wrong = np.sqrt(noise + (1.96 * ahead) ** 2 * doubt)
        ways = (more_wrong, 0.0, -less_wrong)
        low, best, high = (float(1 - min(1.0, np.exp(level - slope * ahead + way))) for way in ways)
        found.append(Expectation(times, times * now, best, (low, high)))
    return found


def learning_curve(
    method: FewShotClassifier,
    data: TrainingData,
    test: Embeddings,
    shots: Sequence[int],
    progress: Progress | None = None,
    choices: int = CHOICES,
) -> dict[str, list[float]]:
    """Test accuracy of names, of examples and of both for each number of shots, with examples chosen from `data`.

    A class that has fewer images gives all it has. Each accuracy is the mean over `choices` random choices of examples.
    """
    support, everything = data.support, np.arange(len(test))
    assert support.labels is not None
    most = np.unique(support.labels, return_counts=True)[1].max()
    methods = [method] if data.text is None else [method, LPPlusPlus(alpha="none")]
    means = []
    for done, count in enumerate(shots, 1):
        drawn = (sample_shots(support.labels, count, seed, allow_fewer=True) for seed in range(choices))
        rows = [next(drawn)] if count >= most else [*drawn]
        told = [_ask(methods, data, test, [(learn, everything)]) for learn in rows]
        means.append(np.mean([[answers.right.mean() for answers in each] for each in told], axis=0))
        if progress is not None:
            progress(done, len(shots))
    both, *examples = np.transpose(means).tolist()
    if data.text is None:
        return {EXAMPLES: both}
    named = ZeroShot().fit(text=data.text, classes=list(support.classes)).predict(test.rows)
    return {NAMES: [float(np.mean(named == test.labels))] * len(shots), EXAMPLES: examples[0], BOTH: both}
