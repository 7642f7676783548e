"""A few-shot task: the arguments of `fit`, checked, and how often each example counts.

A classifier keeps it, `extend` adds to it, a file has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from . import backend, checks
from .backend import Array
from .class_prompts import Text, joined_text, read_text, unit_text
from .parameters import Rule, choice, nothing, number
from .rows import Rows, some_rows
from .threads import lazy


@dataclass(frozen=True, eq=False)
class Task:
    """Support, class names and validation data.

    A classifier keeps them as they were given (`task_`): in their own precision, with all views and prompts, and with
    the weights that the user gave. `working` makes what methods compute with.
    """

    X: Any
    """(N, D) support embeddings, not normalised; the mean of an image's views if it has several. As given: (N, V, D)
    for V views; with places, one more axis before the last. `Rows`, if they are read block by block."""
    y: Array
    """(N,) class indices."""
    classes: np.ndarray[Any, Any]
    """(K,) labels."""
    text: Any = None
    """(K, D) unit class-name embeddings; the mean of a class's prompts if it has several. As given, see `Text`."""
    X_val: Array | None = None
    y_val: Array | None = None
    weights: Array | None = None
    """(N,) weights of the images, all positive; None if all are 1. As given, some may be 0."""
    unlabelled: Array | None = None
    """(n, D) embeddings without labels, not normalised."""
    views: Array | None = None
    """(N, V, D) embeddings of V views of each image, if given."""
    prompts: Array | None = None
    """(P, K, D) unit embeddings of each class's prompts, if there are several; zeros if a class has fewer."""
    means: int = 0
    """Number of last rows of the support that are means of images; they say nothing about the scatter of images."""

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """(N,) labels of the images."""
        return np.asarray(self.classes[backend.to_numpy(self.y)])

    @lazy
    def fewest_shots(self) -> int:
        """Number of examples of the smallest class, not counting classes without any.

        >>> Task(np.eye(3), np.array([0, 2, 2]), np.arange(3)).fewest_shots
        1
        """
        counts = np.bincount(backend.to_numpy(self.y))
        return int(counts[counts > 0].min())

    @property
    def least_weight(self) -> int:
        """As `fewest_shots`, with the weights of the examples; at least 1."""
        if self.weights is None:
            return self.fewest_shots
        totals = np.bincount(backend.to_numpy(self.y), backend.to_numpy(self.weights))
        return max(1, round(float(totals[totals > 0].min())))

    def rows(self, index: Any) -> Task:
        """The task with some of its images, and all that belongs to each of them.

        >>> task = Task(np.eye(3), np.array([0, 1, 1]), np.array(["ant", "bee"]), weights=np.array([1.0, 2.0, 3.0]))
        >>> some = task.rows([2, 0])
        >>> some.X.tolist(), some.labels.tolist(), some.weights.tolist()
        ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], ['bee', 'ant'], [3.0, 1.0])
        """
        assert not self.means
        index = index if backend.is_foreign(index) else np.asarray(index)
        columns = {name: getattr(self, name) for name in ("y", "views", "weights")}
        chosen = {name: part[backend.like(index, part)] for name, part in columns.items() if part is not None}
        return replace(self, X=some_rows(self.X, backend.like(index, self.X)), **chosen)

    def working(self, *, places: bool = False) -> Task:
        """In working precision on the device of X, views and prompts averaged and kept beside their means."""
        X, views = self.X, None
        if not isinstance(X, Rows):
            X = backend.cast(X, backend.working_dtype(X))
            if X.ndim == 3 + places:
                X, views = backend.namespace(X).mean(X, axis=1), X
        text, prompts = (None, None) if self.text is None else unit_text(self.text, X)
        X_val, unlabelled = (
            None if part is None else backend.like(part, X, dtype=X.dtype) for part in (self.X_val, self.unlabelled)
        )
        y, y_val = (None if part is None else backend.like(part, X) for part in (self.y, self.y_val))
        return replace(
            self, X=X, y=y, text=text, X_val=X_val, y_val=y_val, unlabelled=unlabelled, views=views, prompts=prompts
        )

    def copied(self) -> Task:
        """With arrays of its own: those that were given may change."""

        def copy(part: Any) -> Any:
            if isinstance(part, list):
                return [copy(prompts) for prompts in part]
            return None if part is None else backend.copy(part)

        return replace(
            self, X=copy(self.X), text=copy(self.text), X_val=copy(self.X_val), unlabelled=copy(self.unlabelled)
        )

    def with_images(self, X: Array, labels: Any) -> Task:
        """With other images, without weights."""
        return replace(self, X=X, y=checks.encode_labels(np.asarray(labels), self.classes, "y"), weights=None)

    def extended(self, X: Any, y: Any, text: Any, classes: Any) -> dict[str, Any]:
        """Arguments for a fit on this and on more."""
        known, labels = self.classes, checks.check_labels(y, "y", len(X))
        X = checks.storable(X)
        if X.shape[1:] != self.X.shape[1:]:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, and the classifier was fitted on {tuple(self.X.shape)}: give as many "
                f"dimensions, and views of each image, from the same model."
            )
        # All strings, or all numbers.
        checks.check_labels([*known[:1].tolist(), *labels.tolist()], "y", 1 + len(labels))
        new = np.setdiff1d(labels, known)
        text, named = read_text(text, new.tolist(), classes, known=known.tolist(), dim=self.X.shape[-1])
        named = new if named is None else np.asarray(backend.to_numpy(named))
        order = _order(known, new, named)
        if text is not None:
            count = len(text) if isinstance(text, list) else text.shape[-2]
            named = order if classes is None and count == len(order) else named
        weights = self.weights
        if weights is not None:
            weights = np.concatenate([weights, np.ones(len(labels))])
        xp = backend.namespace(self.X)
        X = backend.like(X, self.X)
        kind = xp.result_type(self.X, X)
        return {
            "X": xp.concat([backend.cast(self.X, kind), backend.cast(X, kind)]),
            "y": np.concatenate([self.labels, labels]),
            "text": joined_text(self.text, known.tolist(), text, named.tolist(), order.tolist()),
            "classes": order,
            "X_val": self.X_val,
            "y_val": None if self.y_val is None else known[self.y_val],
            "sample_weight": weights,
            "unlabelled": self.unlabelled,
        }

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays for a file; if numbers of prompts differ, all are stacked."""
        found = {name: getattr(self, field) for name, field in IN_FILES.items()}
        if isinstance(self.text, list):
            found["text"] = np.concatenate([backend.to_numpy(part) for part in self.text])
            found["prompts"] = np.array([len(part) for part in self.text])
        return {name: backend.to_numpy(value) for name, value in found.items() if value is not None}

    @classmethod
    def read(cls, arrays: dict[str, np.ndarray[Any, Any]], classes: np.ndarray[Any, Any], dim: int) -> Task:
        """The inverse of `arrays`; raises ValueError or KeyError unless everything fits together."""
        given: dict[str, Any] = dict(arrays)
        counts = given.pop("prompts", None)
        if not given.keys() <= IN_FILES.keys() or ("X_val" in given) != ("y_val" in given):
            raise ValueError(f"arrays {sorted(arrays)} are not what a fit is given")
        for name, value in arrays.items():
            _check_array(name, value, dim)
        for name, owner in (("y", "X"), ("y_val", "X_val"), ("sample_weight", "X")):
            if name in given and (given[name].shape != given[owner].shape[:1] or not given[owner].size):
                raise ValueError(f"{name} has shape {given[name].shape}")
            if name != "sample_weight" and name in given and not np.isin(given[name], np.arange(len(classes))).all():
                raise ValueError(f"{name} names classes beyond the {len(classes)} that there are")
        if counts is not None:
            given["text"] = _split(given["text"], counts, len(classes))
        elif "text" in given and given["text"].shape[-2] != len(classes):
            raise ValueError(f"text has shape {given['text'].shape} for {len(classes)} classes")
        return cls(classes=classes, **{IN_FILES[name]: value for name, value in given.items()})


IN_FILES = {
    **{name: name for name in ("X", "y", "text", "X_val", "y_val", "unlabelled")}, "sample_weight": "weights"
}  # fmt: skip
"""Arrays of a file, by the names that `fit` has for them, and the fields that hold them."""
MOST_AXES = {"X": 4, "X_val": 4, "text": 3, "unlabelled": 2}
"""Images may have views, and these places."""


def _check_array(name: str, value: np.ndarray[Any, Any], dim: int) -> None:
    whole = name in ("y", "y_val", "prompts")
    if value.dtype not in (("int64",) if whole else checks.PRECISIONS):
        raise ValueError(f"{name} has entries of type {value.dtype}")
    if not np.isfinite(value).all():
        raise ValueError(f"{name} has entries that are not finite numbers")
    if name == "unlabelled" and not value.size:
        raise ValueError("unlabelled has no rows")
    if name in MOST_AXES and (not 2 <= value.ndim <= MOST_AXES[name] or value.shape[-1] != dim):
        raise ValueError(f"{name} has shape {value.shape}, but embeddings have {dim} dimensions")


def _split(text: np.ndarray[Any, Any], counts: np.ndarray[Any, Any], n_classes: int) -> Text:
    """The prompts of each class, from an array with all of them stacked."""
    fits = counts.shape == (n_classes,) and text.ndim == 2 and (counts > 0).all() and (counts <= len(text)).all()
    if not fits or counts.sum() != len(text):
        raise ValueError("prompts do not say how many rows of text each class has")
    return np.split(text, np.cumsum(counts)[:-1])


def _order(known: np.ndarray[Any, Any], new: np.ndarray[Any, Any], named: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All classes: in the order of `named` if that has all; sorted if `known` is; else with the new ones last."""
    if not set(known.tolist()) - set(named.tolist()):
        last = np.setdiff1d(new, named)
        return np.concatenate([named, last]) if len(last) else named
    more = [label for label in dict.fromkeys([*named.tolist(), *new.tolist()]) if label not in set(known.tolist())]
    if not more:
        return known
    everything = np.concatenate([known, np.array(more, known.dtype if known.dtype.kind == "O" else None)])
    in_order = np.unique(known)
    return np.unique(everything) if in_order.tolist() == known.tolist() else everything


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
