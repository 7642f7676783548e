"""The class directions that a method compares images with."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _arrays, _checks
from .._arrays import Array
from .._checks import Task

LOGIT_SCALE = 100.0
"""CLIP's learned temperature, exp(4.6052), which turns cosines into logits."""

WITHOUT_TEXT = "no text given: each class's mean image stands in for its name"


def class_directions(task: Task, classes: np.ndarray[Any, Any]) -> Array:
    """Unit class-name embeddings, (K, D); without text, the unit mean of each class's images."""
    if task.text is not None:
        return task.text
    _checks.check_every_class_has_examples(task, classes)
    return _arrays.unit_rows(_arrays.sum_by_class(_arrays.unit_rows(task.X), task.y, task.n_classes))
