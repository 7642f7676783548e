"""Plots of an evaluation. Needs matplotlib."""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._core.files import atomic_write
from .evaluation import Scores

NAMED_UP_TO = 60
"""Largest number of classes whose names fit beside a confusion matrix."""


def draw_confusion(result: Scores, path: Path) -> Path:
    """Write the confusion matrix, each row as fractions of its class, to a PNG file."""
    k = len(result.classes)
    side = min(18.0, max(4.5, 0.28 * k + 2.5))
    figure, axes = _figure(side, side)
    counts = result.confusion.sum(axis=1, keepdims=True)
    image = axes.imshow(result.confusion / np.maximum(counts, 1), cmap="Blues", vmin=0, vmax=1)
    if k <= NAMED_UP_TO:
        labels = [score.label for score in result.classes]
        axes.set_xticks(range(k), labels, rotation=90, fontsize=8, parse_math=False)
        axes.set_yticks(range(k), labels, fontsize=8, parse_math=False)
    axes.set(xlabel="answer", ylabel="truth", title=f"accuracy {result.accuracy:.1%} on {result.images} images")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04, label="part of the class")
    return _write(figure, path)


def draw_reliability(result: Scores, path: Path) -> Path:
    """Write accuracy against confidence to a PNG file."""
    figure, axes = _figure(4.5, 4.5)
    confidence, accuracy, images = result.reliability.T
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot(confidence, accuracy, color="C0", zorder=2)
    axes.scatter(confidence, accuracy, s=20 + 180 * images / images.max(), color="C0", zorder=3)
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="probability it states",
        ylabel="part that is right",
        title=f"calibration error {result.calibration_error:.1%}",
    )
    return _write(figure, path)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "lpplusplus[plots]".') from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _write(figure: Any, path: Path) -> Path:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # It draws a box instead.
        figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    with atomic_write(path) as file:
        file.write(content.getvalue())
    return path
