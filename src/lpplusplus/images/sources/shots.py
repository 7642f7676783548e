"""A few images per class, chosen from many."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SourceError
from .class_names import listed


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
