"""What a classifier says of images, for people and tables: the likeliest classes, sets, none of these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .classifier import ImageClassifier
from .embeddings import Embeddings


@dataclass(frozen=True)
class Question:
    """What is asked of a classifier.

    Attributes
    ----------
    top
        How many of the likeliest classes to tell.
    sets
        Also all classes that may be right, so that the right one is among them as often as this.
    none
        Also whether an image shows none of the classes; this part of class members may be turned away by mistake.
    other_names
        Names of other things, to help `none`.
    """

    top: int = 1
    sets: float | None = None
    none: float | None = None
    other_names: Sequence[str] = ()


def answers(clf: ImageClassifier, found: Embeddings, question: Question) -> list[dict[str, Any]]:
    """For each image its path, its `top` labels with probabilities, and if asked for `set` and `none_of_these`."""
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
    return told
