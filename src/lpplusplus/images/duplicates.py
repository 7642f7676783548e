"""Photos that are the same, or look so to the encoder.

`duplicates` are within what is trained on, `leaked` are in what is measured on and in what is trained
on, and those that are given again are `already_there`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._core.backend import unit_rows
from .embeddings import Embeddings

SAME_IMAGE = 0.98
"""From this likeness on, two images count as the same image."""
FEW_ENOUGH = 50_000
"""Largest number of images of which all pairs are compared."""


@dataclass(frozen=True)
class Duplicate:
    """Two images that look the same to the encoder."""

    first: str
    first_label: str
    second: str
    second_label: str
    likeness: float
    """1 for equal embeddings, 0 for embeddings as far apart as those of two images are on average."""
    rows: tuple[int, int] = field(default=(-1, -1), repr=False, compare=False)
    """Paths are not unique."""


def duplicates(
    rows: NDArray[np.float32], labels: NDArray[np.str_], paths: Sequence[str], most: int = 10, *, within: bool = False
) -> list[Duplicate]:
    """Pairs of images of different classes, or `within` one, whose embeddings are almost the same, the closest first.

    With more than `FEW_ENOUGH` images nothing is compared.
    """
    found: list[tuple[float, int, int]] = []
    for likeness, i, j in _alike(rows, labels, within):
        closest = np.argsort(-likeness, kind="stable")[:most]
        found += zip(likeness[closest].tolist(), i[closest].tolist(), j[closest].tolist(), strict=True)
        found = sorted(found, key=lambda pair: -pair[0])[:most]
    return [
        Duplicate(paths[i], str(labels[i]), paths[j], str(labels[j]), min(1.0, round(c, 4)), (i, j))
        for c, i, j in found
    ]


def leaked(support: Embeddings, images: Embeddings) -> int:
    """How many of the images are in the support: with the same content, or the same embedding."""
    digests, rows = set(support.digests()), {row.tobytes() for row in support.rows}
    pairs = zip(images.digests(), images.rows, strict=True)
    return sum(digest in digests or row.tobytes() in rows for digest, row in pairs)


def first_of_equals(rows: NDArray[np.float32], labels: NDArray[np.str_]) -> NDArray[np.intp]:
    """(n,) For each image, the first of its class that looks the same; its own number if no earlier one does.

    Examples
    --------
    >>> rows = np.array([[1.0, 0], [0, 1.0], [0, 1.0], [0, 1.0]])
    >>> first_of_equals(rows, np.array(["a", "a", "a", "b"]))
    array([0, 1, 1, 3])
    """
    first = np.arange(len(rows))
    for _, i, j in _alike(rows, labels, within=True):
        np.minimum.at(first, j, i)
    while not np.array_equal(first, first[first]):  # Alike to one that is alike to another.
        first = first[first]
    return first


def _alike(
    rows: NDArray[np.float32], labels: NDArray[np.str_], within: bool
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp]]]:
    """Likeness and numbers i < j of all pairs that look the same, in parts.

    Distances are compared with the mean distance of two images, since in some models all embeddings are close.
    """
    if len(rows) > FEW_ENOUGH:
        return
    F = unit_rows(rows)
    mean = F.mean(axis=0, dtype=np.float64)
    typical = max(1 - float(mean @ mean), 1e-6)  # Half the mean squared distance of two unit vectors.
    for own in [np.flatnonzero(labels == label) for label in np.unique(labels)] if within else [np.arange(len(F))]:
        height = max(1, 2**22 // len(own))
        for low in range(0, len(own), height):
            likeness = 1 - (1 - F[own[low : low + height]] @ F[own].T) / typical
            i, j = np.nonzero(likeness >= SAME_IMAGE)
            meant = (i + low < j) & (within | (labels[own[i + low]] != labels[own[j]]))
            i, j = i[meant], j[meant]
            yield likeness[i, j], own[i + low], own[j]
