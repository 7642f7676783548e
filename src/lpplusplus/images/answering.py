"""Answers about images, for people and tables: the likeliest classes, prediction sets, none of these, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.backend import unit_rows
from .classifier import ImageClassifier
from .embeddings import Embeddings
from .errors import SourceError


@dataclass(frozen=True)
class Question:
    """What is asked of a classifier.

    Attributes
    ----------
    top
        How many of the likeliest classes to give.
    sets
        Also give prediction sets with this coverage: how often the right class is in the set.
    none
        Also say whether an image shows none of the classes; this fraction of class members may be rejected by mistake.
    other_names
        Names of other things, to help `none`.
    nearest
        Also give this many training images that are most similar.
    """

    top: int = 1
    sets: float | None = None
    none: float | None = None
    other_names: Sequence[str] = ()
    nearest: int = 0


def answers(clf: ImageClassifier, found: Embeddings, question: Question) -> list[dict[str, Any]]:
    """For each image its path, its `top` labels with probabilities; if asked, `set`, `none_of_these` and `nearest`."""
    labels = [str(label) for label in clf.classes_.tolist()]
    chances = clf.probabilities(found)
    order = (-chances).argsort(axis=1, kind="stable")
    told: list[dict[str, Any]] = [
        {"path": path, "top": [{"label": labels[k], "probability": float(row[k])} for k in best[: question.top]]}
        for path, row, best in zip(found.paths, chances, order, strict=True)
    ]
    if question.sets is not None:
        for answer, row, best in zip(told, clf.predict_set(found, question.sets), order, strict=True):
            answer["set"] = [labels[k] for k in best if row[k]]
    if question.none is not None:
        unknown = clf.none_of_these(found, question.none, other_names=list(question.other_names))
        for answer, flag in zip(told, unknown.tolist(), strict=True):
            answer["none_of_these"] = flag
    if question.nearest:
        for answer, rows in zip(told, nearest(clf, found.rows, question.nearest), strict=True):
            answer["nearest"] = [clf.support_.paths[row] for row in rows]
    return told


def nearest(clf: ImageClassifier, rows: NDArray[Any], count: int) -> list[list[int]]:
    """For each embedding the rows of the most similar training images, the most similar first."""
    if not hasattr(clf, "support_"):
        raise SourceError("this classifier was saved without the embeddings of its training images.")
    likeness = np.asarray(unit_rows(rows)) @ np.asarray(unit_rows(clf.support_.rows)).T
    return [np.argsort(-row, kind="stable")[:count].tolist() for row in likeness]
