"""Classifiers that are not `FewShotClassifier`s, such as scikit-learn's, under the benchmark's protocol."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.softmax import softmax


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
    found = np.zeros((len(X), len(classes)))
    if hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(X), np.float64)
    elif hasattr(model, "decision_function"):
        scores = np.array(model.decision_function(X), np.float64)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        softmax(scores, out=scores)
    else:
        found[rows, answers] = 1
        return found
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} has no classes_: the order of its columns is not known.")
    found[:, [position[str(label)] for label in model.classes_]] = scores
    found[rows, answers] = np.nextafter(found.max(axis=1), 2)
    return found
