"""What a file keeps of a fitted classifier, and how it is checked when it is loaded."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .backend import Array
from .history import History
from .parameters import TEXT, number

if TYPE_CHECKING:
    from typing_extensions import Self

LARGEST = 1e15
"""No weight is larger: sums and products of such numbers are finite, in single precision too."""
SCALARS = {"word": TEXT, "number": number(), "factor": number(-1e6, 1e6)}


class SavedState(BaseEstimator):  # type: ignore[misc]
    """The part of `FewShotClassifier` that `model_file` uses."""

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "intercept_": "K", "text_": "KD?"}
    """Attributes that `save` keeps as arrays, with a letter per axis: K classes, D features, any other letter for a
    length of its own; a ? at the end if the attribute may be None."""
    fitted_scalars: ClassVar[dict[str, str]] = {}
    """Attributes that `save` keeps as JSON, with their kind: a "word", a "number", or a "factor", which is a number
    that predictions are computed with; a ? at the end if the attribute may be None."""
    index_arrays: ClassVar[tuple[str, ...]] = ()
    """Those of `fitted_arrays` that hold class indices."""

    classes_: Any
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]
    history_: History

    def _parameters_to_save(self) -> dict[str, Any]:
        """Parameters as JSON can hold them; `model_file` converts tuples, numpy's numbers and encoders."""
        return dict(self.get_params(deep=False))

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

    def _arrays_to_save(self) -> dict[str, Array | None]:
        return {name: getattr(self, name) for name in self.fitted_arrays}

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
        for name, kind in self.fitted_scalars.items():
            missing = kind.endswith("?") and scalars[name] is None
            if not missing and not SCALARS[kind.rstrip("?")].allows(scalars[name]):
                raise ValueError(f"{name} is {scalars[name]!r}")
            setattr(self, name, scalars[name])
        self.n_features_in_ = scalars["n_features_in_"]
        if type(self.n_features_in_) is not int:
            raise ValueError(f"n_features_in_ is {self.n_features_in_!r}")
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
            raise ValueError(f"{name} has entries beyond {LARGEST:g}, with which probabilities would not be numbers")
        if name in self.index_arrays and not ((value >= 0) & (value < lengths["K"])).all():
            raise ValueError(f"{name} names classes beyond the {lengths['K']} that there are")
