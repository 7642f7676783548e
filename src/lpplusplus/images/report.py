"""Pages for people about a classifier, and a map of photos: each one HTML file with its pictures inside.

Needs Jinja2 and Pillow.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._core.errors import plain
from .._core.files import seal
from .._core.parameters import Progress
from ..encoders.pixels.decoding import ImageError, open_image
from . import words
from .answers import Answers
from .embeddings import Embeddings
from .evaluation import Scores
from .hold_out import BOTH, NAMES
from .projection import colour
from .sources.image_set import StoredFile, content_of
from .training_data import short

if TYPE_CHECKING:
    from .classifier import ImageClassifier

MOST_MISTAKES = 60
"""Photos in the gallery of mistakes."""
LARGEST_MATRIX = 40
"""Classes in the confusion matrix; if there are more, those with the most mistakes."""
MOST_CLASSES = 400
"""Lines of the table of classes."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 560, 280, 56, 34
"""Size of the curve, and its margins."""
_SHORT = {BOTH: "this classifier", NAMES: "class names alone"}


SIDE, MAP_SIDE = 224, 112
"""Pixels of the longer side of a photo: on a page, and at the pointer on a map."""
NO_CLASS = "no class"


@dataclass(frozen=True)
class ShownPhoto:
    """A photo of the page."""

    picture: str | None
    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ConfusionMatrix:
    """A part of the confusion matrix: labels, rows of numbers, and how dark each cell is."""

    labels: list[str]
    rows: list[list[tuple[int, int]]]
    left_out: int


@dataclass(frozen=True)
class CurveLine:
    """A method's accuracy by number of examples: points in pixels, and their texts."""

    name: str
    key: str
    points: list[tuple[float, float]]
    values: list[str]


@dataclass(frozen=True)
class LearningCurve:
    """The learning curve."""

    shots: list[tuple[float, str]]
    levels: list[tuple[float, int]]
    lines: list[CurveLine]


@dataclass
class PageContent:
    """Everything that the template shows."""

    title: str
    facts: list[tuple[str, str]]
    warning: str = ""
    scores: Scores | None = None
    measured: str = ""
    sentences: Sequence[str] = ()
    advice: Sequence[tuple[str, list[str]]] = ()
    mistakes: list[ShownPhoto] = field(default_factory=list)
    mistakes_in_all: int = 0
    doubts: list[ShownPhoto] = field(default_factory=list)
    duplicates: list[tuple[ShownPhoto, ShownPhoto]] = field(default_factory=list)
    matrix: ConfusionMatrix | None = None
    curve: LearningCurve | None = None
    classes: list[Any] = field(default_factory=list)
    classes_left_out: int = 0


def training_page(clf: ImageClassifier, progress: Progress | None) -> str:
    """The page about a training: the answers about images that were left out."""
    support, insight, study = clf.support_, clf.insight_, clf.study_
    content = PageContent(
        "What was learned", _facts(clf), advice=words.advice(insight, short), sentences=words.summary(insight)
    )
    content.duplicates = [
        (_photo(support, both.rows[0], both.first_label), _photo(support, both.rows[1], both.second_label))
        for both in insight.duplicates_of_two_classes
    ]
    if study is None:
        content.measured = "Accuracy was not measured: too many classes have a single image."
        return _render(content)
    images = study.answers.images
    content.doubts = [
        _photo(images, doubt.row, f"{doubt.label}?", f"looks like {doubt.answer} ({words.percent(doubt.probability)})")
        for doubt in insight.mislabelled
    ]
    if insight.leaked:
        content.warning = words.seen_before(insight.leaked, len(images))
    content.measured = {"validation": "Measured on the validation images."}.get(
        insight.measured,
        f"Measured by {insight.measured}: each image was asked about by a classifier that had not seen it.",
    )
    _show(content, study.answers, study.answers.scores())
    content.curve = _curve(*study.curve(progress))
    return _render(content)


def evaluation_page(clf: ImageClassifier, answers: Answers, scores: Scores, progress: Progress | None) -> str:
    """The page about an evaluation."""
    content = PageContent("How good it is", _facts(clf), sentences=words.evaluated(scores))
    if scores.trained_on:
        content.warning = words.seen_before(scores.trained_on, scores.images)
    content.measured = f"Measured on {scores.images} labelled images."
    _show(content, answers, scores, progress)
    return _render(content)


def _facts(clf: ImageClassifier) -> list[tuple[str, str]]:
    facts = [("classes", str(len(clf.classes_))), ("method", type(clf.classifier_).__name__)]
    if hasattr(clf, "support_"):
        facts.insert(0, ("trained on", f"{len(clf.support_)} images"))
    if clf.origin_ is not None:
        facts += [("encoder", clf.origin_.spec), ("in sentences such as", clf._prompts[0])]
    return [*facts, ("made by", f"lpplusplus {__version__}")]


def _show(content: PageContent, answers: Answers, scores: Scores, progress: Progress | None = None) -> None:
    """Fill in what a comparison with labels shows."""
    content.scores = scores
    content.matrix = _matrix(scores)
    ranked = sorted(scores.classes, key=lambda score: 2.0 if score.recall is None else score.recall)
    content.classes, content.classes_left_out = ranked[:MOST_CLASSES], max(0, len(ranked) - MOST_CLASSES)
    truth, said = answers.truth, answers.probabilities
    best = said.argmax(axis=1)
    wrong = np.flatnonzero(best != truth)
    surest = wrong[np.argsort(-said[wrong, best[wrong]], kind="stable")]
    content.mistakes_in_all = len(wrong)
    for done, i in enumerate(surest[:MOST_MISTAKES].tolist(), 1):
        taken = f"taken for {answers.classes[best[i]]} ({words.percent(float(said[i, best[i]]))})"
        own = f"own class {words.percent(float(said[i, truth[i]]))}"
        content.mistakes.append(_photo(answers.images, i, answers.classes[truth[i]], taken, own))
        if progress is not None:
            progress(done, min(len(wrong), MOST_MISTAKES))


def _photo(images: Embeddings, row: int, *lines: str) -> ShownPhoto:
    return ShownPhoto(thumbnail(images, row), short(images.paths[row]), lines)


def _matrix(scores: Scores) -> ConfusionMatrix | None:
    """The matrix of the classes with the most mistakes, in their usual order; None if there are no mistakes."""
    counts = scores.confusion
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    if not errors.any():
        return None
    chosen = np.sort(np.argsort(-errors, kind="stable")[:LARGEST_MATRIX])
    part: NDArray[np.int64] = counts[np.ix_(chosen, chosen)]
    shade = np.round(100 * part / np.maximum(counts[chosen].sum(axis=1, keepdims=True), 1)).astype(int)
    return ConfusionMatrix(
        [scores.classes[i].label for i in chosen],
        [list(zip(row.tolist(), dark.tolist(), strict=True)) for row, dark in zip(part, shade, strict=True)],
        len(counts) - len(chosen),
    )


def _curve(photos: Sequence[float], accuracy: dict[str, list[float]]) -> LearningCurve:
    """Accuracy by number of examples per class, on a logarithmic axis."""
    wide, high = _WIDTH - _LEFT - 16, _HEIGHT - _BOTTOM - 12
    first, last = np.log2(photos[0]), np.log2(photos[-1])

    def x(count: float) -> float:
        return float(round(_LEFT + 12 + (wide - 12) * (np.log2(count) - first) / max(last - first, 0.1), 1))

    def y(part: float) -> float:
        return float(round(12 + high * (1 - part), 1))

    lines = [
        CurveLine(
            _SHORT[name],
            f"line{number}",
            [(x(count), y(part)) for count, part in zip(photos, parts, strict=True)],
            [words.percent(part) for part in parts],
        )
        for number, (name, parts) in enumerate(accuracy.items())
    ]
    return LearningCurve(
        [(x(count), f"{count:.3g}") for count in photos], [(y(part / 100), part) for part in range(0, 101, 25)], lines
    )


def _render(content: PageContent) -> str:
    size = {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "bottom": _HEIGHT - _BOTTOM}
    return seal(rendered("page.html", content=content, size=size, percent=words.percent), "report")


def rendered(template: str, **values: Any) -> str:
    """Fill in a template. Every value is escaped; control characters, which could reorder a line, are shown."""
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup, escape
    except ImportError as error:
        raise ImportError('a report needs Jinja2: pip install "lpplusplus[images]".') from error
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else escape(plain(value).replace(" %", "\u00a0%")),
    )
    return environment.get_template(template).render(values)


@dataclass(frozen=True)
class Dot:
    """A photo on the map; its place in percent."""

    x: float
    y: float
    colour: str
    label: str
    name: str
    picture: str | None


def map_page(images: Embeddings, xy: NDArray[Any], about: str, progress: Progress | None = None) -> str:
    """A page with the map of images, whose photos show at the pointer. An empty label is grey.

    Parameters
    ----------
    images
        With a label each.
    xy
        Their coordinates, (n, 2).
    about
        Text above the map.
    progress
        Called as `progress(done, total)`.
    """
    assert images.labels is not None
    colours = {label: colour(number) for number, label in enumerate(images.classes)}
    low, high = xy.min(axis=0), xy.max(axis=0)
    spots = np.round(100 * (xy - low) / np.maximum(high - low, 1e-12), 2)
    points = []
    for row, ((x, y), label) in enumerate(zip(spots.tolist(), images.labels.tolist(), strict=True)):
        shown = colours.get(label, "grey"), label or NO_CLASS, short(images.paths[row])
        points.append(Dot(x, 100 - y, *shown, thumbnail(images, row, MAP_SIDE)))
        if progress is not None:
            progress(row + 1, len(images))
    keys = [*colours.items(), *([(NO_CLASS, "grey")] if "" in images.labels else [])]
    return seal(rendered("map.html", points=points, keys=keys, about=about), "map")


def thumbnail(images: Embeddings, row: int, side: int = SIDE) -> str | None:
    """An image as a `data:` address, its longer side `side` pixels at most; or None if it is not there any more.

    The copy is encoded anew from pixels, so that neither EXIF data (the place where it was taken) nor anything else
    of the file gets into the page. A file is shown only if it is the one that was embedded: a feature store from
    somebody else could name any file of this computer.
    """
    item = images.items[row] if images.items else Path(images.paths[row])
    try:
        if isinstance(item, Path | StoredFile):
            content = content_of(item)
            if images.hashes is None or hashlib.sha256(content).digest() != images.hashes[row].tobytes():
                return None
            picture = open_image(content)
        else:
            picture = open_image(item)
    except ImageError:
        return None
    small = picture.copy()  # It may be the user's own.
    small.thumbnail((side, side))
    small.info = {}  # Pillow would write a comment that it has read.
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
