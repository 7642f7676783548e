"""Embeddings to answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .errors import Refusal
from .shelf import Model


class Guess(BaseModel):
    """A class and its probability."""

    label: str
    probability: float


class Prediction(BaseModel):
    """The answer for one image."""

    image: str
    """The file's name, or its place in the request."""
    top: list[Guess]
    """The likeliest classes, the likeliest first."""


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


def answer(model: Model, names: Sequence[str], rows: NDArray[np.float32], top: int) -> Predictions:
    """What a model says of embeddings."""
    if rows.shape[1] != model.dim:
        raise Refusal(
            422, "bad_embeddings", f"{model.name} takes embeddings of {model.dim} numbers, not of {rows.shape[1]}."
        )
    try:
        chances = model.probabilities(rows)
    except ValueError as error:  # Such as a row of zeros, which has no direction.
        raise Refusal(422, "bad_embeddings", str(error)) from None
    order = (-chances).argsort(axis=1, kind="stable")[:, :top]
    predictions = [
        Prediction(image=name, top=[Guess(label=model.labels[k], probability=float(row[k])) for k in best])
        for name, row, best in zip(names, chances, order, strict=True)
    ]
    return Predictions(model=model.name, predictions=predictions)
