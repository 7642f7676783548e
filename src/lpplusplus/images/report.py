"""Pages for people about a classifier, and a map of photos: each one HTML file with its pictures inside.

Needs Jinja2 and Pillow.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
from .explaining import Explainer, background_photos, shaded
from .hold_out import BOTH, NAMES
from .projection import colour
from .sources.image_set import StoredFile, content_of
from .training_data import short

if TYPE_CHECKING:
    from PIL import Image

    from .classifier import ImageClassifier

MOST_MISTAKES = 60
"""Photos in the gallery of mistakes."""
MOST_EXPLAINED = 100
"""Photos on the page of `--why`."""
LARGEST_MATRIX = 40
"""Classes in the confusion matrix; if there are more, those with the most mistakes."""
MOST_CLASSES = 400
"""Lines of the table of classes."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, INSET = 560, 280, 56, 34, 12, 16
"""Size of the curve, and its margins."""
SIDE, MAP_SIDE = 224, 112
"""Pixels of the longer side of a photo: on a page, and at the pointer on a map."""
NO_CLASS = "no class"


def training_page(clf: ImageClassifier, progress: Progress | None) -> str:
    """The page about a training: the answers about images that were left out."""
    support, insight, study = clf.support_, clf.insight_, clf.study_
    content: dict[str, Any] = {
        "title": "What was learned",
        "advice": words.advice(insight, short),
        "sentences": words.summary(insight),
        "measured": "Accuracy was not measured: too many classes have a single image.",
        "duplicates": [
            (_photo(support, both.rows[0], both.first_label), _photo(support, both.rows[1], both.second_label))
            for both in insight.duplicates_of_two_classes
        ],
    }
    explainer = Explainer.at_hand(clf)
    if explainer is not None:
        chosen = background_photos(support, clf.classes_.tolist())
        seen = explainer.by_background((label, _original(support, row)) for label, row in chosen)
        content["advice"] += words.by_background(seen)
    if study is not None:
        images = study.answers.images
        content |= _compared(study.answers, study.answers.scores(), explainer)
        content["doubts"] = [
            _photo(images, one.row, f"{one.label}?", f"looks like {one.answer} ({words.percent(one.probability)})")
            for one in insight.mislabelled
        ]
        if insight.leaked:
            content["warning"] = words.seen_before(insight.leaked, len(images))
        content["measured"] = (
            "Measured on the validation images."
            if insight.measured == "validation"
            else f"Measured by {insight.measured}: each image was asked about by a classifier that had not seen it."
        )
        photos, lines = study.curve(progress)
        content["curve"] = _curve(photos, lines) if len(photos) > 1 else None
    return _render(clf, content)


def evaluation_page(clf: ImageClassifier, answers: Answers, scores: Scores, progress: Progress | None) -> str:
    """The page about an evaluation."""
    content = {
        "title": "How good it is",
        "sentences": words.evaluated(scores),
        "warning": words.seen_before(scores.trained_on, scores.images) if scores.trained_on else "",
        "measured": f"Measured on {scores.images} labelled images.",
    }
    return _render(clf, content | _compared(answers, scores, Explainer.at_hand(clf), progress))


def why_page(clf: ImageClassifier, answers: Answers, progress: Progress | None) -> str:
    """The page of `lpp predict --why`: on each photo, where the evidence for the answer and for the runner-up is."""
    explainer, shown, seconds = Explainer(clf), [], 0.0
    for row in range(min(len(answers.images), MOST_EXPLAINED)):
        first, second = answers.order[row, :2] if len(answers.classes) > 1 else (0, 0)
        labels = [answers.classes[first], answers.classes[second]]
        picture = _original(answers.images, row)
        if picture is not None:
            told = explainer(picture, labels)
            seconds += told.seconds
            pair = [as_address(shaded(picture, told.lead, told.box, SIDE, sign)) for sign in (1, -1)]
            names = [
                f"{answers.classes[k]} ({words.percent(float(answers.probabilities[row, k]))})" for k in (first, second)
            ]
            shown.append((as_address(picture), *zip(pair, names, strict=True), short(answers.images.paths[row])))
        if progress is not None:
            progress(row + 1, min(len(answers.images), MOST_EXPLAINED))
    how = "computed" if explainer.exact else f"measured by covering parts of each photo, {seconds:.1f} seconds in all"
    content = {
        "title": "Why these answers",
        "sentences": [
            "Light is what speaks for the answer against the runner-up, and in the last picture what speaks for the "
            "runner-up. What is dark in both speaks for neither."
        ],
        "measured": f"The evidence was {how}." + _left_out(len(answers.images)),
        "explained": shown,
    }
    return _render(clf, content)


def _left_out(images: int) -> str:
    return f" The first {MOST_EXPLAINED} of {images} photos are shown." if images > MOST_EXPLAINED else ""


def _compared(
    answers: Answers, scores: Scores, explainer: Explainer | None, progress: Progress | None = None
) -> dict[str, Any]:
    """What a comparison with labels shows."""
    ranked = sorted(scores.classes, key=lambda score: 2.0 if score.recall is None else score.recall)
    truth, said = answers.truth, answers.probabilities
    best = said.argmax(axis=1)
    wrong = np.flatnonzero(best != truth)
    surest = wrong[np.argsort(-said[wrong, best[wrong]], kind="stable")][:MOST_MISTAKES].tolist()
    mistakes = []
    for done, i in enumerate(surest, 1):
        taken = f"taken for {answers.classes[best[i]]} ({words.percent(float(said[i, best[i]]))})"
        own = f"own class {words.percent(float(said[i, truth[i]]))}"
        photo = _photo(answers.images, i, answers.classes[truth[i]], taken, own)
        picture = None if explainer is None else _original(answers.images, i)
        if explainer is not None and picture is not None:
            told = explainer(picture, (answers.classes[best[i]], answers.classes[truth[i]]))
            photo["why"] = as_address(shaded(picture, told.lead, told.box, SIDE))
        mistakes.append(photo)
        if progress is not None:
            progress(done, len(surest))
    return {
        "scores": scores,
        "matrix": _matrix(scores),
        "mistakes": mistakes,
        "mistakes_in_all": len(wrong),
        "classes": ranked[:MOST_CLASSES],
        "classes_left_out": max(0, len(ranked) - MOST_CLASSES),
    }


def _photo(images: Embeddings, row: int, *lines: str) -> dict[str, Any]:
    return {"picture": thumbnail(images, row), "name": short(images.paths[row]), "lines": lines}


def _matrix(scores: Scores) -> dict[str, Any] | None:
    """The matrix of the classes with the most mistakes, in their usual order; None if there are no mistakes."""
    counts = scores.confusion
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
    if not errors.any():
        return None
    chosen = np.sort(np.argsort(-errors, kind="stable")[:LARGEST_MATRIX])
    part: NDArray[np.int64] = counts[np.ix_(chosen, chosen)]
    shade = np.round(100 * part / np.maximum(counts[chosen].sum(axis=1, keepdims=True), 1)).astype(int)
    return {
        "labels": [scores.classes[i].label for i in chosen],
        "rows": np.stack([part, shade], axis=-1).tolist(),
        "left_out": len(counts) - len(chosen),
    }


def _curve(photos: Sequence[float], accuracy: dict[str, list[float]]) -> dict[str, Any]:
    """Accuracy by number of photos per class, on a logarithmic axis, in pixels."""
    wide, high = WIDTH - LEFT - 2 * INSET, HEIGHT - BOTTOM - TOP
    first, last = np.log2(photos[0]), np.log2(photos[-1])

    def x(count: float) -> float:
        return float(round(LEFT + INSET + wide * (np.log2(count) - first) / max(last - first, 0.1), 1))

    def y(part: float) -> float:
        return float(round(TOP + high * (1 - part), 1))

    lines = [
        {
            "name": {BOTH: "this classifier", NAMES: "class names alone"}[name],
            "key": f"line{2 * (name == BOTH)}",
            "points": [(x(count), y(part), words.percent(part)) for count, part in zip(photos, parts, strict=True)],
        }
        for name, parts in accuracy.items()
    ]
    levels = [(y(part / 100), part) for part in range(0, 101, 25)]
    return {"photos": [(x(count), f"{count:.3g}") for count in photos], "levels": levels, "lines": lines}


def _render(clf: ImageClassifier, content: dict[str, Any]) -> str:
    facts = [("classes", str(len(clf.classes_))), ("method", type(clf.classifier_).__name__)]
    if hasattr(clf, "support_"):
        facts.insert(0, ("trained on", f"{len(clf.support_)} images"))
    if clf.origin_ is not None:
        from .hub import public_spec  # Here, because the hub takes long to import.

        facts += [("encoder", public_spec(clf.origin_.spec)), ("in sentences such as", clf._prompts[0])]
    facts.append(("made by", f"lpplusplus {__version__}"))
    size = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": HEIGHT - BOTTOM}
    return _filled("page.html", "report", content=content, facts=facts, size=size, percent=words.percent)


def _filled(template: str, kind: str, **values: Any) -> str:
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
    return seal(environment.get_template(template).render(values), kind)


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
        shown = {"colour": colours.get(label, "grey"), "label": label or NO_CLASS, "name": short(images.paths[row])}
        points.append({"x": x, "y": 100 - y, "picture": thumbnail(images, row, MAP_SIDE), **shown})
        if progress is not None:
            progress(row + 1, len(images))
    keys = [*colours.items(), *([(NO_CLASS, "grey")] if "" in images.labels else [])]
    return _filled("map.html", "map", points=points, keys=keys, about=about)


def unsure_page(photos: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> str:
    """A page about photos that `lpp sort` did not give to a class: the path beside the page, and what each may show.

    It shows the files themselves: there may be thousands, and a photo that is put elsewhere is gone from it, too.
    """
    shown = [
        {
            "address": quote(path),
            "name": path.rpartition("/")[2],
            "lines": [f"{label} {words.percent(chance)}" for label, chance in candidates],
        }
        for path, candidates in photos
    ]
    return _filled("unsure.html", "unsure", photos=shown)


def thumbnail(images: Embeddings, row: int, side: int = SIDE) -> str | None:
    """An image as a `data:` address, its longer side `side` pixels at most; or None if it is not there any more.

    The copy is encoded anew from pixels, so that neither EXIF data (the place where it was taken) nor anything else
    of the file gets into the page. A file is shown only if it is the one that was embedded: a feature store from
    somebody else could name any file of this computer. A classifier's file has only the last two parts of a path:
    these are looked for here, and in the folders that are here.
    """
    picture = _original(images, row)
    return None if picture is None else as_address(picture, side)


def _original(images: Embeddings, row: int) -> Image.Image | None:
    """The picture of an image, if it is still there."""
    item = images.items[row] if images.items else Path(images.paths[row])
    places = [item]
    if isinstance(item, Path) and not item.is_absolute() and not item.exists():
        places = [folder / item for folder in sorted(Path().iterdir()) if (folder / item).is_file()]
    digest = None if images.hashes is None else images.hashes[row].tobytes()
    pictures = (_picture(place, digest) for place in places)
    return next((one for one in pictures if one is not None), None)


def as_address(picture: Image.Image, side: int = SIDE) -> str:
    """A small copy of a picture as a `data:` address."""
    small = picture.copy()  # It may be the user's own.
    small.thumbnail((side, side))
    small.info = {}  # Pillow would write a comment that it has read.
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _picture(item: Any, digest: bytes | None) -> Any:
    """The picture, of a file if its content was embedded; a classifier's file has only the digest's beginning."""
    try:
        if not isinstance(item, Path | StoredFile):
            return open_image(item)
        content = content_of(item)
        same = digest is not None and hashlib.sha256(content).digest().startswith(digest)
        return open_image(content) if same else None
    except ImageError:
        return None
