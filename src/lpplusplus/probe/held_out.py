"""Predictions for held-out images. Calibration, prediction sets and "none of these" are based on them.

The cross-validation that finds where to stop also gives the logits of the held-out images. From them come the
temperature (here), prediction sets (`prediction_sets`) and the threshold of none-of-these (`none_of_these`).

These logits are a little too pessimistic: a fold's probe has seen N' of all N images, and n' of the n images of the
held-out image's class. What is learned from examples grows with the logarithm of their number. So the logit of an
image's own class is too low by a part c ln(n/n') of its mean gap to the mean logit. If the fold takes a larger part of
this class than of the others, it is too low by another 3c (ln(n/n') - ln(N/N')). With both corrections, losses are as
expected of the classifier, and sets have the coverage that was asked for. The temperature needs the second one alone:
where all classes lack the same part, confidence and accuracy are too low together. See docs/explanation/trust.md.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special

from .._core import backend
from .._core.backend import Array
from .._core.softmax import means_under_softmax, zero_of
from .._core.task import Task
from .none_of_these import Neighbourhood, evidence

GAIN = 0.085
"""c: the part of the gap that the logit of the own class gains if all classes have e times the examples."""
BEHIND = 3.0
"""How many times as much it gains if its class alone has e times the examples."""
SCALES = (-5.0, 7.0)
"""Bounds of the logarithm of the factor."""
MOST_LOGITS = 2**23
"""Logits to keep in memory, over all iterates: 32 MiB in single precision."""
FEWEST = 64
"""Logits of at least this many images are kept, however many classes there are."""


def every_nth(images: int, n_classes: int, iterates: int) -> int:
    """n, where the logits of every n-th held-out image are kept.

    >>> every_nth(800, 50, 16), every_nth(2000, 1000, 16)
    (1, 4)
    """
    return -(-images // max(FEWEST, MOST_LOGITS // (n_classes * iterates)))


@dataclass(frozen=True)
class HeldOutAnswers:
    """Held-out images, and the predictions for them."""

    rows: np.ndarray[Any, Any]
    """(M,) rows of the support; or of the validation data, if there is any."""
    y: np.ndarray[Any, Any]
    """(M,) their class indices."""
    logits: np.ndarray[Any, Any]
    """(M, K), at the classifier's temperature."""
    folds: np.ndarray[Any, Any] | None = None
    """(N,) the fold of each image of the support; None for validation images."""

    @classmethod
    def of(
        cls, rows: np.ndarray[Any, Any], y: np.ndarray[Any, Any], logits: np.ndarray[Any, Any], lacking: Any,
        weights: Any = None, folds: np.ndarray[Any, Any] | None = None,
    ) -> "tuple[HeldOutAnswers, float]":  # fmt: skip
        """From the logits of probes that lack some of the images. Also the factor of the classifier's logits."""
        own, all_classes = np.broadcast_to(lacking, (len(y), 2)).T
        behind = BEHIND * (own - all_classes)
        scale = best_scale(raised(logits, y, behind), y, weights)
        logits = scale * raised(logits, y, behind + own)
        return cls(rows, y, logits, folds), scale

    @property
    def losses(self) -> np.ndarray[Any, Any]:
        """-ln p of the right class, (M,)."""
        own = self.logits[np.arange(len(self.y)), self.y]
        return np.asarray(scipy.special.logsumexp(self.logits, axis=1) - own)

    def look(self, task: Task, text: Array | None) -> tuple[Array, Neighbourhood]:
        """The `evidence` of these images for none-of-these, (M, 2 or 3), and where the images of each class are."""
        task = replace(task, views=None)
        where = _neighbourhood(task)
        if self.folds is None:
            images, rows = task.X_val, backend.like(self.rows, task.y)
            near = backend.to_numpy(where.nearness(images[rows, :]))  # type: ignore[index]
        else:
            images, rows, fold = task.X, backend.like(self.rows, task.y), self.folds[self.rows]
            near = np.concatenate([
                backend.to_numpy(
                    _neighbourhood(task.rows(np.flatnonzero(self.folds != number)))
                    .nearness(images[backend.like(self.rows[fold == number], task.y), :])
                )
                for number in dict.fromkeys(fold.tolist())
            ])  # fmt: skip
        names = None if text is None else backend.to_numpy(images[rows, :] @ text.T)  # type: ignore[index]
        return evidence(self.logits, near, names), where


def _neighbourhood(task: Task) -> Neighbourhood:
    return Neighbourhood.of(task.X, task.y, task.n_classes, task.weights)


def what_is_lacking(counts: np.ndarray[Any, Any], left: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ln(n/n') and ln(N/N'), (K, 2), of probes that have seen `left` of the `counts` images of each class.

    >>> what_is_lacking(np.array([2, 2]), np.array([1, 2])).round(3).tolist()
    [[0.693, 0.288], [0.0, 0.288]]
    """
    of_class = np.log(np.maximum(counts, 1) / np.maximum(left, 1))
    return np.stack([of_class, np.full(len(of_class), np.log(counts.sum() / left.sum()))], axis=1)


def raised(logits: np.ndarray[Any, Any], y: np.ndarray[Any, Any], part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The logits, with that of each image's own class raised by c times `part` of the mean gap.

    >>> raised(np.array([[3.0, 1.0]]), np.array([0]), np.array([2.0])).tolist()  # 1 above the mean of 2.
    [[3.17, 1.0]]
    """
    rows, found = np.arange(len(y)), logits.astype(np.float64)
    gap = float((found[rows, y] - found.mean(axis=1)).mean())
    found[rows, y] += GAIN * max(0.0, gap) * part
    return found


def best_scale(logits: np.ndarray[Any, Any], y: np.ndarray[Any, Any], weights: Any = None) -> float:
    """The factor of the logits that gives the labels of the held-out images the highest likelihood.

    Half an image more is added, whose label is the second best answer (Jeffreys' prior of a rate). So a few images
    that are all right do not make the classifier certain.

    >>> round(best_scale(np.array([[2.0, 0.0]] * 3 + [[0.0, 2.0]]), np.zeros(4, int)), 2)  # The odds are 3 to 1.5.
    0.35
    """
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    weights = weights / weights.mean()  # The image that is added counts as much as one of mean weight.
    own, second = logits[np.arange(len(y)), y], np.partition(logits, -2, axis=1)[:, -2]
    means = means_under_softmax(logits)

    def slope(log_scale: float) -> float:
        """Of the loss, along the scale."""
        mean = means(np.exp(log_scale))
        return float(weights @ (mean - own) + (mean - second).mean() / 2)

    low, high = SCALES
    if slope(low) >= 0 or slope(high) <= 0:
        return float(np.exp(low if slope(low) >= 0 else high))
    return float(np.exp(zero_of(slope, low, high, precision=1e-9)))
