"""Which images to hold out: stratified folds for a few examples per class, and some of many."""

from typing import Any

import numpy as np


def assign_folds(y: np.ndarray[Any, Any], n_folds: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A fold number for each example. Folds have equal sizes, up to one example, in total and within each class.

    A class with fewer examples than folds is held out in some of the folds only. No class is held out as a whole: the
    only example of a class is in no fold, its number is -1. Classes are assigned in the order in which they first
    appear, so that neither their names nor the order of `classes=` matters.

    >>> assign_folds(np.array([0, 0, 1, 1]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    >>> assign_folds(np.array([8, 8, 5, 5]), 4, np.random.default_rng(0)).tolist()
    [1, 0, 2, 3]
    >>> assign_folds(np.array([0, 1, 1]), 4, np.random.default_rng(0)).tolist()
    [-1, 0, 1]
    """
    _, first, label, count = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((rng.permutation(len(y)), first[label]))
    order = order[count[label[order]] > 1]
    folds = np.full(len(y), -1)
    folds[order] = np.arange(len(order)) % n_folds
    return folds


def can_be_held_out(y: np.ndarray[Any, Any]) -> bool:
    """Whether half of the classes have two examples or more: those held out must stand for all classes.

    >>> can_be_held_out(np.array([0, 1, 1])), can_be_held_out(np.array([0, 1, 2, 2]))
    (True, False)
    """
    counts = np.unique(y, return_counts=True)[1]
    return bool(2 * np.count_nonzero(counts > 1) >= len(counts))


def evenly(rows: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """At most `most` of `rows`, evenly spaced, since rows may be sorted by class.

    >>> evenly(np.arange(10), 4).tolist()
    [0, 2, 5, 7]
    """
    return rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most]


def first_of_each_class(y: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Rows of the first `count` images of each class, ascending."""
    order = np.argsort(y, kind="stable")
    before = np.searchsorted(y[order], y[order])  # Images of smaller classes.
    return np.sort(order[np.arange(len(y)) - before < count])


def splits(folds: np.ndarray[Any, Any], most: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Rows to hold out and rows that remain, fold by fold, until `most` rows have been held out.

    >>> [out.tolist() for out, rest in splits(np.array([0, 1, -1, 1, 2]), 3)]
    [[0], [1, 3]]
    """
    found: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for fold in np.unique(folds[folds >= 0]):
        if sum(len(out) for out, _ in found) < most:
            found.append((evenly(np.flatnonzero(folds == fold), most), np.flatnonzero(folds != fold)))
    return found
