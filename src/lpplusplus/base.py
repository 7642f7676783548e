"""The contract that every method of the package keeps, so that comparing them is a loop over a list.

`fit(X, y, *, text, classes, X_val, y_val)` on embeddings, then scikit-learn's usual questions. A method writes
`_fit_task`, which sets `coef_` and `intercept_` (or what its own `_logits` needs) and `history_`, and
`_count_parameters` unless it trains what a linear probe does, and inherits the rest: checks, labels of any kind,
several views an image, prediction where the data live, saving.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _arrays, _checks
from ._arrays import Array
from ._checks import Task
from ._parameters import Rule, check_parameters
from .journal import Journal
from .objective import rows_per_chunk

if TYPE_CHECKING:
    from typing_extensions import Self


class FewShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all classifiers on embeddings; see the module's docstring."""

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {}
    normalize: bool

    classes_: np.ndarray[Any, Any]
    coef_: Array
    intercept_: Array
    text_: Array | None
    n_features_in_: int
    history_: Any
    feature_names_in_: np.ndarray[Any, Any]
    metadata_: dict[str, Any]

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "intercept_": "K", "text_": "KD?"}
    """Attributes that `save` keeps as arrays, with their shapes: K classes, D features, other letters as they come,
    the same letter the same length; ? for one that may be None."""
    fitted_scalars: ClassVar[tuple[str, ...]] = ()
    """Attributes that `save` keeps as JSON."""
    index_arrays: ClassVar[tuple[str, ...]] = ()
    """Those of `fitted_arrays` that hold class indices."""
    history_kind: ClassVar[type] = Journal
    needs_torch: ClassVar[bool] = False
    """Whether `fit` does."""
    needs_tokens: ClassVar[bool] = False
    """Whether X holds the places of each image as well."""
    black_box: ClassVar[bool] = True
    """Whether embeddings are enough, and the model that makes them is not needed."""

    def fit(
        self, X: Any, y: Any, *, text: Any = None, classes: Any = None, X_val: Any = None, y_val: Any = None
    ) -> Self:
        """Fit on a few labelled embeddings.

        Parameters
        ----------
        X : (N, D) or (N, V, D) array
            Image embeddings, or those of V views (augmentations) of each image: numpy or torch on any device, half,
            single or double precision. Never changed.
        y : (N,) array-like
            Labels of any kind.
        text : (K, D) array, optional
            Class-name embeddings from the same model, in the order of `classes`. Without them the method does what it
            can with the images alone; its own description says what.
        classes : (K,) array-like, optional
            All classes; by default the sorted labels. A class with text and no example keeps its text score. Those
            of scikit-learn's scorers that read probabilities (log-loss, ROC) take the columns to be sorted by label, so
            for them give the classes, and the rows of `text`, in that order.
        X_val, y_val : optional
            Validation data for what the method chooses. Not needed: its own description says what it then does.
        """
        with self._all_or_nothing():
            self._check_parameters()
            self._fit_task(self._check_task(X, y, text, classes, X_val, y_val))
            self.__dict__.pop("metadata_", None)  # It told of the classifier that was here before.
            return self

    @abstractmethod
    def _fit_task(self, task: Task) -> None:
        """Set the fitted attributes from checked data."""

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever stops a fit, bad input or Ctrl-C, leaves the estimator as it was before."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_parameters(self) -> None:
        check_parameters(type(self).__name__, self.get_params(deep=False), self.parameter_rules)

    def _check_task(self, X: Any, y: Any, text: Any, classes: Any, X_val: Any, y_val: Any) -> Task:
        """Check all inputs of `fit` before anything is changed; sets `classes_` and what scikit-learn expects."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: pass both or neither.")
        X, views = self._check_views(X)
        labels = _checks.check_labels(y, "y", X.shape[0])
        if text is not None:
            self._check_columns(text, "text")
            text = _checks.check_embeddings(text, "text", dim=self.n_features_in_)
            _checks.check_no_zero_rows(X, "X")
            _checks.check_no_zero_rows(text, "text")
            text = _arrays.unit_rows(_arrays.like(text, X, dtype=X.dtype))
        known = _checks.check_classes(classes, labels, text)
        encoded = _checks.encode_labels(labels, known, "y")
        index = None
        if X_val is not None:
            X_val = self._check_held_out(X_val, "X_val")
            if text is not None:
                _checks.check_no_zero_rows(X_val, "X_val")
            X_val = _arrays.like(X_val, X, dtype=X.dtype)
            names = _checks.check_labels(y_val, "y_val", X_val.shape[0])
            index = _arrays.like(_checks.encode_labels(names, known, "y_val"), X)
        self.classes_ = known
        return Task(X, _arrays.like(encoded, X), len(known), text, X_val, index, views)

    def _check_views(self, X: Any) -> tuple[Array, Array | None]:
        """One embedding an image, the mean of its views where it has several, and those views."""
        if getattr(X, "ndim", 2) != 3:
            return self._check_images(X, "X", reset=True), None
        images, views, dim = X.shape
        if min(images, views, dim) == 0:
            raise ValueError(
                f"X is empty (shape={tuple(X.shape)}): a minimum of 1 image, 1 view, 1 column is required."
            )
        rows = self._check_images(X.reshape(images * views, dim), f"X.reshape(-1, {dim})", reset=True)
        stack = rows.reshape(images, views, dim)
        return _arrays.namespace(stack).mean(stack, axis=1), stack

    def _check_held_out(self, X: Any, name: str) -> Array:
        """Validation images, one embedding each, which must be like those of the support."""
        self._check_columns(X, name)
        X = _checks.check_embeddings(X, name, dim=self.n_features_in_)
        self._check_size(X, name)
        return X

    def _check_columns(self, frame: Any, name: str) -> None:
        """Raise where a data frame has its columns in another order than the support had."""
        ours, theirs = getattr(self, "feature_names_in_", None), getattr(frame, "columns", None)
        if ours is None or theirs is None or not all(isinstance(column, str) for column in theirs):
            return
        if list(theirs) != list(ours):
            raise ValueError(
                f"{name} has other columns than X, or the same in another order: select them by X's names, "
                f"{name}[X.columns], or pass arrays if the names mean nothing."
            )

    def _check_size(self, X: Array, name: str) -> None:
        if not self.normalize:
            _checks.check_lengths(X, name)

    def _adopt(self, other: Self) -> Self:
        """Take over what checking `fit`'s input set in `other`."""
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))
        return self

    def _check_images(self, X: Any, name: str, *, reset: bool) -> Array:
        if not _arrays.is_foreign(X):
            _checks.check_numbers(X, name)
            X = validate_data(self, X, reset=reset, dtype="numeric", **_checks.SKIPPED)
        elif reset:
            self.__dict__.pop("feature_names_in_", None)
        X = _checks.check_embeddings(X, name)
        self._check_size(X, name)
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input: embed with the model that the classifier was trained with."
            )
        return X

    def _logits(self, X: Array) -> Array:
        """Class scores of checked embeddings, (n, K), in the library and on the device of `X`."""
        coef, intercept = (_arrays.like(part, X) for part in (self.coef_, self.intercept_))
        X = _arrays.cast(X, coef.dtype)
        if self.normalize:
            X = _arrays.unit_rows(X)
        z = X @ coef.T
        z += intercept
        return z

    def _ready(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._check_images(X, "X", reset=False)
        if self.text_ is not None:
            _checks.check_no_zero_rows(X, "X")
        return X

    def decision_function(self, X: Any) -> Array:
        """Class scores before the softmax.

        Parameters
        ----------
        X : (n, D) array
            Embeddings, from the encoder that the support came from.

        Returns
        -------
        (n, K) array, or (n,) for two classes: the second's score less the first's, as scikit-learn has it.
        """
        z = self._logits(self._ready(X))
        return z[:, 1] - z[:, 0] if z.shape[1] == 2 else z

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, (n, K), in the order of `classes_`."""
        z = self._logits(self._ready(X))
        _arrays.softmax(z, out=z)
        return z

    def predict(self, X: Any) -> Array:
        """Most likely class of each image.

        Labels come as a numpy array; for tensors, as a tensor beside them unless the labels are not numbers.
        """
        X = self._ready(X)
        xp = _arrays.namespace(X)
        height = rows_per_chunk(len(self.classes_))
        best = xp.concat([xp.argmax(self._logits(X[a : a + height, :]), axis=1) for a in range(0, X.shape[0], height)])
        if _arrays.is_foreign(X) and self.classes_.dtype.kind in "iufb":
            return _arrays.like(self.classes_, X)[best]
        return self.classes_[_arrays.to_numpy(best)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Part of the images that are answered right, each counting as much as `sample_weight` says."""
        answers, truth = _arrays.to_numpy(self.predict(X)), _arrays.to_numpy(y)
        weights = None if sample_weight is None else _arrays.to_numpy(sample_weight)
        return float(accuracy_score(truth, answers, sample_weight=weights))

    @property
    def parameter_count_(self) -> int:
        """How many numbers training could change, whether or not it did."""
        check_is_fitted(self)
        return self._count_parameters()

    def _count_parameters(self) -> int:
        """That of a fitted model; here that of a linear probe, with a bias or an α for each class."""
        return len(self.classes_) * (self.n_features_in_ + 1)

    def save(self, path: str | PathLike[str], *, metadata: dict[str, Any] | None = None) -> None:
        """Write the fitted classifier to one file, atomically; read it with `lpplusplus.load`.

        Parameters
        ----------
        path
            A file name; ".lpp" is usual.
        metadata
            Anything that JSON can hold, for the `metadata_` of the classifier that is loaded: an encoder's
            fingerprint, prompts. By default that which this one was loaded with.
        """
        from .persistence import save

        check_is_fitted(self)
        save(self, path, metadata)

    def _arrays_to_save(self) -> dict[str, Array | None]:
        return {name: getattr(self, name) for name in self.fitted_arrays}

    def _scalars_to_save(self) -> dict[str, Any]:
        scalars = {name: getattr(self, name) for name in (*self.fitted_scalars, "n_features_in_")}
        if hasattr(self, "feature_names_in_"):
            scalars["feature_names_in_"] = self.feature_names_in_.tolist()
        return {**scalars, "history": self.history_.as_lists()}

    def _restore(self, arrays: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any], n_classes: int) -> None:
        """Take over what a file holds, having checked that it fits together."""
        required = {name for name, shape in self.fitted_arrays.items() if not shape.endswith("?")}
        if not required <= set(arrays) <= set(self.fitted_arrays):
            raise ValueError(f"arrays {sorted(arrays)} are not those of a {type(self).__name__}")
        for name in (*self.fitted_scalars, "n_features_in_"):
            if not isinstance(scalars[name], str | int | float | None):
                raise ValueError(f"{name} is {scalars[name]!r}")
            setattr(self, name, scalars[name])
        if type(self.n_features_in_) is not int:
            raise ValueError(f"n_features_in_ is {self.n_features_in_!r}")
        names = scalars.get("feature_names_in_")
        if names is not None:
            if len(names) != self.n_features_in_ or not all(isinstance(name, str) for name in names):
                raise ValueError(f"feature_names_in_ are not the names of {self.n_features_in_} columns")
            self.feature_names_in_ = np.array(names, dtype=object)
        lengths = {"K": n_classes, "D": self.n_features_in_}
        for name, shape in self.fitted_arrays.items():
            value = arrays.get(name)
            setattr(self, name, value)
            if value is None:
                continue
            letters = shape.rstrip("?")
            expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(letters, value.shape, strict=False))
            if len(letters) != value.ndim or value.shape != expected:
                raise ValueError(f"{name} has shape {value.shape}, expected {letters} = {expected}")
            if value.dtype.kind != ("i" if name in self.index_arrays else "f"):
                raise ValueError(f"{name} has entries of type {value.dtype}")
            if name in self.index_arrays and not ((value >= 0) & (value < n_classes)).all():
                raise ValueError(f"{name} names classes beyond the {n_classes} that there are")
        self.history_ = self.history_kind.from_lists(scalars["history"])  # type: ignore[attr-defined]
