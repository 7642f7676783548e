"""Embeddings to answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ...images.answers import Question
from .errors import Refusal
from .shelf import Model


class Guess(BaseModel):
    """A class and its probability."""

    label: str
    probability: float


class Prediction(BaseModel):
    """The answer for one image."""

    image: str
    """The file's name, or its number in the request."""
    top: list[Guess]
    """The likeliest classes, the likeliest first."""
    set: list[str] | None = None
    """The prediction set, if `coverage` was asked for."""
    none_of_these: bool | None = None
    """Whether it shows none of the classes, if `false_alarms` was given."""


class Predictions(BaseModel):
    """The answers for a request, in its order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "birds",
                    "predictions": [{"image": "new.jpg", "top": [{"label": "robin", "probability": 0.93}]}],
                }
            ]
        }
    )
    model: str
    predictions: list[Prediction]


def answer(model: Model, names: Sequence[str], rows: NDArray[np.float32], asked: Question) -> Predictions:
    """A model's answers for embeddings."""
    if rows.shape[1] != model.dim:
        raise Refusal(
            422, "bad_embeddings", f"{model.name} takes embeddings of {model.dim} numbers, not of {rows.shape[1]}."
        )
    try:
        chances = model.probabilities(rows)
    except ValueError as error:  # Such as a row of zeros, which has no direction.
        raise Refusal(422, "bad_embeddings", str(error)) from None
    order = (-chances).argsort(axis=1, kind="stable")[:, : asked.top]
    predictions = [
        Prediction(image=name, top=[Guess(label=model.labels[k], probability=float(row[k])) for k in best])
        for name, row, best in zip(names, chances, order, strict=True)
    ]
    if asked.sets is not None:
        for one, members in zip(predictions, _doubt(model, "predict_set", rows, asked.sets), strict=True):
            one.set = [model.labels[k] for k in np.flatnonzero(members)]
    if asked.none is not None:
        for one, none in zip(predictions, _doubt(model, "none_of_these", rows, asked.none), strict=True):
            one.none_of_these = bool(none)
    return Predictions(model=model.name, predictions=predictions)


def _doubt(model: Model, method: str, rows: NDArray[np.float32], rate: float) -> NDArray[np.bool_]:
    """Prediction sets or none-of-these, if the model has them: not every method and not every classifier does."""
    if not hasattr(model.classifier, method):
        raise Refusal(422, "cannot_doubt", f"{model.name} is {type(model.classifier).__name__}, which has no {method}.")
    try:
        return np.asarray(getattr(model.classifier, method)(rows, rate))
    except ValueError as error:  # Trained without images held out, or by a version that did not keep them.
        raise Refusal(422, "cannot_doubt", str(error)) from None
