"""A list of images with their labels, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from .class_names import check_names, match_names, prompt_names
from .stored_file import StoredFile

if TYPE_CHECKING:
    from PIL import Image

    from ...encoders.pixels.decoding import ImageError

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
    source: str = "a list"
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

    def with_names(self, names: Mapping[str, str]) -> ImageSet:
        """Other display names and another order of the classes; see `match_names`."""
        matched = match_names(self.classes, names, self.source)
        return replace(self, classes=tuple(matched), names=tuple(matched.values()))

    def check_trainable(self) -> None:
        """Raise unless there are images with labels, and two classes or more."""
        if self.labels is None:
            raise SourceError(f"{self.source} has no labels: training needs a folder per class, or a manifest.")
        if len(self.classes) < 2:
            only = f" ({self.classes[0]!r})" if self.classes else ""
            raise SourceError(f"{self.source} has only one class{only}: a classifier needs at least two.")
        if not self.items:
            raise SourceError(f"{self.source} has no images.")


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
