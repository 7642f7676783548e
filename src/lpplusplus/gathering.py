"""One way from whatever a user names to embeddings: images, a feature store, or a file of arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .embedding import Progress, embed
from .encoders import Encoder
from .pixels.decoding import ImageError
from .sources import ArraySet, ImageSet, SourceError, display_name, open_images, read_arrays, sample_shots
from .store import FeatureStore, is_store


@dataclass(frozen=True)
class Origin:
    """What made some embeddings; a classifier only takes embeddings of its own origin."""

    spec: str
    fingerprint: str
    preprocessing: str
    dim: int

    @classmethod
    def of(cls, encoder: Encoder) -> Origin:
        """The origin of what `encoder` makes."""
        return cls(encoder.spec, encoder.fingerprint, encoder.preprocessing, int(encoder.dim))

    def same_as(self, other: Origin) -> bool:
        """Whether embeddings of both can be compared; what the encoder is called does not matter."""
        return self.key == other.key

    @property
    def key(self) -> tuple[str, str, int]:
        """What decides an embedding, besides the picture."""
        return self.fingerprint, self.preprocessing, self.dim

    def __str__(self) -> str:
        return f"{self.spec} ({self.fingerprint[:12]}, {self.dim} dimensions)"


@dataclass(frozen=True)
class Gathered:
    """Embeddings with all that is known of them.

    Attributes
    ----------
    X : (n, V, D) float32
    labels : (n,) strings or None
    paths : n names for messages and tables
    classes : all labels, in order
    names : what each class is called in a prompt
    origin : what made the embeddings; None for a file of arrays, which does not say
    text : (K, D) class embeddings that came along, or None
    views : random crops an image; 0 for the centre crop
    skipped : pictures left out, and why
    ignored : files passed over that are no pictures
    reused, computed : embeddings from a store, and from the encoder
    left_aside : embeddings of another list that the store held, now in its folder `replaced`
    """

    X: NDArray[np.float32]
    labels: NDArray[np.str_] | None
    paths: list[str]
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    origin: Origin | None = None
    text: NDArray[np.float32] | None = None
    views: int = 0
    skipped: list[ImageError] = field(default_factory=list)
    ignored: int = 0
    reused: int = 0
    computed: int = 0
    left_aside: int = 0

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> NDArray[np.float32]:
        """(n, D): the mean of each picture's views."""
        mean: NDArray[np.float32] = self.X.mean(axis=1) if self.X.shape[1] > 1 else self.X[:, 0]
        return mean

    def subset(self, positions: NDArray[np.intp]) -> Gathered:
        """Some of the pictures; all classes stay."""
        labels = None if self.labels is None else self.labels[positions]
        return replace(self, X=self.X[positions], labels=labels, paths=[self.paths[i] for i in positions])


def gather(
    source: Any,
    encoder: Callable[[], Encoder],
    *,
    y: Any = None,
    labels: bool = True,
    training: bool = False,
    names: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    shots: int | None = None,
    seed: int = 0,
    views: int = 0,
    store: str | os.PathLike[str] | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    progress: Progress | None = None,
) -> Gathered:
    """Embeddings of `source`.

    Parameters
    ----------
    source
        A folder, a manifest, a feature store, an `.npz` or `.safetensors` file, or a list of paths or Pillow images.
    encoder
        Opens the encoder; not called where `source` has embeddings already.
    y
        Labels, for a list.
    labels
        Whether labels are wanted (training, evaluation) or not (prediction).
    training
        Refuse what no classifier can be trained on, before anything is decoded where that can be told.
    names
        Display name of each label, in order, as `read_class_names` gives them.
    allow_empty
        Keep class folders without pictures as classes known by their name.
    shots, seed
        Take `shots` images of each class, chosen by `seed`, before anything is decoded.
    views, store, on_error, progress
        As in `embed`.
    """
    ready = _ready(source, labels)
    if ready is not None:
        if y is not None:
            raise SourceError(f"labels belong to a list of images; {os.fspath(source)!r} has its own.")
        if store is not None or views not in (0, ready.views):
            raise SourceError(
                f"{os.fspath(source)} holds embeddings already, {_crops(ready.views)}: "
                f"{'a store' if store is not None else 'views'} can only be asked for where images are embedded."
            )
        ready = _few(_named(ready, names), shots, seed)
        if training and len(ready.classes) < 2:
            raise SourceError(f"{os.fspath(source)} has {len(ready.classes)} class(es): training needs two or more.")
        return ready
    images = open_images(source, y, labels=labels, allow_empty=allow_empty)
    pictured = images.classes
    if labels and names is not None:
        images = images.with_names(names)
    if training:
        images.check_trainable()
    if labels and shots is not None:
        images = _few_images(images, shots, seed)
    opened = encoder()
    found = embed(images, opened, store=store, views=views, on_error=on_error, progress=progress)
    if not len(found.X):
        raise SourceError(
            f"no image of {images.origin} can be used. First of {len(found.skipped)} skipped: {found.skipped[0]}"
        )
    if training and not allow_empty and found.labels is not None:
        _check_all_left(pictured, set(found.labels.tolist()), found.skipped)
    return Gathered(
        found.X,
        found.labels,
        found.paths,
        found.classes,
        found.names,
        Origin.of(opened),
        views=views,
        skipped=found.skipped,
        ignored=images.ignored,
        reused=found.reused,
        computed=found.computed,
        left_aside=found.left_aside,
    )


def _ready(source: Any, labels: bool) -> Gathered | None:
    """Embeddings that `source` holds, if it is a feature store or a file of arrays."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if is_store(path):
            return _stored(path, labels)
        if path.suffix.lower() in (".npz", ".safetensors"):
            return _from_arrays(read_arrays(path), path, labels)
    return None


def _crops(views: int) -> str:
    return f"of {views} random crops of each image" if views else "one of each image"


def _check_all_left(classes: tuple[str, ...], left: set[str], skipped: list[ImageError]) -> None:
    """A class must not lose its last picture unnoticed because bad ones are skipped."""
    lost = [label for label in classes if label not in left]
    if lost:
        raise SourceError(
            f"no image of class {lost[0]!r} can be used ({len(lost)} such class(es) in all). Mend its images, or allow "
            f"empty classes, which are known by their name only. First of {len(skipped)} skipped: {skipped[0]}"
        )


def _stored(path: Path, labels: bool) -> Gathered:
    opened = FeatureStore(path)
    if labels and not opened.labelled:
        raise SourceError(f"{path} has no labels: embed a folder per class, or a manifest.")
    features, made = opened.load(), opened.settings
    return Gathered(
        features.X,
        features.labels,
        features.paths,
        opened.classes,
        opened.names,
        Origin(made.encoder, made.fingerprint, made.preprocessing, made.dim),
        views=made.views,
        reused=len(features.X),
    )


def _from_arrays(arrays: ArraySet, path: Path, labels: bool) -> Gathered:
    if labels and arrays.labels is None:
        raise SourceError(f"{path} has no array 'labels': add one with a label for each row of 'embeddings'.")
    X = np.asarray(arrays.embeddings, np.float32)
    X = X[:, None, :] if X.ndim == 2 else X
    found = None if arrays.labels is None else arrays.labels
    classes = arrays.classes
    if classes is None and found is not None:
        classes = tuple(str(label) for label in np.unique(found))  # Sorted as the labels are: 2 before 10.
    classes = classes or ()
    return Gathered(
        X,
        None if found is None else found.astype(np.str_),
        [f"{path.name}[{row}]" for row in range(len(X))],
        classes,
        tuple(display_name(label) for label in classes),
        text=None if arrays.text is None else np.asarray(arrays.text, np.float32),
    )


def _named(found: Gathered, names: Mapping[str, str] | None) -> Gathered:
    """With other display names; embeddings of class names that came along no longer fit another order."""
    if names is None or found.labels is None:
        return found
    images = ImageSet([], found.labels, found.classes, found.names).with_names(names)
    text = found.text
    if text is not None:
        if set(images.classes) != set(found.classes):
            raise SourceError("the list of class names has classes that the file's text embeddings do not have.")
        text = text[[found.classes.index(label) for label in images.classes]]
    return replace(found, classes=images.classes, names=images.names, text=text)


def _few(found: Gathered, shots: int | None, seed: int) -> Gathered:
    if shots is None or found.labels is None:
        return found
    return found.subset(sample_shots(found.labels, shots, seed))


def _few_images(images: ImageSet, shots: int, seed: int) -> ImageSet:
    if images.labels is None:
        raise SourceError(f"{images.origin} has no labels to choose shots by.")
    return images.subset(sample_shots(images.labels, shots, seed))
