"""The one door: whatever a user names is looked at once, and is images or embeddings; then all are embeddings.

Embeddings of two encoders are never mixed.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..encoders import Encoder
from ..encoders.class_text import class_texts, prompt_texts
from .embedder import embed
from .embeddings import Embeddings, Origin
from .errors import SourceError
from .parquet import is_parquet, read_parquet
from .parquet.addresses import is_address, spelled
from .parquet.tables import LABEL
from .sources import ImageSet, open_images, read_arrays, sample_shots
from .sources.arrays import ARRAYS
from .sources.class_names import match_names
from .store import FeatureStore, is_store

Opened: TypeAlias = ImageSet | Embeddings
"""What comes through the door."""


def open_source(source: Any, y: Iterable[Any] | None = None, *, labels: bool = True, **options: Any) -> Opened:
    """Images or embeddings from what a user named.

    Parameters
    ----------
    source
        A folder, a zip file, a manifest, a feature store, a Parquet data set (also by an address such as
        `s3://bucket/features`), an `.npz` or `.safetensors` file, a list of paths or Pillow images, or what
        `open_images` or `embed` returned.
    y, labels, **options
        As in `open_images`.
    """
    opened: Opened | None = source if isinstance(source, ImageSet | Embeddings) else None
    if isinstance(source, str | os.PathLike):
        opened = _stored_embeddings(spelled(source), labels)
    if opened is None:
        return open_images(source, y, labels=labels, **options)
    if y is not None:
        raise SourceError(f"labels belong to a list of images; {opened.source!r} has its own.")
    return opened


def _stored_embeddings(place: str, labels: bool) -> Embeddings | None:
    """The embeddings at a path or an address; None if it has images."""
    path = Path(place)
    if not is_address(place) and is_store(path):
        embeddings, remedy = FeatureStore(path).load(), "embed a folder per class, or a manifest"
    elif is_parquet(place):
        embeddings, remedy = read_parquet(place), f"a column {LABEL!r} with a label for each row is missing"
    elif path.suffix.lower() in ARRAYS:
        embeddings, remedy = read_arrays(path), "add an array 'labels' with a label for each row of 'embeddings'"
    else:
        return None
    if labels and embeddings.labels is None:
        raise SourceError(f"{place} has no labels: {remedy}.")
    return replace(embeddings, source=place)


def select(
    opened: Opened,
    *,
    names: Mapping[str, str] | None = None,
    shots: int | None = None,
    seed: int = 0,
    training: bool = False,
) -> Opened:
    """Name classes and choose images, before any is decoded.

    Parameters
    ----------
    opened
        What `open_source` returned.
    names
        Display name of each label, in order, as `read_class_names` gives them; see `match_names`.
    shots, seed
        Take `shots` images of each class, chosen by `seed`.
    training
        Refuse what no classifier can be trained on.
    """
    if names is not None and opened.labels is not None:
        matched = match_names(opened.classes, names, opened.source)
        if isinstance(opened, Embeddings) and opened.text is not None:
            if set(matched) != set(opened.classes):
                raise SourceError(
                    "the list of class names has classes that the file's text embeddings do not have."
                )  # fmt: skip
            opened = replace(opened, text=opened.text[[opened.classes.index(label) for label in matched]])
        opened = replace(opened, classes=tuple(matched), names=tuple(matched.values()))
    if training:
        _check_trainable(opened)
    if shots is None:
        return opened
    if opened.labels is None:
        raise SourceError(f"{opened.source} has no labels to choose shots by.")
    return opened.subset(sample_shots(opened.labels, shots, seed))


def embed_source(
    opened: Opened,
    encoder: Callable[[], Encoder],
    *,
    required_origin: Origin | None = None,
    owner: str = "this classifier",
    views: int = 0,
    store: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Embeddings:
    """Embeddings of what `open_source` returned.

    Parameters
    ----------
    opened
        Images, or embeddings, which are only checked.
    encoder
        Opens the encoder; not called for embeddings.
    required_origin, owner
        The origin that the embeddings must have, if any, and what messages call its owner. Another encoder is refused
        before an image is decoded.
    views, store, **options
        As in `embed`.
    """
    if isinstance(opened, Embeddings):
        _check_ready(opened, required_origin, owner, store, views)
        return opened
    made_by = encoder()
    refuse_another(required_origin, Origin.of(made_by), owner, "the encoder given now")
    embeddings = embed(opened, made_by, store=store, views=views, **options)
    if not len(embeddings):
        raise SourceError(
            f"no image of {opened.source} can be used. First of {len(embeddings.skipped)} skipped: "
            f"{embeddings.skipped[0]}"
        )
    return embeddings


def check_no_class_lost(opened: Opened, embeddings: Embeddings) -> None:
    """Raise if a class has lost all its images because bad ones are skipped."""
    before, left = (set(() if one.labels is None else one.labels.tolist()) for one in (opened, embeddings))
    lost = [label for label in opened.classes if label in before - left]
    if lost:
        raise SourceError(
            f"no image of class {lost[0]!r} can be used ({len(lost)} such class(es) in all). Mend its images, or allow "
            f"empty classes, which are known by their name only. First of {len(embeddings.skipped)} skipped: "
            f"{embeddings.skipped[0]}"
        )


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


def refuse_another(mine: Origin | None, other: Origin | None, owner: str, others: str) -> None:
    """Refuse embeddings of two encoders, naming both."""
    if mine is None or other is None or mine.comparable(other):
        return
    message = f"{owner} belongs to the encoder {mine}, {others} to {other}: their embeddings cannot be compared."
    if mine.fingerprint == other.fingerprint and mine.preprocessing != other.preprocessing:
        message += f" Images were prepared as {mine.preprocessing} and as {other.preprocessing}."
    raise SourceError(f"{message} Use the same encoder for both, or embed and train again.")


def _check_trainable(opened: Opened) -> None:
    if opened.labels is None:
        raise SourceError(f"{opened.source} has no labels: training needs a folder per class, or a manifest.")
    if len(opened.classes) < 2:
        only = f" ({opened.classes[0]!r})" if opened.classes else ""
        raise SourceError(f"{opened.source} has only one class{only}: a classifier needs at least two.")
    if not len(opened):
        raise SourceError(f"{opened.source} has no images.")


def _check_ready(ready: Embeddings, required: Origin | None, owner: str, store: Any, views: int) -> None:
    """Refuse embeddings of another encoder, and options that are for images only."""
    refuse_another(required, ready.origin, owner, ready.source)
    if required is not None and ready.X.shape[2] != required.dim:
        raise SourceError(
            f"{owner} belongs to the encoder {required}, but embeddings of {ready.source} have {ready.X.shape[2]} "
            f"dimensions: embed both with the same encoder."
        )
    if store is not None or views not in (0, ready.views):
        crops = f"of {ready.views} random crops of each image" if ready.views else "one of each image"
        raise SourceError(
            f"{ready.source} holds embeddings already, {crops}: {'a store' if store is not None else 'views'} can only "
            f"be asked for where images are embedded."
        )
