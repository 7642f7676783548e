"""Images that are named one by one: a list of paths or Pillow images."""

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SourceError, shown
from .image_set import ImageSet, Item, labelled

if TYPE_CHECKING:
    from PIL import Image


def from_list(items: "Iterable[str | PathLike[str] | Image.Image]", labels: Iterable[Any] | None = None) -> ImageSet:
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
    return labelled(kept, [str(label) for label in given.tolist()], "a list", classes=classes)


def _item(item: Any, position: int) -> Item:
    if isinstance(item, str | os.PathLike):
        return Path(item)
    from PIL import Image

    if isinstance(item, Image.Image):
        return item
    raise SourceError(f"item {position} is a {type(item).__name__}, expected a path or a Pillow image.")
