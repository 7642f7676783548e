"""A list of pictures with their labels, checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .class_names import SourceError, display_name, displayed, listed

if TYPE_CHECKING:
    from PIL import Image

    from ..pixels.decoding import ImageError

__all__ = ["ImageSet", "Item", "SourceError", "from_list"]

Item: TypeAlias = "Path | Image.Image"


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Pictures in a fixed order.

    Attributes
    ----------
    items
        Files, or Pillow images.
    labels
        Label of each as strings, or None where there are none, as for prediction.
    classes
        All labels in order; may hold more than `labels` does, for classes known by their name only.
    names
        What to call each class in a prompt, in the order of `classes`: the label with spaces for underscores, or what
        a file of class names says.
    origin
        Where this came from, for messages.
    ignored
        How many hidden files and files of other kinds were passed over.
    problems
        Folders that could not be read and links that lead in circles; `embed` treats them as bad pictures.
    """

    items: list[Item]
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    origin: str = "a list"
    ignored: int = 0
    problems: tuple[ImageError, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.items)

    def paths(self) -> list[str]:
        """How each item is called in messages and in a feature store: its path with "/", or "<image 3>"."""
        return [
            item.as_posix() if isinstance(item, Path) else f"<image {position}>"
            for position, item in enumerate(self.items)
        ]

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> ImageSet:
        """Some of the pictures, in the order of `indices`; all classes stay."""
        labels = None if self.labels is None else self.labels[np.asarray(indices, dtype=np.intp)]
        return replace(self, items=[self.items[index] for index in indices], labels=labels)

    def with_names(self, names: Mapping[str, str]) -> ImageSet:
        """Other display names, as `read_class_names` gives them.

        They fix the order of the classes too. A line names the class whose label is the same but for underscores. Every
        class must be among them; a name without pictures is a class known by its text only.
        """
        own = {display_name(label): label for label in self.classes}
        matched = {own.get(display_name(label), label): name for label, name in names.items()}
        if len(matched) < len(names):
            raise SourceError("the list of class names has two lines for one class, alike but for underscores.")
        unknown = [label for label in self.classes if label not in matched]
        if unknown:
            raise SourceError(f"{self.origin} has {listed(unknown)}, which the list of class names does not have: "
                              f"add a line for each.")  # fmt: skip
        return replace(self, classes=tuple(matched), names=tuple(matched.values()))

    def check_trainable(self) -> None:
        """Raise unless there are labels of two classes or more."""
        if self.labels is None:
            raise SourceError(f"{self.origin} has no labels: training needs a folder per class, or a manifest.")
        if len(self.classes) < 2:
            only = f" ({self.classes[0]!r})" if self.classes else ""
            raise SourceError(f"{self.origin} has only one class{only}: a classifier needs at least two.")
        if not self.items:
            raise SourceError(f"{self.origin} has no images.")


def from_list(items: Iterable[str | PathLike[str] | Image.Image], labels: Iterable[Any] | None = None) -> ImageSet:
    """Paths or Pillow images, with a label each or without.

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
    given = np.asarray(labels if isinstance(labels, np.ndarray) else list(labels))
    if given.shape != (len(kept),):
        raise SourceError(f"{len(kept)} images need as many labels, but labels have shape {given.shape}.")
    if given.dtype.kind not in "iuU" and not all(isinstance(label, str) for label in given.tolist()):
        raise SourceError(f"labels must be strings or whole numbers, not {given.dtype}.")
    # In the order of the labels as they are: 2 before 10.
    classes = [str(label) for label in np.unique(given).tolist()] if given.dtype.kind in "iu" else None
    return labelled(kept, [str(label) for label in given.tolist()], "a list", classes=classes)


def labelled(
    items: list[Item],
    labels: list[str],
    origin: str,
    *,
    classes: Sequence[str] | None = None,
    ignored: int = 0,
    problems: tuple[ImageError, ...] = (),
) -> ImageSet:
    """An `ImageSet` with classes in the order of their labels' code points, which is the same on every machine."""
    order = tuple(classes) if classes is not None else tuple(sorted(set(labels)))
    names = displayed({label: display_name(label) for label in order}, origin)
    array = np.array(labels, dtype=np.str_)
    return ImageSet(items, array, order, tuple(names.values()), origin, ignored, problems)


def _item(item: Any, position: int) -> Item:
    if isinstance(item, str | os.PathLike):
        return Path(item)
    from PIL import Image

    if isinstance(item, Image.Image):
        return item
    raise SourceError(f"item {position} is a {type(item).__name__}, expected a path or a Pillow image.")
