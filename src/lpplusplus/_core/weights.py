"""How often each example counts."""

from dataclasses import replace
from typing import Any

import numpy as np

from . import backend, checks
from .parameters import Rule, choice, nothing, number
from .rows import some_rows
from .task import Task


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(number(0, open=True).allows(weight) for weight in value.values())


CLASS_WEIGHT: list[Rule] = [
    choice(("balanced",)),
    Rule(_is_table, "a dict from class to a number > 0"),
    nothing("every example counts once"),
]
"""What `class_weight` may be."""


def weighed(task: Task, sample_weight: Any, class_weight: Any, classes: np.ndarray[Any, Any]) -> Task:
    """`task` with the weights of its examples, and without those that do not count.

    "balanced" gives each class the same total weight, and leaves the sum over all examples as it is.
    """
    if sample_weight is None and class_weight is None:
        return task
    y = backend.to_numpy(task.y)
    weights = _checked(sample_weight, len(y))
    if isinstance(class_weight, dict):
        factors = np.ones(len(classes))
        factors[checks.encode_labels(np.array(list(class_weight), dtype=object), classes, "class_weight")] = [
            *class_weight.values()
        ]
        weights = weights * factors[y]
    elif class_weight is not None:
        totals = np.bincount(y, weights)
        weights = weights * (totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0, totals, 1.0)))[y]
    keep = np.flatnonzero(weights)
    if len(keep) < len(y):
        rows = backend.like(keep, task.y)
        views = None if task.views is None else task.views[rows]
        task = replace(task, X=some_rows(task.X, rows), y=task.y[rows], views=views)
    return replace(task, weights=backend.like(weights[keep], task.X, dtype=task.X.dtype))


def _checked(weights: Any, n: int) -> np.ndarray[Any, Any]:
    if weights is None:
        return np.ones(n)
    checks.check_dense(weights, "sample_weight")
    given = np.asarray(backend.to_numpy(weights))
    if given.ndim == 0:
        given = np.full(n, given)
    if given.dtype.kind not in "iufb" or given.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {given.shape} for {n} images: sample_weight must be one number each."
        )
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight is {given[bad[0]]} in row {bad[0]}: weights are finite and not negative.")
    if not given.any():
        raise ValueError("sample_weight is zero for all images: there is nothing to learn from.")
    return given.astype(np.float64)
