"""Few shots from many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .class_names import SourceError


def sample_shots(labels: ArrayLike, shots: int, seed: int = 0, *, allow_fewer: bool = False) -> NDArray[np.intp]:
    """Choose `shots` images a class, without replacement.

    The choice depends on the order of the images, on their labels and on `seed`, nothing else. Within a seed it is
    nested: the images of 4 shots are among those of 8.

    Parameters
    ----------
    labels
        Label of each image.
    shots
        How many of each class.
    seed
        Another seed, another choice.
    allow_fewer
        Take all of a class that has fewer, instead of an error that names it.

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
        more = f" and {len(short) - 5} more" if len(short) > 5 else ""
        raise SourceError(f"fewer than {shots} images in {', '.join(short[:5])}{more}: add images or take fewer shots.")
    # Shuffle all, then a stable sort by class: each class keeps its shuffled order, whatever `shots` is.
    shuffled = np.random.default_rng(seed).permutation(len(array))
    grouped = shuffled[np.argsort(index.reshape(-1)[shuffled], kind="stable")]
    rank = np.arange(len(array)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(grouped[rank < shots])
