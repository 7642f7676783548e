"""Which images to hold out: stratified folds for a few examples per class, and some of many."""

from typing import Any

import numpy as np


def assign_folds(y: np.ndarray[Any, Any], n_folds: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A fold number for each example. Folds have equal size, give or take one, and so has each class within them.

    A class with fewer examples than folds is held out in some of the folds only, and one with two examples or more
    never as a whole. Classes are dealt out in the order in which they first appear, so that neither their names nor the
    order of `classes=` matters.

    >>> assign_folds(np.array([0, 0, 1, 1]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    >>> assign_folds(np.array([8, 8, 5, 5]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    """
    _, first, label = np.unique(y, return_index=True, return_inverse=True)
    order = np.lexsort((rng.permutation(len(y)), first[label]))
    folds = np.empty(len(y), dtype=np.intp)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


def evenly(rows: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """At most so many of `rows`, from all over: their order may be that of the classes.

    >>> evenly(np.arange(10), 4).tolist()
    [0, 2, 5, 7]
    """
    return rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most]
