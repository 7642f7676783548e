"""CLIP's own classifier: no training at all."""

from __future__ import annotations

from typing import ClassVar

from .. import _arrays
from .._checks import Task
from .._parameters import Number, Rule
from ..base import FewShotClassifier
from ..journal import Journal
from ._directions import LOGIT_SCALE, WITHOUT_TEXT, class_directions


class ZeroShot(FewShotClassifier):
    """Compare an image with the class names: logits 100·cos(f, t_k). Examples and validation data are not used.

    Without `text` it compares with each class's mean image instead, which is no longer zero-shot; `history_.notes`
    says so.

    Parameters
    ----------
    logit_scale : float
        Factor of the cosines; it matters for probabilities, not for predictions.

    Attributes
    ----------
    coef_ : (K, D) array
        logit_scale · t_k.
    text_ : (K, D) array or None
    classes_ : (K,) numpy array

    Examples
    --------
    >>> from lpplusplus import ZeroShot
    >>> model = ZeroShot().fit([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.9, 0.2]])
    array(['cat'], dtype='<U3')
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {"logit_scale": [Number(0, open=True)]}
    normalize = True

    def __init__(self, *, logit_scale: float = LOGIT_SCALE) -> None:
        self.logit_scale = logit_scale

    def _fit_task(self, task: Task) -> None:
        self.history_ = Journal()
        if task.text is None:
            self.history_.note(WITHOUT_TEXT)
        self.coef_ = float(self.logit_scale) * class_directions(task, self.classes_)
        self.intercept_ = _arrays.zeros(self.coef_, (task.n_classes,))
        self.text_ = None if task.text is None else _arrays.copy(task.text)

    def _count_parameters(self) -> int:
        return 0
