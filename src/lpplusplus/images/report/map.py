"""The map as a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.files import seal
from ..._core.progress import Progress
from .. import words
from ..embeddings import Embeddings
from ..projection import colour
from .page import rendered
from .thumbnails import thumbnail

SIDE = 112
"""Pixels of the longer side of a photo at the pointer."""


@dataclass(frozen=True)
class Dot:
    """A photo on the map; its place in percent."""

    x: float
    y: float
    colour: str
    label: str
    name: str
    picture: str | None


def map_page(images: Embeddings, xy: NDArray[Any], about: str, progress: Progress | None = None) -> str:
    """A page with the map of images, whose photos show at the pointer. An empty label is grey.

    Parameters
    ----------
    images
        With a label each.
    xy
        Their coordinates, (n, 2).
    about
        Text above the map.
    progress
        Called as `progress(done, total)`.
    """
    assert images.labels is not None
    colours = {label: colour(number) for number, label in enumerate(images.classes)}
    low, high = xy.min(axis=0), xy.max(axis=0)
    spots = np.round(100 * (xy - low) / np.maximum(high - low, 1e-12), 2)
    points = []
    for row, ((x, y), label) in enumerate(zip(spots.tolist(), images.labels.tolist(), strict=True)):
        shown = colours.get(label, "grey"), label or NO_CLASS, words.short(images.paths[row])
        points.append(Dot(x, 100 - y, *shown, thumbnail(images, row, SIDE)))
        if progress is not None:
            progress(row + 1, len(images))
    keys = [*colours.items(), *([(NO_CLASS, "grey")] if "" in images.labels else [])]
    return seal(rendered("map.html", points=points, keys=keys, about=about), "map")


NO_CLASS = "no class"
