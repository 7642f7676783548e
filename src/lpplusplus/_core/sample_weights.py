"""How often each example counts."""

from dataclasses import replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from . import backend, checks
from .parameters import Rule, choice, nothing, number
from .task import Task


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(number(0, open=True).allows(weight) for weight in value.values())


ClassWeight: TypeAlias = Annotated[
    Any,
    choice(("balanced",)),
    Rule(_is_table, "a dict from class to a number > 0"),
    nothing("every example counts once"),
]
"""What `class_weight` may be."""


def weighed(task: Task, class_weight: Any) -> Task:
    """`task` with the weights of its examples, and without those that do not count.

    "balanced" gives each class the same total weight, and leaves the sum over all examples as it is.
    """
    if task.weights is None and class_weight is None:
        return task
    y = backend.to_numpy(task.y)
    weights = np.ones(len(y)) if task.weights is None else backend.to_numpy(task.weights)
    if isinstance(class_weight, dict):
        factors = np.ones(task.n_classes)
        labels = np.array(list(class_weight), dtype=object)
        factors[checks.encode_labels(labels, task.classes, "class_weight")] = [*class_weight.values()]
        weights = weights * factors[y]
    elif class_weight is not None:
        totals = np.bincount(y, weights)
        weights = weights * (totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0, totals, 1.0)))[y]
    keep = np.flatnonzero(weights)
    if len(keep) < len(y):
        task, weights = replace(task, weights=None).rows(keep), weights[keep]
    return replace(task, weights=backend.like(weights, task.X, dtype=task.X.dtype))


def check_weights(weights: Any, n: int) -> np.ndarray[Any, Any]:
    """`sample_weight` as (n,) numbers of our own; a single number counts for all."""
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
    return np.array(given, np.float64)
