"""`lpp train --engine ray`: a classifier from embeddings that no single machine has to hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.base import FewShotClassifier
from ..encoders.class_text import DEFAULT_TEMPLATE
from ..images.classifier import ImageClassifier
from ..images.errors import SourceError
from ..images.parquet.addresses import spelled
from .connection import Slots, connected
from .rows import distributed_rows


@dataclass(frozen=True)
class Trained:
    """What `train_on_ray` did.

    Attributes
    ----------
    images, workers
        How many images there were, and how many workers held them.
    accuracy
        Fraction of validation images, or of held-out images, that it gets right; None if there were none.
    measured
        Which of the two it was measured on.
    """

    classifier: ImageClassifier
    images: int
    workers: int
    accuracy: float | None
    measured: str


def train_on_ray(
    source: str,
    *,
    encoder: str | None = None,
    template: str | Sequence[str] = DEFAULT_TEMPLATE,
    method: FewShotClassifier | None = None,
    names: Mapping[str, str] | None = None,
    val: Any = None,
    allow_network: bool = False,
    slots: Slots | None = None,
    address: str | None = None,
) -> Trained:
    """Train on embeddings that Ray workers hold. Up to rounding, the classifier is that of the local engine.

    Parameters
    ----------
    source
        Embeddings with labels, as in `distributed_rows`.
    encoder, template, method, allow_network
        As in `ImageClassifier`. The method must be one that is made of sums over rows: `LPPlusPlus` (the default),
        `GDA` or `ZeroShot`.
    names, val
        As in `ImageClassifier.fit`.
    slots, address
        As in `embed_on_ray`.
    """
    if method is not None and method.memory is None:
        raise SourceError(
            f"{type(method).__name__} needs all embeddings in one process: train it with the local engine, or take "
            f"LPPlusPlus, GDA or ZeroShot."
        )
    clf = ImageClassifier(encoder, template=template, method=method, allow_network=allow_network)
    with connected(address), distributed_rows(source, slots) as support:
        if support.labels is None:
            raise SourceError(f"{spelled(source)} has no labels to train on.")
        clf.fit(support, val=val, names=names)
        workers = len(support.X._mine)  # type: ignore[attr-defined]
    validation = clf.validation_
    del clf.training_data_  # Only the workers had it.
    accuracy, measured = None, "not measured"
    if validation is not None:
        accuracy, measured = clf.evaluate(validation).accuracy, "validation images"
    else:
        history = clf.classifier_.history_.as_arrays()
        if len(history.get("held_out_loss", ())):
            accuracy = float(history["held_out_accuracy"][int(np.argmin(history["held_out_loss"]))])
            measured = "held-out images"
    return Trained(clf, len(support), workers, accuracy, measured)
