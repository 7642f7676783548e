"""CLIP's own classifier: compare an image with the class names; and what the methods that begin there share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from .._core import backend, checks
from .._core.backend import Array
from .._core.base import FewShotClassifier
from .._core.class_prompts import read_text, unit_text
from .._core.history import History
from .._core.parameters import number, with_parameters
from .._core.rows import MEMORY, sum_by_class, unit_rows
from .._core.softmax import softmax
from .._core.task import Task

if TYPE_CHECKING:
    from typing_extensions import Self

LOGIT_SCALE = 100.0
"""CLIP's learned temperature, exp(4.6052), which turns cosines into logits."""
HALVINGS = range(-1, 9)
"""Range of powers of 1/2 to search for the scale of logits."""

Setting = TypeVar("Setting")


@with_parameters
class TextBased(FewShotClassifier):
    """Base of methods that compare images with class names.

    Without `text`, the mean image of each class stands in for its name, and `history_.notes` says so.
    """

    normalize = True

    logit_scale: Annotated[float, number(0, open=True)] = LOGIT_SCALE

    def _set_text(self, task: Task) -> None:
        """Begin `history_`; set `text_`, and `coef_` to `logit_scale` times the unit class directions."""
        self.history_ = History()
        directions = task.text
        if directions is None:
            self.history_.note("no text given: each class's mean image stands in for its name")
            checks.check_every_class_has_examples(task, self._labels)
            directions = backend.unit_rows(sum_by_class(unit_rows(task.X), task.y, task.n_classes))
        self.coef_ = float(self.logit_scale) * directions
        self.text_ = None if task.text is None else backend.copy(task.text)


def log_loss(z: Array, y: Array) -> float:
    """Mean of -ln p of the right class, from logits."""
    own = z[backend.arange(z, z.shape[0]), y]
    total = softmax(z, out=backend.empty(z, tuple(z.shape)))
    return float(backend.namespace(z).mean(total[:, 0] - own))


def scaled_log_loss(z: Array, y: Array) -> float:
    """The lowest `log_loss` of z / 2^j. The scale changes no prediction, so it should not influence the choice.

    The loss is convex in the scale: the first j after which it rises is the best.
    """
    best = math.inf
    for j in HALVINGS:
        loss = log_loss(z / 2.0**j, y)
        if loss > best:
            break
        best = loss
    return best


def choose(
    settings: Sequence[Setting], logits: Callable[[Setting], Array], y: Array, history: History, *, by_accuracy: bool
) -> Setting:
    """The setting with the highest accuracy (ties: the lowest log-loss), or with the lowest log-loss.

    Published recipes choose by accuracy on validation images. Left-out images of the support are few, and log-loss says
    more about few images. It is measured at the best scale of the logits. The first of equals wins. `history` gets a
    row per setting, in their order.
    """
    found = []
    for setting in settings:
        z = logits(setting)
        accuracy = float(np.mean(backend.to_numpy(z.argmax(1) == y)))
        found.append((-accuracy if by_accuracy else 0.0, scaled_log_loss(z, y)))
        history.add(held_out_accuracy=accuracy, held_out_loss=found[-1][1])
    return settings[min(range(len(found)), key=found.__getitem__)]


@with_parameters
class ZeroShot(TextBased):
    """Logits 100·cos(f, t_k). Nothing is trained; examples and validation data are not used.

    Names are enough: `fit(text=T, classes=names)`. With examples and without `text`, the mean image of each class
    stands in for its name; that is no longer zero-shot, and `history_.notes` says so.

    Parameters
    ----------
    logit_scale : float
        Factor of the cosines. It changes probabilities, not predictions.

    Attributes
    ----------
    coef_ : (K, D) array
        logit_scale · t_k.
    text_ : (K, D) array or None
    classes_ : (K,) numpy array

    Examples
    --------
    >>> from lpplusplus import ZeroShot
    >>> model = ZeroShot().fit(text=[[3.0, 1.0], [1.0, 3.0]], classes=["cat", "dog"])
    >>> model.predict([[0.9, 0.2]])
    array(['cat'], dtype='<U3')
    """

    trained_arrays = ()
    memory = MEMORY

    def fit(
        self, X: Any = None, y: Any = None, *, text: Any = None, classes: Any = None, X_val: Any = None,
        y_val: Any = None,
    ) -> "Self":  # fmt: skip
        """As in every method, but X and y may be left out where `text` and `classes` are given."""
        return super().fit(X, y, text=text, classes=classes, X_val=X_val, y_val=y_val)

    def _check_task(self, X: Any, y: Any, *, text: Any = None, classes: Any = None, **others: Any) -> Task:
        if X is not None or y is not None:
            return super()._check_task(X, y, text=text, classes=classes, **others)
        vectors, classes = read_text(text, [], classes)
        if vectors is None or classes is None:
            raise ValueError("ZeroShot without examples needs text= and classes=, one row of text per class.")
        classes = checks.check_classes(classes, np.empty(0), vectors)
        # Examples are not looked at, so the names can take their place. A frame's columns have names to keep.
        names = unit_text(vectors)[0]
        if hasattr(text, "columns"):
            names = type(text)(dict(zip(text.columns, names.T, strict=True)))
        return super()._check_task(names, classes, text=vectors, classes=classes, **others)

    def _worth_keeping(self, task: Task) -> Task:
        if task.text is None:
            return task
        return replace(task.with_images(unit_text(task.text)[0], task.classes), X_val=None, y_val=None)

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        self.intercept_ = backend.zeros(self.coef_, (task.n_classes,))
        self.chosen_ = {}
