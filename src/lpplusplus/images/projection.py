"""A map of embeddings: two coordinates for each, so that images that look alike to the encoder are close.

`python -m lpplusplus.images.projection` reads rows from an `.npy` file and writes their UMAP to another, with progress
on standard error. It is for a server that must keep answering, and keeps UMAP's compiler out of its memory.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .._core.backend import unit_rows
from .._core.parameters import Progress
from .errors import SourceError

FEWEST = 3
"""Smallest number of images on a map."""
FEWEST_FOR_UMAP = 16
"""UMAP looks at 15 neighbours of each image."""
MOST = 2000
"""Images on a map by default."""


def colour(number: int) -> str:
    """A colour for the n-th class, as different from the others as possible, readable on light and dark."""
    return f"hsl({(137.508 * number) % 360:.0f} 70% {45 + 12 * (number % 2)}%)"


def pca(rows: NDArray[Any]) -> NDArray[np.float64]:
    """The two directions in which rows, (n, D), differ most: (n, 2)."""
    F = np.asarray(unit_rows(rows), np.float64)
    F = F - F.mean(axis=0)
    across = len(F) < F.shape[1]  # The smaller of the two Gram matrices is enough.
    square = F @ F.T if across else F.T @ F
    values, vectors = scipy.linalg.eigh(square, subset_by_index=[len(square) - 2, len(square) - 1])
    vectors = vectors[:, ::-1]
    found = vectors * np.sqrt(np.maximum(values[::-1], 0)) if across else F @ vectors
    # Always choose the same sign, so that the map does not flip.
    return np.asarray(found * np.where(-found.min(axis=0) > found.max(axis=0), -1.0, 1.0))


def has_umap() -> bool:
    """Whether `umap-learn` is installed; it is not imported."""
    return find_spec("umap") is not None


def umap(rows: NDArray[Any], progress: Progress | None = None) -> NDArray[np.float64]:
    """UMAP (McInnes, Healy and Melville, 2018) of rows, (n, D): (n, 2). Neighbours stay neighbours; the same each time.

    Its first call in a process takes up to half a minute, since it is compiled.
    """
    if not has_umap():
        raise ImportError("this needs umap-learn: pip install umap-learn")
    if len(rows) < FEWEST_FOR_UMAP:
        raise SourceError(f"UMAP needs {FEWEST_FOR_UMAP} images or more, and there are {len(rows)}: use PCA.")
    from umap import UMAP

    F = np.asarray(unit_rows(rows), np.float32)
    shown = {"disable": progress is None, "file": _Bar(progress), "bar_format": "{n_fmt} {total_fmt}"}
    return np.asarray(UMAP(random_state=0, n_jobs=1, tqdm_kwds=shown).fit_transform(F), np.float64)


class _Bar:
    """A file for tqdm to write to; lines such as "12 500" become calls of `progress`."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def write(self, text: str) -> None:
        numbers = text.split()
        if self._progress is not None and len(numbers) == 2 and all(map(str.isdigit, numbers)):
            self._progress(int(numbers[0]), int(numbers[1]))

    def flush(self) -> None:
        pass


if __name__ == "__main__":
    given = np.load(sys.stdin.buffer, allow_pickle=False)
    made = umap(given, lambda done, total: print(done, total, file=sys.stderr, flush=True))
    np.save(sys.stdout.buffer, made, allow_pickle=False)
