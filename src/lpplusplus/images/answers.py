"""From a classifier and embeddings to answers, the only way there is: for Python, `lpp`, the service and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core import backend
from .._core.base import FewShotClassifier
from ..encoders.class_text import class_texts
from ..probe.estimator import LPPlusPlus
from ..probe.none_of_these import familiarity, lowest_familiarity
from .embeddings import Embeddings
from .errors import SourceError
from .evaluation import Scores, evaluate
from .opening import refuse_another
from .prior import Kinds, estimated, frequencies, restricted, reweighted

if TYPE_CHECKING:
    from .classifier import ImageClassifier

FALSE_ALARMS = 0.05
"""The fraction of images of the classes that "none of these" may reject, where nobody says another."""


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
    only
        The classes that the images can show; by default all.
    prior
        How frequent each class is among the images, or "auto" to find that out from the images; by default as in the
        training.
    parents
        What each class is a kind of. Probabilities of parents are given, too.
    back_off
        Also give an answer that is at least as probable as this: the likeliest class, or one of its parents.
    """

    top: int = 1
    sets: float | None = None
    none: float | None = None
    other_names: Sequence[str] = ()
    nearest: int = 0
    only: Sequence[str] = ()
    prior: Mapping[str, float] | Literal["auto"] | None = None
    parents: Mapping[str, str] | None = None
    back_off: float | None = None


PROBABILITIES = Question()
"""Nothing but these is asked."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a classifier says of images.

    Attributes
    ----------
    images : Embeddings
        The images, with their labels if these are known.
    probabilities : (n, K) array
        Of each class, in the order of `classes`.
    classes : list of str
        Labels.
    sets : (n, K) booleans or None
        The prediction set of each image, if asked for.
    none : (n,) booleans or None
        Whether it shows none of the classes, if asked for.
    nearest : list of lists of str or None
        The paths of the most similar training images, the most similar first, if asked for.
    parents : list of dicts or None
        Probabilities of each image's parents, the likeliest first, if asked for.
    backed_off : list of (str, float) or None
        The class, or parent of it, that is sure enough, with its probability, if asked for.
    """

    images: Embeddings
    probabilities: NDArray[Any]
    classes: list[str]
    sets: NDArray[np.bool_] | None = None
    none: NDArray[np.bool_] | None = None
    nearest: list[list[str]] | None = None
    parents: list[dict[str, float]] | None = None
    backed_off: list[tuple[str, float]] | None = None

    @property
    def order(self) -> NDArray[np.intp]:
        """(n, K) Positions of the classes, the likeliest first."""
        return (-self.probabilities).argsort(axis=1, kind="stable")

    @property
    def truth(self) -> NDArray[np.intp]:
        """Position in `classes` of each image's label."""
        return positions(self.images, self.classes)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the likeliest class is the label, of each image."""
        return np.asarray(self.probabilities.argmax(axis=1) == self.truth)

    def subset(self, rows: Any) -> Answers:
        """Those about some of the images; without sets and the like."""
        return Answers(self.images.subset(rows), self.probabilities[rows], self.classes)

    def scores(self, trained_on: int = 0) -> Scores:
        """Accuracy and all the rest."""
        return replace(evaluate(self.probabilities, self.truth, self.classes), trained_on=trained_on)

    def as_dicts(self, top: int = 1) -> list[dict[str, Any]]:
        """For each image its path, its `top` labels with probabilities; if asked, `set`, `none_of_these`, `nearest`."""
        order = self.order
        told: list[dict[str, Any]] = [
            {"path": path, "top": [{"label": self.classes[k], "probability": float(row[k])} for k in best[:top]]}
            for path, row, best in zip(self.images.paths, self.probabilities, order, strict=True)
        ]
        for i, answer in enumerate(told):
            if self.sets is not None:
                answer["set"] = [self.classes[k] for k in order[i] if self.sets[i, k]]
            if self.none is not None:
                answer["none_of_these"] = bool(self.none[i])
            if self.nearest is not None:
                answer["nearest"] = self.nearest[i]
            if self.parents is not None:
                best = list(self.parents[i].items())[:top]
                answer["parents"] = [{"label": label, "probability": value} for label, value in best]
            if self.backed_off is not None:
                answer["answer"] = dict(zip(("label", "probability"), self.backed_off[i], strict=True))
        return told


def positions(images: Embeddings, classes: Sequence[str]) -> NDArray[np.intp]:
    """Position in `classes` of each image's label."""
    position = {label: i for i, label in enumerate(classes)}
    return np.array([position[label] for label in np.asarray(images.labels).tolist()], np.intp)


def answers(
    classifier: ImageClassifier | FewShotClassifier, images: Embeddings, question: Question = PROBABILITIES
) -> Answers:
    """What a classifier says of images that are embedded; another encoder's embeddings are refused.

    A bare method answers too, but it knows no encoder and no photos: `other_names` and `nearest` need an
    `ImageClassifier`.
    """
    check_question(classifier, question)
    method = method_of(classifier)
    refuse_another(getattr(classifier, "origin_", None), images.origin, "this classifier", "these embeddings")
    rows = images.rows
    sets = none = nearest = text = None
    if question.sets is not None:
        sets = np.asarray(method.predict_set(rows, question.sets))
    if question.other_names:
        text = class_texts(classifier.open_encoder(), list(question.other_names), classifier._prompts)
    if question.none is not None:
        none = np.asarray(method.none_of_these(rows, question.none, other_text=text))
    if question.nearest:
        likeness = np.asarray(backend.unit_rows(rows)) @ np.asarray(backend.unit_rows(classifier.support_.rows)).T
        closest = [np.argsort(-row, kind="stable")[: question.nearest].tolist() for row in likeness]
        nearest = [[classifier.support_.paths[row] for row in best] for best in closest]
    labels = [str(label) for label in method.classes_.tolist()]
    said = _as_known(classifier, np.asarray(method.predict_proba(rows)), labels, question)
    if question.only and sets is not None:
        sets &= np.isin(labels, list(question.only))
    return Answers(images, said, labels, sets, none, nearest, *_of_parents(said, labels, question))


def _of_parents(said: NDArray[Any], labels: list[str], question: Question) -> tuple[Any, Any]:
    """Probabilities of parents, and the answers that are sure enough, if asked for."""
    if question.parents is None:
        return None, None
    kinds, each = Kinds(question.parents), [dict(zip(labels, row, strict=True)) for row in said.tolist()]
    sure = question.back_off
    return [kinds.sums(one) for one in each], None if sure is None else [kinds.back_off(one, sure) for one in each]


def _as_known(classifier: Any, said: NDArray[Any], labels: list[str], question: Question) -> NDArray[Any]:
    """Probabilities, with what is known of the images."""
    if question.only:
        said = restricted(said, labels, question.only)
    if question.prior is None or not len(said):
        return said
    trained = np.full(len(labels), 1 / len(labels))
    support = getattr(classifier, "support_", None)
    if support is not None and getattr(method_of(classifier), "class_weight", None) is None:
        counts = Counter([*support.labels.tolist(), *labels])  # One more of each: a class may have its name only.
        trained = np.array([counts[label] for label in labels]) / counts.total()
    if question.prior != "auto":
        return reweighted(said, frequencies(question.prior, labels), trained)
    held = classifier.left_out()
    return reweighted(said, estimated(said, held.probabilities, held.truth, trained), trained)


def check_question(classifier: ImageClassifier | FewShotClassifier, question: Question) -> None:
    """Refuse what this classifier cannot answer, before anything is embedded."""
    method = method_of(classifier)
    for name, asked in (("predict_set", question.sets), ("none_of_these", question.none)):
        if asked is not None and not isinstance(method, LPPlusPlus):
            raise SourceError(
                f"{name} is for LPPlusPlus, and this classifier is a {type(method).__name__}: train with "
                f"method=LPPlusPlus()."
            )
    _check_known(classifier, question)
    if question.nearest and not hasattr(classifier, "support_"):
        raise SourceError("this classifier was saved without the embeddings of its training images.")


def _check_known(classifier: Any, question: Question) -> None:
    """Refuse what does not go together with what is known of the images."""
    only, prior, auto = bool(question.only), question.prior is not None, question.prior == "auto"
    refused = {
        "none_of_these asks about all classes as they were trained: leave out only and prior.": (
            (only or prior) and question.none is not None
        ),
        "predict_set promises its coverage for the frequencies of the training: leave out prior.": (
            prior and question.sets is not None
        ),
        "only and prior='auto' together are not supported: give the frequencies.": auto and only,
        "prior='auto' needs an ImageClassifier with its training images.": auto and not hasattr(classifier, "left_out"),
        "back_off needs parents to back off to.": question.back_off is not None and question.parents is None,
    }
    for reason, holds in refused.items():
        if holds:
            raise SourceError(reason)


def method_of(classifier: ImageClassifier | FewShotClassifier) -> Any:
    """The fitted method."""
    return getattr(classifier, "classifier_", classifier)


def none_threshold(method: FewShotClassifier, false_alarms: float = FALSE_ALARMS) -> float | None:
    """The familiarity below which an image is none of the classes; None if the method has no such score.

    It is -inf where there are too few photos to reject any.
    """
    if not isinstance(method, LPPlusPlus) or method.held_out_evidence_ is None:
        return None
    evidence = backend.to_numpy(method.held_out_evidence_)
    return lowest_familiarity(backend.to_numpy(familiarity(evidence, evidence)), false_alarms)
