"""The contract of all classifiers on embeddings, so that comparing them is a loop over a list."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from . import backend, checks, model_file
from .backend import Array
from .class_prompts import warn_of_order
from .history import History
from .input_checks import InputChecks, whole
from .parameters import TEXT, check_parameters, in_words_of_today, number
from .rows import Rows
from .softmax import softmax
from .task import Task
from .threads import rows_per_chunk

if TYPE_CHECKING:
    from typing_extensions import Self

LARGEST = 1e15
"""No weight is larger: sums and products of such numbers are finite, in single precision too."""
SCALARS = {"word": TEXT, "number": number(), "factor": number(-1e6, 1e6), "count": number(1, whole=True)}


class FewShotClassifier(ClassifierMixin, InputChecks):  # type: ignore[misc]
    """Base of all classifiers on embeddings.

    A method defines `_fit_task`, which sets `history_`, `text_`, and either `coef_` and `intercept_` or what its own
    `_logits` needs. It names its `trained_arrays` if these are not the K·(D + 1) numbers of a linear probe. Everything
    else is inherited: checks, labels of any kind, several views per image, prediction in numpy or torch, saving.

    `_fit_task` also sets `chosen_`: each thing that it chose among several values and the data that decided, such as
    `{"image weight": "validation"}`, or `{}` if there was nothing to choose. The benchmark's tables show it; there, a
    method that leaves it out is "not recorded".

    A method is a class `with_parameters`: a dataclass whose fields are its parameters. The allowed values of a field
    are part of its annotation, such as `epochs: Annotated[int, number(0, whole=True)] = 20`, and are checked in `fit`.
    A parameter that is renamed or moved is `translated` in calls, plans and files. Class attributes declare
    what a file keeps (`fitted_arrays`, `fitted_scalars`, `index_arrays`) and what the method needs (`needs_torch`,
    `needs_places`, `black_box`).
    """

    trained_arrays: ClassVar[tuple[str, ...] | None] = None
    """Fitted arrays whose entries are trained; None for as many numbers as a linear probe has."""
    needs_torch: ClassVar[bool] = False
    """Whether `fit` needs torch."""
    black_box: ClassVar[bool] = True
    """Whether it is trained on embeddings alone, without access to the encoder."""
    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "intercept_": "K", "text_": "KD?"}
    """Attributes that `save` keeps as arrays, with a letter per axis: K classes, D features, any other letter for a
    length of its own; a ? at the end if the attribute may be None."""
    fitted_scalars: ClassVar[dict[str, str]] = {}
    """Attributes that `save` keeps as JSON, with their kind: a "word", a "number", or a "factor", which is a number
    that predictions are computed with; a ? at the end if the attribute may be None."""
    index_arrays: ClassVar[tuple[str, ...]] = ()
    """Those of `fitted_arrays` that hold class indices."""

    coef_: Array
    intercept_: Array
    text_: Array | None
    metadata_: dict[str, Any]
    chosen_: dict[str, str] | None
    """What the last fit chose among several values, and on which data; None if the method does not say."""
    history_: History
    task_: Task

    def set_params(self, **given: Any) -> "Self":
        """As in scikit-learn; parameters of earlier versions are translated, with a `FutureWarning`."""
        before = self.get_params(deep=False)
        now = in_words_of_today(type(self), given, before)
        super().set_params(**{k: v for k, v in now.items() if k not in before or v is not before[k]})
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True  # Tensors stay tensors; `classes_` is one, too, for scikit-learn.
        return tags

    def fit(
        self, X: Any, y: Any, *, text: Any = None, classes: Any = None, X_val: Any = None, y_val: Any = None
    ) -> "Self":
        """Fit on a few labelled embeddings.

        Parameters
        ----------
        X : (N, D) or (N, V, D) array
            Image embeddings, or those of V views (augmentations) of each image: numpy or torch on any device, half,
            single or double precision. Never changed.
        y : (N,) array-like
            Labels of any kind.
        text : (K, D) or (P, K, D) array, dict, or list of (P_k, D) arrays, optional
            Class-name embeddings from the same model, in the order of `classes`: one per class, those of P prompts, or
            a list with the prompts of each class. Or by name: a dict from class to vector, or a data frame with the
            classes as its index. A method takes the mean of a class's prompts unless its own documentation says more.
            Without text, only the images are used.
        classes : (K,) array-like, optional
            All classes; by default the sorted labels. A class with text and no example keeps its text score.
            scikit-learn's scorers of probabilities (log-loss, ROC) expect columns sorted by label: for them give the
            classes, and the rows of `text`, in that order.
        X_val, y_val : optional
            Validation data for choices that the method makes; its documentation says what it does without them. In
            scikit-learn's cross-validation, wrap arrays with as many rows as X: `X_val=lpplusplus.Whole(X_val)`.
        """
        return self._fit_checked(X, y, text=text, classes=classes, X_val=X_val, y_val=y_val)

    def _fit_checked(self, X: Any, y: Any, *, sample_weight: Any = None, **given: Any) -> "Self":
        """`fit`, for methods whose own `fit` has more parameters."""
        with self._all_or_nothing():
            self._check_parameters()
            task = self._check_task(X, y, sample_weight=sample_weight, **whole(X, **given))
            self.chosen_ = None  # Not of the previous fit.
            working = self._weighed(task.working(places=self.needs_places))
            if working.text is not None and not (isinstance(working.X, Rows) or self.needs_places):
                warn_of_order(working.X, working.y, task.text, working.text)
            self._fit_task(working)
            for before in ("metadata_", "task_"):  # They belong to the previous fit.
                self.__dict__.pop(before, None)
            if not isinstance(task.X, Rows):
                self.task_ = self._worth_keeping(task).copied()
            return self

    def _worth_keeping(self, task: Task) -> Task:
        """What `extend` needs of a task."""
        return task

    def extend(self, X: Any, y: Any, *, text: Any = None, classes: Any = None) -> "Self":
        """Add examples, of known or of new classes. The result is that of a fit on everything, bit for bit.

        Parameters
        ----------
        X : (n, D) or (n, V, D) array
            More embeddings, with as many views as before. They come after the existing ones.
        y : (n,) array-like
            Their labels.
        text : optional
            Text of the new classes, in any form that `fit` takes: rows in the order of `classes`, or of the sorted new
            labels. Text of all classes, or by name, replaces the old text. New classes need text if the others have it.
        classes : optional
            The new classes; or all classes in their new order. By default, sorted classes stay sorted; otherwise the
            new ones come last.

        Raises
        ------
        ValueError
            If the classifier no longer has its training data: it was saved without them or by an earlier version,
            comes from `fit_many`, or was fitted on a memory map that is larger than its parameter `memory`.

        Examples
        --------
        >>> import numpy as np
        >>> from lpplusplus import LPPlusPlus
        >>> probe = LPPlusPlus().fit(np.eye(3)[[0, 0, 1, 1]], ["ant", "ant", "bee", "bee"])
        >>> probe.extend(np.eye(3)[[2, 2]], ["cat", "cat"]).predict(np.eye(3))
        array(['ant', 'bee', 'cat'], dtype='<U3')
        """
        check_is_fitted(self)
        if "task_" not in vars(self):
            raise ValueError(
                "this classifier no longer has what it was fitted on (it was saved without that or by an earlier "
                "version, comes from fit_many, or was fitted on a file larger than memory): fit on everything instead."
            )
        self._check_columns(X, "X")
        columns = vars(self).get("feature_names_in_")
        with self._all_or_nothing():
            given = self.task_.extended(X, y, text, classes)
            self._fit_checked(**{name: value for name, value in given.items() if value is not None})
            if columns is not None:
                self.feature_names_in_ = columns
            return self

    def _weighed(self, task: Task) -> Task:
        """The task with the weights that examples and classes have, in methods that have such."""
        return task

    @abstractmethod
    def _fit_task(self, task: Task) -> None:
        """Set the fitted attributes from checked data."""

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if something stops the fit: bad input, or Ctrl-C."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_parameters(self) -> None:
        check_parameters(type(self), self.get_params(deep=False))

    def _adopt(self, other: "Self") -> "Self":
        """Copy what `_check_task` has set in `other`."""
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if name in vars(other):
                setattr(self, name, vars(other)[name])
        return self

    def _logits(self, X: Array) -> Array:
        """Class scores of checked embeddings, (n, K), in the library and on the device of `X`."""
        coef, intercept = (backend.like(part, X) for part in (self.coef_, self.intercept_))
        X = backend.cast(X, coef.dtype)
        if self.normalize:
            X = backend.unit_rows(X)
        z = X @ coef.T
        z += intercept
        return z

    def _ready(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._check_images(X, "X", reset=False)
        X = backend.cast(X, backend.working_dtype(X))
        if self.text_ is not None:
            checks.check_no_zero_rows(X, "X")
        return X

    def decision_function(self, X: Any) -> Array:
        """Class scores before the softmax.

        Parameters
        ----------
        X : (n, D) array
            Embeddings, from the same encoder as the support.

        Returns
        -------
        (n, K) array; for two classes (n,), the score of the second minus that of the first, as in scikit-learn.
        """
        z = self._logits(self._ready(X))
        return z[:, 1] - z[:, 0] if z.shape[1] == 2 else z

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, (n, K), in the order of `classes_`."""
        z = self._logits(self._ready(X))
        softmax(z, out=z)
        return z

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`, (n, K); always finite, since no probability is 0."""
        p = self.predict_proba(X)
        return backend.namespace(p).log(p)

    def predict(self, X: Any) -> Array:
        """Most likely class of each image.

        Labels come as a numpy array. For tensors they come as a tensor on the same device, if they are numbers.
        """
        X = self._ready(X)
        xp = backend.namespace(X)
        height = rows_per_chunk(len(self._labels))
        best = xp.concat([xp.argmax(self._logits(X[a : a + height, :]), axis=1) for a in range(0, X.shape[0], height)])
        if backend.is_foreign(X) and self._labels.dtype.kind in "iufb":
            return backend.like(self._labels, X)[best]
        return self._labels[backend.to_numpy(best)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the fraction of images classified correctly, weighted by `sample_weight`."""
        answers, truth = backend.to_numpy(self.predict(X)), backend.to_numpy(y)
        weights = None if sample_weight is None else backend.to_numpy(sample_weight)
        return float(accuracy_score(truth, answers, sample_weight=weights))

    @property
    def parameter_count_(self) -> int:
        """Number of trainable parameters."""
        check_is_fitted(self)
        return self._count_parameters()

    def _count_parameters(self) -> int:
        """`parameter_count_`; by default that of a linear probe, with a bias or an α per class."""
        if self.trained_arrays is None:
            return len(self._labels) * (self.n_features_in_ + 1)
        return sum(math.prod(getattr(self, name).shape) for name in self.trained_arrays)

    def save(self, path: str | PathLike[str], *, metadata: dict[str, Any] | None = None, support: bool = True) -> None:
        """Write the fitted classifier to one file, atomically; read it with `lpplusplus.load`.

        Parameters
        ----------
        path
            A file name; ".lpp" is usual.
        metadata
            Anything that JSON can hold, such as an encoder's fingerprint or prompts. `load` sets it as `metadata_`. By
            default the `metadata_` that this classifier was loaded with.
        support
            Keep the training data, in their own precision. Without them there is no `extend`.

        Notes
        -----
        The file has all parameters except generators, callbacks and paths of checkpoints. Of a solver from outside the
        package it has only the name: after loading, such a classifier predicts; before it is fitted again, its `solver`
        has to be set.
        """
        check_is_fitted(self)
        model_file.save(self, path, metadata, support=support)

    def _parameters_to_save(self) -> dict[str, Any]:
        """Parameters as JSON can hold them; `model_file` converts tuples, numpy's numbers, encoders and generators."""
        passing = dict.fromkeys(("progress", "checkpoint"))  # A callback, or a path: they belong to one fit.
        return {name: passing.get(name, value) for name, value in self.get_params(deep=False).items()}

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Parameters as this version writes them, from those of any version.

        A method overrides it to rename or to move a parameter. What it does not know stays as it is.
        """
        return given

    @classmethod
    def _decoded(cls, saved: dict[str, Any]) -> dict[str, Any]:
        """Parameters of a file or a plan in Python's own types; the inverse of `_parameters_to_save`."""
        return {name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()}

    @classmethod
    def _with_parameters(cls, saved: dict[str, Any]) -> "Self":
        """An estimator with the parameters of a file of any version."""
        return cls(**cls.translated(cls._decoded(saved)))

    def _scalars_to_save(self) -> dict[str, Any]:
        scalars = {name: getattr(self, name) for name in (*self.fitted_scalars, "n_features_in_")}
        if hasattr(self, "feature_names_in_"):
            scalars["feature_names_in_"] = self.feature_names_in_.tolist()
        return {**scalars, "history": self.history_.as_lists()}

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: np.ndarray[Any, Any]) -> None:
        """Set the content of a file, after checking that it fits together."""
        required = {name for name, shape in self.fitted_arrays.items() if not shape.endswith("?")}
        if not required <= set(arrays) <= set(self.fitted_arrays):
            raise ValueError(f"arrays {sorted(arrays)} are not those of a {type(self).__name__}")
        for name, kind in {**self.fitted_scalars, "n_features_in_": "count"}.items():
            missing = kind.endswith("?") and scalars[name] is None
            if not missing and not SCALARS[kind.rstrip("?")].allows(scalars[name]):
                raise ValueError(f"{name} is {scalars[name]!r}")
            setattr(self, name, scalars[name])
        names = scalars.get("feature_names_in_")
        if names is not None:
            if len(names) != self.n_features_in_ or not all(isinstance(name, str) for name in names):
                raise ValueError(f"feature_names_in_ are not the names of {self.n_features_in_} columns")
            self.feature_names_in_ = np.array(names, dtype=object)
        lengths = {"K": len(classes), "D": self.n_features_in_}
        for name in self.fitted_arrays:
            if name in arrays:
                self._check_saved(name, arrays[name], lengths)
            setattr(self, name, arrays.get(name))
        self.history_ = History.from_lists(scalars["history"])
        self.classes_ = classes

    def _check_saved(self, name: str, value: np.ndarray[Any, Any], lengths: dict[str, int]) -> None:
        """Raise unless an array has the declared shape and kind; `lengths` are those of the letters known so far."""
        letters = self.fitted_arrays[name].rstrip("?")
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(letters, value.shape, strict=False))
        if len(letters) != value.ndim or value.shape != expected:
            raise ValueError(f"{name} has shape {value.shape}, expected {letters} = {expected}")
        if value.dtype not in (("int64",) if name in self.index_arrays else ("float32", "float64")):
            raise ValueError(f"{name} has entries of type {value.dtype}")
        if not (np.abs(value) <= LARGEST).all():
            raise ValueError(f"{name} has entries beyond {LARGEST:g} or NaN: probabilities would not be numbers")
        if name in self.index_arrays and not ((value >= 0) & (value < lengths["K"])).all():
            raise ValueError(f"{name} names classes beyond the {lengths['K']} that there are")
