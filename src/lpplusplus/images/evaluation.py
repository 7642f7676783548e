"""How good a classifier is on labelled images: accuracy, confusions, calibration; plots of them need matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from .._core.files import atomic_write

BINS = 10
"""Bins of confidence that calibration is measured in."""
NAMED_UP_TO = 60
"""Largest number of classes whose names fit beside a confusion matrix."""


@dataclass(frozen=True)
class ClassScore:
    """One class of an evaluation."""

    label: str
    images: int
    recall: float | None
    """Fraction of its images that get this label; None without images."""
    precision: float | None
    """Fraction of the images with this answer that belong to the class; None if no image got it."""


@dataclass(frozen=True)
class Scores:
    """What `evaluate` found.

    Attributes
    ----------
    accuracy, balanced_accuracy : float
        Fraction of the images that are right, and the same per class, averaged over classes.
    log_loss : float
        Mean negative log-probability of the right class.
    calibration_error : float
        Mean distance between confidence and accuracy over bins of confidence, weighted by their number of images.
    images : int
        Number of images.
    classes : list of ClassScore
        Scores of each class.
    confusion : (K, K) array
        Number of images by truth (row) and answer (column).
    reliability : (bins, 3) array
        Mean confidence, accuracy and number of images of each bin of confidence that has images.
    trained_on : int
        Number of these images that the classifier was trained on, which makes any classifier look good.
    """

    accuracy: float
    balanced_accuracy: float
    log_loss: float
    calibration_error: float
    images: int
    classes: list[ClassScore]
    confusion: NDArray[np.int64]
    reliability: NDArray[np.float64]
    trained_on: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the accuracy on other images of the same kind."""
        return wilson(self.accuracy, self.images)

    def confused(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: truth, answer, number of images."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = (np.unravel_index(int(flat), wrong.shape) for flat in order)
        label = [score.label for score in self.classes]
        return [(label[i], label[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        bins = self.reliability.tolist()
        return {
            **vars(self),
            "interval": self.interval,
            "classes": [vars(score) for score in self.classes],
            "confusion": self.confusion.tolist(),
            "reliability": [{"confidence": said, "accuracy": part, "images": int(n)} for said, part, n in bins],
        }


def wilson(accuracy: float, images: int) -> tuple[float, float]:
    """95 % interval of a fraction (Wilson, 1927), which unlike ± 2 standard errors holds near 0 and 1, too.

    >>> [round(x, 3) for x in wilson(0.9, 100)], [round(x, 3) for x in wilson(1.0, 10)]
    ([0.826, 0.945], [0.722, 1.0])
    """
    z = 1.959964
    middle = (accuracy + z * z / (2 * images)) / (1 + z * z / images)
    half = z * np.sqrt(accuracy * (1 - accuracy) / images + (z / (2 * images)) ** 2) / (1 + z * z / images)
    return float(max(0.0, middle - half)), float(min(1.0, middle + half))


def evaluate(probabilities: NDArray[Any], truth: NDArray[np.intp], labels: list[str]) -> Scores:
    """Compare probabilities (n, K) with the true class indices (n,).

    Examples
    --------
    >>> result = evaluate(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]), np.array([0, 1, 1]), ["cat", "dog"])
    >>> round(result.accuracy, 2), result.confused()
    (0.67, [('dog', 'cat', 1)])
    """
    probabilities = np.asarray(probabilities, np.float64)
    n, k = probabilities.shape
    answers, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    right = answers == truth
    confusion = confusion_matrix(truth, answers, labels=range(k))
    counts = (confusion.sum(axis=1), confusion.sum(axis=0), confusion.diagonal())
    scores = [
        ClassScore(label, asked, hits / asked if asked else None, hits / given if given else None)
        for label, asked, given, hits in zip(labels, *(each.tolist() for each in counts), strict=True)
    ]
    own = np.clip(probabilities[np.arange(n), truth], np.finfo(np.float64).tiny, 1)
    reliability = _reliability(confidence, right)
    gaps = np.abs(reliability[:, 0] - reliability[:, 1])
    return Scores(
        accuracy=float(right.mean()),
        balanced_accuracy=float(np.mean([score.recall for score in scores if score.recall is not None])),
        log_loss=float(-np.log(own).mean()),
        calibration_error=float((gaps * reliability[:, 2]).sum() / n),
        images=n,
        classes=scores,
        confusion=confusion,
        reliability=reliability,
    )


def _reliability(confidence: NDArray[Any], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mean confidence, accuracy and size of each bin that has images."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows = [
        (float(confidence[bins == b].mean()), float(right[bins == b].mean()), float((bins == b).sum()))
        for b in np.unique(bins)
    ]
    return np.array(rows, np.float64).reshape(-1, 3)


def draw_confusion(result: Scores, path: Path) -> Path:
    """Write the confusion matrix, each row as fractions of its class, to a PNG file."""
    k = len(result.classes)
    side = min(18.0, max(4.5, 0.28 * k + 2.5))
    with _plot(path, side) as axes:
        counts = result.confusion.sum(axis=1, keepdims=True)
        image = axes.imshow(result.confusion / np.maximum(counts, 1), cmap="Blues", vmin=0, vmax=1)
        if k <= NAMED_UP_TO:
            labels = [score.label for score in result.classes]
            axes.set_xticks(range(k), labels, rotation=90, fontsize=8, parse_math=False)
            axes.set_yticks(range(k), labels, fontsize=8, parse_math=False)
        axes.set(xlabel="answer", ylabel="truth", title=f"accuracy {result.accuracy:.1%} on {result.images} images")
        axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04, label="part of the class")
    return path


def draw_reliability(result: Scores, path: Path) -> Path:
    """Write accuracy against confidence to a PNG file."""
    with _plot(path, 4.5) as axes:
        confidence, accuracy, images = result.reliability.T
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.plot(confidence, accuracy, color="C0", zorder=2)
        axes.scatter(confidence, accuracy, s=20 + 180 * images / images.max(), color="C0", zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="probability it states", ylabel="part that is right")
        axes.set(title=f"calibration error {result.calibration_error:.1%}")
    return path


@contextmanager
def _plot(path: Path, side: float) -> Iterator[Any]:
    """Square axes to draw on, `side` inches wide; afterwards the file is there, complete."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "lpplusplus[plots]".') from error
    figure, content = Figure(figsize=(side, side), layout="constrained"), io.BytesIO()
    FigureCanvasAgg(figure)
    yield figure.add_subplot()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # It draws a box instead.
        figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    with atomic_write(path) as file:
        file.write(content.getvalue())
