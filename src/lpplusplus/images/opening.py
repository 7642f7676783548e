"""Embeddings from any source: images, a feature store, Parquet or arrays. Two encoders are never mixed."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core.parameters import Progress
from ..encoders import Encoder
from ..encoders.class_text import class_texts, prompt_texts
from .embedder import embed
from .embeddings import Embeddings, Origin
from .errors import SourceError
from .parquet import is_parquet, read_parquet
from .parquet.addresses import spelled
from .sources import ImageSet, open_images, read_arrays, sample_shots
from .sources.class_names import match_names
from .sources.folders import PartName
from .store import FeatureStore, is_store


def embed_source(
    source: Any,
    encoder: Callable[[], Encoder],
    *,
    required_origin: Origin | None = None,
    owner: str = "this classifier",
    y: Any = None,
    labels: bool = True,
    training: bool = False,
    part: PartName = "test",
    names: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    shots: int | None = None,
    seed: int = 0,
    views: int = 0,
    store: str | os.PathLike[str] | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    progress: Progress | None = None,
) -> Embeddings:
    """Embeddings of `source`.

    Parameters
    ----------
    source
        A folder, a zip file, a manifest, a feature store, a Parquet data set (also by an address such as
        `s3://bucket/features`), an `.npz` or `.safetensors` file, a list of paths or Pillow images, or what
        `open_images` or `embed` returned.
    encoder
        Opens the encoder; not called if `source` has embeddings already.
    required_origin, owner
        The origin that the embeddings must have, if any, and what messages call its owner. Another encoder is refused
        before an image is decoded.
    y
        Labels, for a list.
    labels
        Whether labels are needed (training, evaluation) or not (prediction).
    training
        Refuse what no classifier can be trained on, if possible before an image is decoded.
    part
        Which part to take of a folder that has `train`, `val` or `test` in it; "train" if `training`.
    names
        Display name of each label, in order, as `read_class_names` gives them.
    allow_empty
        Keep class folders without images as classes known by their name.
    shots, seed
        Take `shots` images of each class, chosen by `seed`, before an image is decoded.
    views, store, on_error, progress
        As in `embed`.
    """
    ready = _ready(source, labels)
    if ready is not None:
        where = source_name(source)
        refuse_another(required_origin, ready.origin, owner, where)
        _refuse_options(ready, where, y, store, views)
        ready = _named(ready, names, where)
        if shots is not None and ready.labels is not None:
            ready = ready.subset(sample_shots(ready.labels, shots, seed))
        if training and len(ready.classes) < 2:
            raise SourceError(f"{where} has {len(ready.classes)} class(es): training needs two or more.")
        return ready
    images = source
    if not isinstance(source, ImageSet):
        # A class without test images is not asked about.
        empty = allow_empty or not training
        images = open_images(source, y, labels=labels, allow_empty=empty, part="train" if training else part)
    with_images = images.classes
    if labels and names is not None:
        images = images.with_names(names)
    if training:
        images.check_trainable()
    if labels and shots is not None:
        if images.labels is None:
            raise SourceError(f"{images.source} has no labels to choose shots by.")
        images = images.subset(sample_shots(images.labels, shots, seed))
    opened = encoder()
    refuse_another(required_origin, Origin.of(opened), owner, "the encoder given now")
    found = embed(images, opened, store=store, views=views, on_error=on_error, progress=progress)
    if not len(found):
        raise SourceError(
            f"no image of {images.source} can be used. First of {len(found.skipped)} skipped: {found.skipped[0]}"
        )
    if training and not allow_empty and found.labels is not None:
        _check_all_left(with_images, found)
    return found


def class_text(
    support: Embeddings, encoder: Callable[[], Encoder], templates: Sequence[str]
) -> NDArray[np.float32] | None:
    """Embeddings of the class names: those of the source, else made by the encoder of the images if it is known.

    (K, D), or with several templates (templates, K, D).
    """
    if support.text is not None or support.origin is None:
        return support.text
    opened = encoder()
    refuse_another(support.origin, Origin.of(opened), "this classifier", "the encoder given now")
    return (class_texts if len(templates) == 1 else prompt_texts)(opened, support.names, templates)


def holds_embeddings(path: Path) -> bool:
    """Whether a path is a feature store, a Parquet data set or a file of arrays, not images."""
    return is_store(path) or path.suffix.lower() in (".npz", ".safetensors") or is_parquet(path)


def source_name(source: Any) -> str:
    """What messages call a source."""
    if isinstance(source, ImageSet):
        return source.source
    return spelled(source) if isinstance(source, str | os.PathLike) else "the list of images"


def refuse_another(mine: Origin | None, other: Origin | None, owner: str, others: str) -> None:
    """Refuse embeddings of two encoders, naming both."""
    if mine is None or other is None or mine.comparable(other):
        return
    message = f"{owner} belongs to the encoder {mine}, {others} to {other}: their embeddings cannot be compared."
    if mine.fingerprint == other.fingerprint and mine.preprocessing != other.preprocessing:
        message += f" Images were prepared as {mine.preprocessing} and as {other.preprocessing}."
    raise SourceError(f"{message} Use the same encoder for both, or embed and train again.")


def _ready(source: Any, labels: bool) -> Embeddings | None:
    """Embeddings that `source` is or holds: a feature store, a Parquet data set, a file of arrays."""
    if isinstance(source, Embeddings):
        return source
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    if not holds_embeddings(path):
        return None
    if is_store(path):
        store = FeatureStore(path)
        if labels and not store.labelled:
            raise SourceError(f"{path} has no labels: embed a folder per class, or a manifest.")
        return store.load()
    if is_parquet(path):
        return read_parquet(source, labels=labels)
    arrays = read_arrays(path)
    if labels and arrays.labels is None:
        raise SourceError(f"{path} has no array 'labels': add one with a label for each row of 'embeddings'.")
    return arrays


def _refuse_options(ready: Embeddings, where: str, y: Any, store: Any, views: int) -> None:
    """Refuse options that are for images only."""
    if y is not None:
        raise SourceError(f"labels belong to a list of images; {where!r} has its own.")
    if store is not None or views not in (0, ready.views):
        crops = f"of {ready.views} random crops of each image" if ready.views else "one of each image"
        raise SourceError(
            f"{where} holds embeddings already, {crops}: {'a store' if store is not None else 'views'} can only be "
            f"asked for where images are embedded."
        )


def _named(found: Embeddings, names: Mapping[str, str] | None, where: str) -> Embeddings:
    """With other display names, in their order."""
    if names is None or found.labels is None:
        return found
    matched = match_names(found.classes, names, where)
    text = found.text
    if text is not None:
        if set(matched) != set(found.classes):
            raise SourceError("the list of class names has classes that the file's text embeddings do not have.")
        text = text[[found.classes.index(label) for label in matched]]
    return replace(found, classes=tuple(matched), names=tuple(matched.values()), text=text)


def _check_all_left(classes: Sequence[str], found: Embeddings) -> None:
    """Raise if a class has lost all its images because bad ones are skipped."""
    left = set(() if found.labels is None else found.labels.tolist())
    lost = [label for label in classes if label not in left]
    if lost:
        raise SourceError(
            f"no image of class {lost[0]!r} can be used ({len(lost)} such class(es) in all). Mend its images, or allow "
            f"empty classes, which are known by their name only. First of {len(found.skipped)} skipped: "
            f"{found.skipped[0]}"
        )
