"""What the classifier would have said of images that were held out: the base of its probabilities and of its doubts.

The walk over the folds that finds where to stop leaves the logits of held-out images there. From them come the
temperature (here), prediction sets (`prediction_sets`) and the threshold of none-of-these (`none_of_these`).

A fold's probe has seen n' images of the held-out image's class where the classifier has n. What a mean of n images errs
by falls as 1/n, and the gap between the logit of an image's own class and the mean logit rises by as much. So the own
logit of a held-out image is raised by the part c (1/n' - 1/n) of the mean gap. Without this, probabilities are too
cautious and sets too large at two and four shots. See docs/explanation/trust.md.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from .._core.backend import Array
from .._core.roots import zero_of
from .none_of_these import evidence

GAIN = 0.3
"""c: how much of the gap an own logit lacks where the class has a single example, compared with many."""
SCALES = (-5.0, 7.0)
"""Bounds of the logarithm of the factor."""
MOST_LOGITS = 2**23
"""Logits that are kept on the way, over all iterates: 32 MiB in single precision."""
FEWEST = 64
"""Images whose logits are kept in any case, however many classes there are."""


def every_nth(images: int, n_classes: int, iterates: int) -> int:
    """Of how many held-out images the logits of one are kept.

    >>> every_nth(800, 50, 16), every_nth(2000, 1000, 16)
    (1, 4)
    """
    return -(-images // max(FEWEST, MOST_LOGITS // (n_classes * iterates)))


@dataclass(frozen=True)
class HeldOutAnswers:
    """Held-out images, and what the classifier would have said of them."""

    rows: np.ndarray[Any, Any]
    """(M,) which images of the support; or of the validation data, where there are such."""
    y: np.ndarray[Any, Any]
    """(M,) their class indices."""
    logits: np.ndarray[Any, Any]
    """(M, K), at the classifier's temperature."""
    evidence: Array
    """(M, 2 or 3) how much each looks like one of the classes; see `none_of_these`."""

    @classmethod
    def of(
        cls, rows: np.ndarray[Any, Any], y: np.ndarray[Any, Any], logits: np.ndarray[Any, Any], lacking: Any,
        nearness: np.ndarray[Any, Any], names: np.ndarray[Any, Any] | None, weights: Any = None,
    ) -> "tuple[HeldOutAnswers, float]":  # fmt: skip
        """From the logits of probes that lack some of the images; and the factor of the classifier's logits.

        Evidence is that of the logits as they are: what is raised is what the right class, known here, would have had,
        and with it two of a hundred members more were turned away at two shots.
        """
        raised = as_with_all(logits, y, lacking)
        scale = best_scale(raised, y, weights)
        return cls(rows, y, scale * raised, evidence(scale * logits, nearness, names)), scale

    @property
    def losses(self) -> np.ndarray[Any, Any]:
        """-ln p of the right class, (M,)."""
        own = self.logits[np.arange(len(self.y)), self.y]
        return np.asarray(scipy.special.logsumexp(self.logits, axis=1) - own)


def as_with_all(logits: np.ndarray[Any, Any], y: np.ndarray[Any, Any], lacking: Any) -> np.ndarray[Any, Any]:
    """The logits, with those of the right classes as if the probes had seen all images; `lacking` is 1/n' - 1/n.

    >>> as_with_all(np.array([[3.0, 1.0]]), np.array([0]), 1 / 1 - 1 / 2).tolist()  # 1 above the mean of 2.
    [[3.15, 1.0]]
    """
    rows, raised = np.arange(len(y)), logits.astype(np.float64)
    gap = float((raised[rows, y] - raised.mean(axis=1)).mean())
    raised[rows, y] += max(0.0, gap) * GAIN * np.asarray(lacking)
    return raised


def best_scale(logits: np.ndarray[Any, Any], y: np.ndarray[Any, Any], weights: Any = None) -> float:
    """The factor of the logits under which the held-out images are likeliest.

    As if half an image more had been held out whose label is the second best answer (Jeffreys' prior of a rate):
    a handful of images that are all right does not make certain.

    >>> round(best_scale(np.array([[2.0, 0.0]] * 3 + [[0.0, 2.0]]), np.zeros(4, int)), 2)  # The odds are 3 to 1.5.
    0.35
    """
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    own, second = logits[np.arange(len(y)), y], np.sort(logits, axis=1)[:, -2]

    def slope(log_scale: float) -> float:
        """Of the loss, along the scale."""
        mean = (scipy.special.softmax(np.exp(log_scale) * logits, axis=1) * logits).sum(axis=1)
        return float(weights @ (mean - own) + (mean - second).mean() / 2)

    low, high = SCALES
    if slope(low) >= 0 or slope(high) <= 0:
        return float(np.exp(low if slope(low) >= 0 else high))
    return float(np.exp(zero_of(slope, low, high, precision=1e-9)))
