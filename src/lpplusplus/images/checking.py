"""Do I have enough photos? What was measured about a training, and what to expect with more."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from .duplicates import Duplicate, duplicates
from .hold_out import Study
from .insight import Insight, as_written
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
        told = asdict(self, dict_factory=as_written)
        return {**told.pop("insight"), **told}


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
