"""What the methods that build on zero-shot share: its logits, s·f·t_k for unit f and t_k."""

from typing import Annotated

from .._core import backend, checks
from .._core.base import FewShotClassifier
from .._core.history import History
from .._core.parameters import number, with_parameters
from .._core.rows import sum_by_class, unit_rows
from .._core.task import Task

LOGIT_SCALE = 100.0
"""CLIP's learned temperature, exp(4.6052), which turns cosines into logits."""


@with_parameters
class TextBased(FewShotClassifier):
    """Base of methods that compare images with class names.

    Without `text`, the mean image of each class stands in for its name, and `history_.notes` says so.
    """

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
