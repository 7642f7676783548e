"""Checks of the inputs of `fit` and `predict`; and `Whole`, for parameters of `fit` that scikit-learn must not cut.

`cross_val_score`, `GridSearchCV` and the like take the rows of each fold from every parameter of `fit` that has as many
rows as X. They would cut, without a warning, a validation set of the size of the support (LP++'s own protocol), and
text if there are as many images as classes. `fit` cannot see this in its arguments, so it looks at its callers.
"""

import inspect
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from . import backend, checks
from .backend import Array
from .class_prompts import read_text
from .rows import Rows, mapping_of
from .task import Task, check_weights


class InputChecks(BaseEstimator):  # type: ignore[misc]
    """The part of `FewShotClassifier` that checks its inputs."""

    normalize: bool
    memory: float | None = None
    """MiB that rows of a memory map may take; None in methods that need all of them at once."""

    needs_places: ClassVar[bool] = False
    """Whether an image is given as the embeddings of its patches besides its own, (1 + L, D)."""
    fitted_arrays: ClassVar[dict[str, str]]
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]

    @property
    def classes_(self) -> Any:
        """The classes, (K,): a numpy array.

        With scikit-learn's array-API dispatch, which mixes no libraries, it is a tensor if labels are numbers and the
        classifier was fitted on tensors.
        """
        labels = self._labels
        beside = vars(self).get(next(iter(self.fitted_arrays)))
        if get_config()["array_api_dispatch"] and backend.is_foreign(beside) and labels.dtype.kind in "iufb":
            return backend.like(labels, beside)
        return labels

    @classes_.setter
    def classes_(self, labels: np.ndarray[Any, Any]) -> None:
        self.__dict__["classes_"] = labels

    @property
    def _labels(self) -> np.ndarray[Any, Any]:
        """`classes_` as a numpy array in all cases."""
        try:
            return vars(self)["classes_"]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError("classes_") from None

    def _check_task(
        self, X: Any, y: Any, *, text: Any = None, classes: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight: Any = None, unlabelled: Any = None,
    ) -> Task:  # fmt: skip
        """Check all inputs of `fit`, as they are; sets `classes_` and what scikit-learn expects to be set."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: pass both or neither.")
        X = self._check_support(X)
        labels = checks.check_labels(y, "y", X.shape[0])
        if text is not None:
            self._check_columns(text, "text")
        text, classes = read_text(text, labels, classes, dim=self.n_features_in_)
        known = checks.check_classes(classes, labels, text)
        index = None
        if X_val is not None:
            X_val = self._check_held_out(X_val, "X_val")
            names = checks.check_labels(y_val, "y_val", X_val.shape[0])
            index = checks.encode_labels(names, known, "y_val")
        if unlabelled is not None:
            unlabelled = self._check_held_out(unlabelled, "unlabelled")
        if text is not None:
            for name, images in (("X", X), ("X_val", X_val), ("unlabelled", unlabelled)):
                if images is not None:
                    checks.check_no_zero_rows(images, name)
        weights = None if sample_weight is None else check_weights(sample_weight, len(labels))
        self.classes_ = known
        return Task(X, checks.encode_labels(labels, known, "y"), known, text, X_val, index, weights, unlabelled)

    def _check_support(self, X: Any) -> Array | Rows:
        """Images with one embedding each, or with several views."""
        shape = tuple(getattr(X, "shape", ()))
        if len(shape) != 3 + self.needs_places:
            rows = self._too_large(X)
            return self._check_images(X, "X", reset=True) if rows is None else rows
        checks.check_dense(X, "X")
        if 0 in shape:
            raise ValueError(f"X is empty (shape={shape}): a minimum of 1 image, 1 view, 1 column is required.")
        name = "X" if self.needs_places else f"X.reshape(-1, {shape[2]})"
        return self._check_images(X.reshape(-1, *shape[2:]), name, reset=True).reshape(shape)

    def _too_large(self, X: Any) -> Rows | None:
        """Checked rows if `X` is not read as a whole: its file is larger than `memory`, or other processes hold it."""
        if isinstance(X, Rows):
            if self.memory is None:
                raise TypeError(
                    f"{type(self).__name__} needs all rows in one process: pass an array, not rows that live elsewhere."
                )
            rows: Rows = X
        elif self.memory is None or mapping_of(X) is None or X.dtype.kind != "f" or X.nbytes <= self.memory * 2**20:
            return None
        else:
            rows = Rows(X)
        checks.check_finite(rows, "X")
        self._check_size(rows, "X")
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = rows.shape[1]
        return rows

    def _check_held_out(self, X: Any, name: str) -> Array:
        """Validation images, one embedding each, of the same kind as those of the support."""
        self._check_columns(X, name)
        X = checks.check_rows(X, name, dim=self.n_features_in_)
        self._check_size(X, name)
        return X

    def _check_columns(self, frame: Any, name: str) -> None:
        """Raise for a data frame whose columns are not those of the support, in the same order."""
        ours, theirs = getattr(self, "feature_names_in_", None), getattr(frame, "columns", None)
        if ours is None or theirs is None or not all(isinstance(column, str) for column in theirs):
            return
        if list(theirs) != list(ours):
            raise ValueError(
                f"{name} has other columns than X, or the same in another order: select them by X's names, "
                f"{name}[X.columns], or pass arrays if the names mean nothing."
            )

    def _check_size(self, X: Array | Rows, name: str) -> None:
        if not self.normalize:
            checks.check_lengths(X if isinstance(X, Rows) else backend.cast(X, backend.working_dtype(X)), name)

    def _check_images(self, X: Any, name: str, *, reset: bool) -> Array:
        """Embeddings of a support (`reset`), or of images to predict, which must have as many columns."""
        if not backend.is_foreign(X):  # `check_rows` checks all but the names of columns.
            validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)
        elif reset:
            self.__dict__.pop("feature_names_in_", None)
        X = checks.check_rows(X, name)
        self._check_size(X, name)
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input: embed with the model that the classifier was trained with."
            )
        return X


@dataclass(frozen=True, eq=False)
class Whole:
    """An array that scikit-learn passes on as it is: it has no length to compare with that of X.

    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from lpplusplus import LPPlusPlus, Whole
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> scores = cross_val_score(LPPlusPlus(), X, y, cv=2, params={"X_val": Whole(X), "y_val": Whole(y)})
    """

    array: Any


def whole(X: Any, **given: Any) -> dict[str, Any]:
    """The arguments of `fit`, without wrapping; raises for a parameter that was cut."""
    n = _length(X)
    for name, value in given.items():
        if _length(value) == n is not None and _was_cut(name, n):
            raise ValueError(
                f"{name} was cut: it has as many rows as X, so scikit-learn took the rows of a fold from both. Pass "
                f"{name}=lpplusplus.Whole({name}), which it does not cut."
            )
    return {name: value.array if isinstance(value, Whole) else value for name, value in given.items()}


def _length(value: Any) -> int | None:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if hasattr(value, "__len__") else None


def _was_cut(name: str, length: int) -> bool:
    """Whether scikit-learn called `fit` for a fold, and had more rows of this parameter."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "sklearn.utils.parallel":  # What runs one fold, with the arguments for all of them.
            passed = [item for part in frame.f_locals.values() for item in _items(part) if isinstance(item, dict)]
            # In a pipeline the name has the step before it.
            before = [
                _length(value) for item in passed for key, value in item.items() if f"__{key}".endswith(f"__{name}")
            ]
            return any(n != length for n in before)
        if module.partition(".")[0] not in ("lpplusplus", "sklearn", "contextlib"):
            return False  # Another library's call, which chose the rows itself.
        frame = frame.f_back
    return False


def _items(part: Any) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else list(part) if isinstance(part, tuple) else []
