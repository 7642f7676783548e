"""How sure a probe is of its answers: sets of classes that may be right, and "none of these"."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core import backend
from .._core.backend import Array
from .._core.base import FewShotClassifier
from .._core.class_prompts import check_text
from .._core.task import Task
from .fit import scaled
from .held_out import HeldOutAnswers
from .none_of_these import Neighbourhood, evidence, familiarity, lowest_familiarity

LOOKED_AT = ("held_out_evidence_", "class_means_", "class_counts_", "scatter_")
"""Attributes that none-of-these needs."""


class Uncertainty(FewShotClassifier):
    """The part of `LPPlusPlus` for prediction sets and "none of these"."""

    uncertainty_arrays: ClassVar[dict[str, str]] = {
        "held_out_losses_": "M?", "held_out_evidence_": "ME?",
        "class_means_": "KD?", "class_counts_": "K?", "scatter_": "RD?",
    }  # fmt: skip

    held_out_: HeldOutAnswers | None
    held_out_losses_: Array | None
    """-ln p of held-out images' right class, at the classifier's temperature."""
    held_out_evidence_: Array | None
    """The `evidence` of held-out images; see `none_of_these`."""
    class_means_: Array | None
    class_counts_: Array | None
    scatter_: Array | None

    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """A set of classes for each image that contains the right one with a given probability, (n, K) booleans.

        The coverage holds for images like those of the support. A set has several classes where the image might show
        any of them. It is empty where no class is as likely as the right one usually is; few sets are empty if the
        coverage is above the classifier's accuracy.

        Parameters
        ----------
        X : (n, D) array
            Embeddings, as in `predict`.
        coverage : float
            How often the right class should be in the set, between 0 and 1.

        Notes
        -----
        Conformal prediction on the images that `fit` held out: folds of the support, or validation images. So `fit`
        needs two examples per class or `X_val`, and `selection` has to be "auto", "cross-validation" or
        "validation-loss". The coverage is the mean over many supports; with a single support it is a little higher or
        lower, and closer with more images. See docs/explanation/trust.md.
        """
        logits = self._logits(self._ready_for(X, "predict_set", "coverage", coverage))
        return sets_of(logits, largest_loss(backend.to_numpy(self.held_out_losses_), coverage))

    def none_of_these(self, X: Any, false_alarms: float = 0.05, *, other_text: Any = None) -> Array:
        """Whether an image shows none of the classes, (n,).

        Parameters
        ----------
        X : (n, D) array
            Embeddings, as in `predict`.
        false_alarms : float
            The fraction of images of the classes that may be rejected, between 0 and 1. More false alarms find more
            images of other things.
        other_text : (J, D) array, optional
            Embeddings of names of other things. An image that is closer to one of them than images of the classes
            usually are is rejected too. Each of the two rules then has half of the false alarms.

        Notes
        -----
        Needs held-out images, as `predict_set` does. `familiarity` is the score that is compared with a threshold.
        """
        X = self._ready_for(X, "none_of_these", "false_alarms", false_alarms)
        held_out = backend.to_numpy(self.held_out_evidence_)
        rate = false_alarms if other_text is None else false_alarms / 2
        none = self._familiarity(X) < lowest_familiarity(familiarity(held_out, held_out), rate)
        if other_text is None:
            return none
        task = vars(self).get("task_")
        if self.text_ is None or task is None:
            raise ValueError(
                "other_text is compared with the class names on the images that the classifier was fitted on, and it "
                + ("has no names: fit with text=." if self.text_ is None else "was saved without these: leave it out.")
            )
        other = check_text(other_text, X)[0]
        members = backend.like(task.working().X, X)
        closer = lowest_familiarity(backend.to_numpy(self._margin(members, other)), rate)
        return none | (self._margin(X, other) < closer)

    def familiarity(self, X: Any) -> Array:
        """How much an image looks like any of the classes, (n,): about 0 for images of the classes, lower for others.

        It combines the logits, the images of the support and the class names; see docs/explanation/trust.md.
        """
        return self._familiarity(self._ready_for(X, "familiarity"))

    def _margin(self, X: Array, other: Array) -> Array:
        """How much closer an image is to the nearest class name than to the nearest other name."""
        F = self._scaled(X)
        xp = backend.namespace(F)
        near, far = (xp.max(F @ backend.like(text, F, dtype=F.dtype).T, axis=1) for text in (self.text_, other))
        return near - far

    def _scaled(self, X: Array) -> Array:
        F = backend.cast(X, backend.like(self.coef_, X).dtype)
        return backend.unit_rows(F) if self.normalize else F

    def _familiarity(self, X: Array) -> Array:
        logits = self._logits(X)
        F = self._scaled(X)
        where = Neighbourhood(self.class_means_, self.class_counts_, self.scatter_)
        names = None if self.text_ is None else F @ backend.like(self.text_, F, dtype=F.dtype).T
        return familiarity(evidence(logits, where.nearness(F), names), backend.to_numpy(self.held_out_evidence_))

    def _ready_for(self, X: Any, what: str, name: str = "", level: float = 0.5) -> Array:
        check_is_fitted(self)
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
            raise ValueError(f"{name} is {level!r}: give a number between 0 and 1, such as 0.9 or 0.05.")
        if self.held_out_losses_ is None:
            raise ValueError(
                f"{what} needs images that fit held out, and this classifier has none: fit with two examples per class "
                f"or more, or with X_val and y_val, and with selection 'auto', 'cross-validation' or 'validation-loss' "
                f"in the recipe 'default'. Files of earlier versions have none either."
            )
        return self._ready(X)

    def _learn_uncertainty(self, held_out: HeldOutAnswers | None) -> None:
        """Set what prediction sets need; what none-of-these needs is computed when it is asked for."""
        self.held_out_ = held_out
        for name in self.uncertainty_arrays:
            self.__dict__.pop(name, None)
            if held_out is None:
                setattr(self, name, None)
        if held_out is not None:
            self.held_out_losses_ = backend.like(held_out.losses, self.coef_, dtype=self.coef_.dtype)

    def __getattr__(self, name: str) -> Any:
        """What none-of-these needs, when it is first asked for."""
        if name in LOOKED_AT and vars(self).get("held_out_") is not None and "task_" in vars(self):
            self._look_around(self._weighed(self.task_.working()))
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _look_around(self, task: Task) -> None:
        if self.held_out_ is None:
            return
        seen, where = self.held_out_.look(scaled(task, normalize=self.normalize), self.text_)
        values = seen, where.means, where.counts, where.scatter
        for name, value in zip(LOOKED_AT, values, strict=True):
            setattr(self, name, backend.like(value, self.coef_, dtype=self.coef_.dtype))

    def _check_uncertainty(self) -> None:
        """Raise if a file has some of the attributes but not all, or if no class has images."""
        missing = {getattr(self, name) is None for name in self.uncertainty_arrays}
        if len(missing) > 1 or (self.class_counts_ is not None and not (self.class_counts_ > 0).any()):
            raise ValueError("the arrays of prediction sets and none-of-these do not belong together")


def largest_loss(losses: np.ndarray[Any, Any], coverage: float) -> float:
    """The loss up to which a class belongs to a set; infinite if there are too few held-out images to exclude any.

    Conformal prediction with the M held-out images of `held_out`: a class is in an image's set if its loss, -ln p, is
    at most the k-th smallest loss of the held-out images, k = (M + 1) coverage. If k is not a whole number, the limit
    is interpolated between two losses, so that the expected coverage is the one asked for. The usual rule takes the
    larger of the two losses: the coverage is then higher, for example 92.3 % instead of 90 % with 38 images.

    >>> largest_loss(np.arange(9.0), 0.8), largest_loss(np.arange(9.0), 0.75), largest_loss(np.arange(9.0), 0.95)
    (7.0, 6.5, inf)
    """
    images = len(losses)
    rank = round((images + 1) * coverage, 9)
    return float(np.interp(rank, np.arange(1, images + 1), np.sort(losses))) if rank <= images else math.inf


def sets_of(logits: Array, limit: float) -> Array:
    """Which classes have a loss of at most `limit`, (n, K).

    >>> sets_of(np.log([[0.7, 0.2, 0.1]]), -np.log(0.15)).tolist()
    [[True, True, False]]
    """
    xp = backend.namespace(logits)
    z = logits - xp.max(logits, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(z), axis=1, keepdims=True)) - z <= limit
