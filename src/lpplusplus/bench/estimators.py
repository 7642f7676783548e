"""The estimators of a plan: methods of the package by name, and your own by import path, such as "mypackage:Mine"."""

import hashlib
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._core.model_file import method
from .._core.softmax import softmax

DIGITS = 12
"""Digits of the digest behind the name of an estimator of your own."""


def named(estimator: str, folder: Path | None = None) -> str:
    """The estimator's name in cells: one of your own has a digest of its source file behind it.

    So when the file changes, the cells run again. The name is imported, which runs the module. Modules are searched
    where Python searches, and last in `folder`, the folder of the plan.

    Raises
    ------
    ValueError
        If there is no such estimator.

    Examples
    --------
    >>> named("LPPlusPlus"), named("sklearn.svm:SVC").partition("@")[0]
    ('LPPlusPlus', 'sklearn.svm:SVC')
    """
    if ":" not in estimator:
        if method(estimator) is None:
            raise ValueError(
                f"lpplusplus has no estimator {estimator!r}; one of your own is named by its module and class, such as "
                f"'mypackage:Mine'."
            )
        return estimator
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # Last, so that nothing there hides a package. Workers inherit it.
    path = estimator.partition("@")[0]
    return f"{path}@{source_digest(_imported(path))}"


def find(estimator: str) -> Any:
    """The class of the estimator, or a function that returns one; None if the package has no such method."""
    return _imported(estimator.partition("@")[0]) if ":" in estimator else method(estimator)


def make(estimator: str, parameters: Mapping[str, Any], encoder: str = "") -> BaseEstimator:
    """An estimator with these parameters; `encoder` is for methods that train through it."""
    kind = find(named(estimator))
    if ":" not in estimator:
        model: BaseEstimator = kind() if kind.black_box else kind(encoder=encoder)
        return model.set_params(**kind._decoded(dict(parameters)))
    if estimator != named(estimator):
        raise ValueError(f"the source of {estimator.partition('@')[0]} has changed while the plan ran: run it again.")
    try:
        model = kind(**parameters)
    except TypeError as error:
        raise ValueError(f"{estimator.partition('@')[0]} cannot be made: {error}.") from error
    if not callable(getattr(model, "fit", None)) or not callable(getattr(model, "predict", None)):
        raise ValueError(f"{estimator.partition('@')[0]} makes {type(model).__name__}, which has no fit and predict.")
    return model


def source_digest(kind: Any) -> str:
    """A short digest of the file that defines a class or function; of its name if there is no file."""
    try:
        source = Path(inspect.getsourcefile(kind) or "").read_bytes()
    except (OSError, TypeError):
        source = f"{kind.__module__}:{kind.__qualname__}".encode()
    return hashlib.sha256(source).hexdigest()[:DIGITS]


@cache
def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), name]):
        raise ValueError(f"{path!r} is not of the form 'package.module:Name'.")
    try:
        found = getattr(import_module(module), name)
    except ImportError as error:
        remedy = "install it, or put its file beside the plan"
        raise ValueError(f"{module} cannot be imported ({error}): {remedy}.") from error
    except AttributeError:
        raise ValueError(f"the module {module} has no {name}.") from None
    if not callable(found):
        raise ValueError(f"{path} is neither a class nor a function.")
    return found


def accepted(model: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Those of text, classes and validation images that `fit` has parameters for."""
    taken = inspect.signature(model.fit).parameters
    return {name: value for name, value in offered.items() if name in taken and value is not None}


def chances(model: Any, X: NDArray[Any], classes: list[str]) -> NDArray[np.float64]:
    """Probabilities in the order of `classes`, 0 for a class that the model has not seen.

    From `predict_proba`; without it the softmax of `decision_function`; without both, 1 for the answer of `predict`. If
    another class is at least as likely as this answer, the answer gets slightly more than that probability.
    """
    position = {label: k for k, label in enumerate(classes)}
    rows, answers = np.arange(len(X)), [position[str(label)] for label in model.predict(X)]
    probabilities = np.zeros((len(X), len(classes)))
    if hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(X), np.float64)
    elif hasattr(model, "decision_function"):
        scores = softmaxed(np.asarray(model.decision_function(X), np.float64))
    else:
        probabilities[rows, answers] = 1
        return probabilities
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} has no classes_: the order of its columns is not known.")
    probabilities[:, [position[str(label)] for label in model.classes_]] = scores
    probabilities[rows, answers] = np.nextafter(probabilities.max(axis=1), 2)
    return probabilities


def softmaxed(scores: NDArray[Any], columns: Any = slice(None)) -> NDArray[Any]:
    """Probabilities from some columns of `decision_function`; of two classes, it has the second's minus the first's."""
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    z = np.array(scores[:, columns], order="C")
    softmax(z, out=z)
    return z
