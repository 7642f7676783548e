"""A list of images with their labels, and some of them; an image is a file, a file elsewhere, or in memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SourceError, shown
from .class_names import check_names, listed, prompt_names

if TYPE_CHECKING:
    from PIL import Image

    from ...encoders.pixels.decoding import ImageError, Limits


class StoredFile(ABC):
    """A file somewhere: in an archive, in a bucket, in a table."""

    path: PurePath | str
    """What messages call it; there may be no such file here."""

    def as_posix(self) -> str:
        """What it is called, with "/"."""
        return self.path if isinstance(self.path, str) else self.path.as_posix()

    def check_size(self, size: int, limits: Limits) -> None:
        """Refuse a file that is larger than allowed, before it is read."""
        from ...encoders.pixels.decoding import ImageError

        if size > limits.max_bytes:
            raise ImageError(self.path, f"has {size:,} bytes, more than {limits.max_bytes:,} allowed.")

    @abstractmethod
    def read_bytes(self, limits: Limits) -> bytes:
        """Its content, or an `ImageError`; several threads may ask at once."""


def content_of(item: Path | StoredFile, limits: Limits | None = None) -> bytes:
    """The bytes of an image file, wherever it is; or an `ImageError`."""
    from ...encoders.pixels.decoding import DEFAULT_LIMITS, read_bytes

    limits = limits or DEFAULT_LIMITS
    return read_bytes(item, limits) if isinstance(item, Path) else item.read_bytes(limits)


Item: TypeAlias = "Path | StoredFile | Image.Image"


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images in a fixed order, not yet decoded.

    Attributes
    ----------
    items
        Files, files elsewhere such as in an archive, or Pillow images.
    labels
        Label of each image as a string; None where there are no labels, as for prediction.
    classes
        All labels in order. There may be classes without an image, known by their name only.
    names
        What each class is called in prompts, in the order of `classes`: see `prompt_names`, or what a file of class
        names says.
    source
        Where the images came from, for messages.
    ignored
        Number of hidden files and files of other kinds.
    problems
        Folders that could not be read and links to folders; `embed` treats them as bad images.
    """

    items: list[Item]
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    source: str = "the list of images"
    ignored: int = 0
    problems: tuple[ImageError, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def paths(self) -> list[str]:
        """What each image is called in messages and in a feature store: its path with "/", or "<image 3>"."""
        return [
            item.as_posix() if isinstance(item, Path | StoredFile) else f"<image {position}>"
            for position, item in enumerate(self.items)
        ]

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> ImageSet:
        """Some of the images, in the order of `indices`; all classes stay."""
        labels = None if self.labels is None else self.labels[np.asarray(indices, dtype=np.intp)]
        return replace(self, items=[self.items[index] for index in indices], labels=labels)


def labelled(
    items: list[Item],
    labels: Sequence[str],
    source: str,
    *,
    classes: Sequence[str] | None = None,
    ignored: int = 0,
    problems: tuple[ImageError, ...] = (),
) -> ImageSet:
    """An `ImageSet` with labels; by default its classes are in the order of code points, the same on every machine."""
    order = tuple(sorted(set(labels)) if classes is None else classes)
    names = prompt_names(order)
    check_names(names, source)
    return ImageSet(items, np.array(labels, np.str_), order, tuple(names.values()), source, ignored, problems)


def from_list(items: Iterable[str | PathLike[str] | Image.Image], labels: Iterable[Any] | None = None) -> ImageSet:
    """Paths or Pillow images, with or without a label each.

    Examples
    --------
    >>> images = from_list(["a.jpg", "b.jpg"], ["great_tit", "robin"])
    >>> images.classes, images.names
    (('great_tit', 'robin'), ('great tit', 'robin'))
    """
    if isinstance(items, str | bytes | os.PathLike):
        raise SourceError(f"expected a list of images, not the single {items!r}: use [{items!r}].")
    if not isinstance(items, Iterable):
        raise SourceError(f"expected a list of paths or Pillow images, not a single {type(items).__name__}: use [it].")
    kept = [_item(item, position) for position, item in enumerate(items)]
    if labels is None:
        return ImageSet(kept)
    listed = labels if isinstance(labels, np.ndarray) else list(labels)
    given = np.asarray(listed)
    if given.shape != (len(kept),):
        raise SourceError(f"{len(kept)} images need as many labels, but labels have shape {given.shape}.")
    whole = given.dtype.kind in "iu"
    others = [label for label in listed if (isinstance(label, bool) if whole else not isinstance(label, str))]
    if others:
        raise SourceError(f"labels must be all strings or all whole numbers, but one is {shown(others[0])}.")
    # Whole numbers are in their own order: 2 before 10.
    classes = [str(label) for label in np.unique(given).tolist()] if given.dtype.kind in "iu" else None
    return labelled(kept, [str(label) for label in given.tolist()], "the list of images", classes=classes)


def _item(item: Any, position: int) -> Item:
    if isinstance(item, str | os.PathLike):
        return Path(item)
    from PIL import Image

    if isinstance(item, Image.Image):
        return item
    raise SourceError(f"item {position} is a {type(item).__name__}, expected a path or a Pillow image.")


def sample_half(labels: ArrayLike, most: int, seed: int = 0) -> NDArray[np.intp]:
    """Choose half of each class's images, the larger half of an odd number, but at most `most`.

    >>> [len(sample_half(list("aaaaaabbbc"), most)) for most in (2, 9)]
    [5, 6]
    """
    array: NDArray[Any] = np.asarray(labels)
    chosen = []
    for label in np.unique(array):
        rows = np.flatnonzero(array == label)
        chosen.append(rows[sample_shots(array[rows], min(most, (len(rows) + 1) // 2), seed)])
    return np.sort(np.concatenate(chosen))


def sample_shots(labels: ArrayLike, shots: int, seed: int = 0, *, allow_fewer: bool = False) -> NDArray[np.intp]:
    """Choose `shots` images per class, without replacement.

    The choice depends on the order of the images, on their labels and on `seed`, on nothing else. With one seed,
    choices are nested: the images of 4 shots are among those of 8.

    Parameters
    ----------
    labels
        Label of each image.
    shots
        Number of images per class.
    seed
        Another seed gives another choice.
    allow_fewer
        Take all images of a class that has fewer than `shots`, instead of raising an error that names it.

    Returns
    -------
    (n,) array
        Positions in `labels`, ascending.

    Examples
    --------
    >>> labels = ["cat", "dog", "cat", "dog", "cat"]
    >>> sorted(labels[i] for i in sample_shots(labels, 2, seed=1))
    ['cat', 'cat', 'dog', 'dog']
    """
    if isinstance(shots, bool) or not isinstance(shots, int | np.integer) or shots < 1:
        raise SourceError(f"shots must be a whole number from 1, got {shots!r}.")
    array: NDArray[Any] = np.asarray(labels)
    classes, index, counts = np.unique(array, return_inverse=True, return_counts=True)
    short = [f"{label!s} ({count})" for label, count in zip(classes, counts, strict=True) if count < shots]
    if short and not allow_fewer:
        raise SourceError(f"fewer than {shots} images in {listed(short)}: add images or take fewer shots.")
    # Shuffle all, then sort by class, stably: each class keeps its shuffled order, whatever `shots` is.
    shuffled = np.random.default_rng(seed).permutation(len(array))
    grouped = shuffled[np.argsort(index.reshape(-1)[shuffled], kind="stable")]
    rank = np.arange(len(array)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(grouped[rank < shots])
