"""Do I have enough photos? What was measured about a training, and what to expect with more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from sklearn.base import clone

from .._core.base import FewShotClassifier
from ..probe.held_out import BEHIND, what_is_lacking
from .answers import Answers
from .duplicates import Duplicate, duplicates
from .embeddings import Embeddings
from .insight import FOLDS, Insight, asked, folds_of
from .sources import sample_shots
from .training_data import TrainingData

TIMES = (1, 2, 4)
SLOPE, SPREAD = 0.35, 0.2
"""Errors fall as a power of the number of photos. This is the prior for the exponent: mean and standard deviation."""
BENT = 0.2
"""Standard deviation of the exponent with more photos around the measured one: errors often fall more slowly later."""
FOLDED = 2.0
"""Factor of the variance, compared with independent answers: folds share photos, and another draw differs."""


@dataclass(frozen=True)
class Expectation:
    """Accuracy on new photos, with some multiple of the photos to learn from."""

    times: int
    photos: float
    """Per class."""
    accuracy: float
    interval: tuple[float, float]
    """95 % confidence interval of the accuracy."""


@dataclass(frozen=True)
class Check:
    """What `ImageClassifier.check` found: what training found, what to expect, and duplicates within a class."""

    insight: Insight
    expected: list[Expectation] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {**self.insight.as_dict(), "expected": [asdict(one) for one in self.expected],
                "duplicates": [asdict(one) for one in self.duplicates]}  # fmt: skip


def check(model: FewShotClassifier, data: TrainingData, insight: Insight, held: Answers | None) -> Check:
    """Everything; `insight` and `held` are what `examine` returned."""
    support = data.support
    assert support.labels is not None
    same = duplicates(support.rows, support.labels, support.paths, within=True)
    if held is None:
        return Check(insight, [], same)
    now = len(support) / max(1, len(set(support.labels.tolist())))
    at_full = now if data.validation is not None else now * np.exp(-_lacking(support))
    less, at_less = _with_less(model, data, held)
    return Check(insight, expectations(~held.right, at_full, less, at_less, now), same)


def _lacking(support: Embeddings) -> float:
    """How far the classifiers of the folds are behind the final one, as the logarithm of a ratio of photos."""
    assert support.labels is not None
    _, y = np.unique(support.labels, return_inverse=True)
    folds, counts, sums = folds_of(support), np.bincount(y), 0.0
    for fold in range(FOLDS):
        own, all_classes = what_is_lacking(counts, np.bincount(y[folds != fold], minlength=len(counts)))[
            y[folds == fold]
        ].T
        sums += float((own + BEHIND * (own - all_classes)).sum())
    return sums / np.count_nonzero(folds >= 0)


def _with_less(model: FewShotClassifier, data: TrainingData, held: Answers) -> tuple[NDArray[np.bool_], float]:
    """Which held-out images are wrong with half as many photos, and how many photos per class these are."""
    support, text, classes = data.support, data.text, held.classes
    assert support.labels is not None
    wrong, used = np.zeros(len(held.images), bool), []
    folds = np.zeros(0) if data.validation is not None else folds_of(support)
    parts: Sequence[Any] = range(FOLDS) if data.validation is None else [None]
    for part in parts:
        rest = support if part is None else support.subset(folds != part)
        rows: Any = slice(None) if part is None else folds[folds >= 0] == part
        if part is not None and not rows.any():
            continue
        assert rest.labels is not None
        shots = max(1, int(np.median(np.unique(rest.labels, return_counts=True)[1])) // 2)
        chosen = rest.subset(sample_shots(rest.labels, shots, 0, allow_fewer=True))
        assert chosen.labels is not None
        known = classes if text is not None else sorted(set(chosen.labels.tolist()))
        fitted = clone(model).fit(chosen.X, chosen.labels, text=text, classes=known)
        images: Embeddings = held.images.subset(rows)
        wrong[rows] = ~Answers(images, asked(fitted, images, classes), classes).right
        used.append(len(chosen) / len(set(chosen.labels.tolist())))
    return wrong, float(np.mean(used))


def expectations(
    full: NDArray[np.bool_], at_full: float, less: NDArray[np.bool_], at_less: float, now: float
) -> list[Expectation]:
    """Accuracy to expect with 1, 2 and 4 times the photos.

    The error is modelled as a power of the number of photos. Its exponent comes from two measurements and a prior. The
    interval has two parts, added as the squares of standard errors are: that of the error rate (Jeffreys' interval),
    and that of the exponent, which grows with the distance of the extrapolation.

    Parameters
    ----------
    full, less
        Which held-out images were wrong, with all and with fewer photos.
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
        unsure = max(1 / a + 1 / b - 2 * (full & less).sum() / (a * b), 1 / (n + 1)) / way**2 + BENT**2
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
