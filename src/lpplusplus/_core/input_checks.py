"""Checks of the inputs of `fit` and `predict`."""

from typing import Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from . import backend, checks, named_text
from .backend import Array
from .class_prompts import check_text
from .rows import Rows, mapping_of
from .scattered_rows import ScatteredRows
from .task import Task


class InputChecks(BaseEstimator):  # type: ignore[misc]
    """The part of `FewShotClassifier` that checks its inputs."""

    normalize: bool
    memory: float | None = None
    """MiB that rows of a memory map may take; None in methods that need all of them at once."""

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
        self, X: Any, y: Any, text: Any, classes: Any, X_val: Any, y_val: Any, unlabelled: Any = None
    ) -> Task:
        """Check all inputs of `fit`; sets `classes_` and what scikit-learn expects to be set."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: pass both or neither.")
        X, views = self._check_views(X)
        labels = checks.check_labels(y, "y", X.shape[0])
        text, classes = named_text.in_order(text, classes, labels)
        prompts = None
        if text is not None:
            self._check_columns(text, "text")
            text, prompts = check_text(text, X)
            checks.check_no_zero_rows(X, "X")
        known = checks.check_classes(classes, labels, text)
        encoded = checks.encode_labels(labels, known, "y")
        index = None
        if X_val is not None:
            X_val = self._check_held_out(X_val, "X_val")
            if text is not None:
                checks.check_no_zero_rows(X_val, "X_val")
            X_val = backend.like(X_val, X, dtype=X.dtype)
            names = checks.check_labels(y_val, "y_val", X_val.shape[0])
            index = backend.like(checks.encode_labels(names, known, "y_val"), X)
        if unlabelled is not None:
            unlabelled = backend.like(self._check_held_out(unlabelled, "unlabelled"), X, dtype=X.dtype)
            if text is not None:
                checks.check_no_zero_rows(unlabelled, "unlabelled")
        self.classes_ = known
        return Task(X, backend.like(encoded, X), len(known), text, X_val, index, views, prompts, unlabelled=unlabelled)

    def _check_views(self, X: Any) -> tuple[Array, Array | None]:
        """One embedding per image, the mean of its views if it has several; and these views."""
        if getattr(X, "ndim", 2) != 3:
            rows = self._too_large(X)
            return self._check_images(X, "X", reset=True) if rows is None else rows, None
        checks.check_dense(X, "X")
        images, views, dim = X.shape
        if min(images, views, dim) == 0:
            raise ValueError(
                f"X is empty (shape={tuple(X.shape)}): a minimum of 1 image, 1 view, 1 column is required."
            )
        rows = self._check_images(X.reshape(images * views, dim), f"X.reshape(-1, {dim})", reset=True)
        stack = rows.reshape(images, views, dim)
        return backend.namespace(stack).mean(stack, axis=1), stack

    def _too_large(self, X: Any) -> Rows | None:
        """Checked rows if `X` is not read as a whole: its file is larger than `memory`, or other processes hold it."""
        if isinstance(X, ScatteredRows):
            if self.memory is None:
                raise TypeError(
                    f"{type(self).__name__} needs all rows in one process: pass an array, not scattered rows."
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
        X = checks.check_embeddings(X, name, dim=self.n_features_in_)
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
            checks.check_lengths(X, name)

    def _check_images(self, X: Any, name: str, *, reset: bool) -> Array:
        """Embeddings of a support (`reset`), or of images to predict, which must have as many columns."""
        if not backend.is_foreign(X):
            checks.check_numbers(X, name)
            X = validate_data(self, X, reset=reset, dtype="numeric", **checks.SKIPPED)
        elif reset:
            self.__dict__.pop("feature_names_in_", None)
        X = checks.check_embeddings(X, name)
        self._check_size(X, name)
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input: embed with the model that the classifier was trained with."
            )
        return X
