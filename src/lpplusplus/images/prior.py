"""What is known of the photos that are asked about: which classes they show, how often, and what is a kind of what."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SourceError, shown
from .sources.class_names import listed

NOISE = 1.25
"""How many times what chance explains is taken off a difference in frequencies."""
FEWEST = 8
"""Photos per class that a classifier must have left out to tell frequencies from its own mistakes."""
STEPS = 300
TRUST = 0.1
"""Weight of the frequencies of the training against the estimate."""


def restricted(probabilities: NDArray[Any], classes: Sequence[str], only: Sequence[str]) -> NDArray[Any]:
    """Probabilities given that the answer is one of `only`.

    >>> restricted(np.array([[0.5, 0.3, 0.2]]), ["ant", "bee", "cat"], ["bee", "cat"]).tolist()
    [[0.0, 0.6, 0.4]]
    """
    _check_known(only, classes, "only")
    kept = np.isin(classes, list(only))
    part = np.where(kept, np.maximum(probabilities, np.finfo(probabilities.dtype).tiny), 0)
    return np.asarray(part / part.sum(axis=1, keepdims=True))


def reweighted(probabilities: NDArray[Any], frequencies: NDArray[Any], trained: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of photos in which the classes have these frequencies, and not those of the training.

    >>> reweighted(np.array([[0.5, 0.5]]), np.array([0.9, 0.1]), np.array([0.5, 0.5])).tolist()
    [[0.9, 0.1]]
    """
    part = np.maximum(probabilities, np.finfo(probabilities.dtype).tiny) * (frequencies / trained)
    return np.asarray(part / part.sum(axis=1, keepdims=True))


def estimated(
    probabilities: NDArray[Any], left_out: NDArray[Any], truth: NDArray[np.intp], trained: NDArray[Any]
) -> NDArray[np.float64]:
    """Frequencies of the classes in photos without labels, (K,).

    The mean answer is a mix of the mean answers about photos of each class, which left-out photos tell. EM finds the
    likeliest mix (Saerens et al. 2002, with the classifier's mistakes taken into account). It is believed only as far
    as the mean answer differs from that about left-out photos by more than chance (Stein's rule). So photos in
    which all classes are as frequent as in the training get the same answers as before.

    Parameters
    ----------
    probabilities
        (n, K) answers about the photos.
    left_out, truth
        (M, K) answers about training photos by classifiers that had not seen them, and their classes.
    trained
        (K,) frequencies in the training.
    """
    K = probabilities.shape[1]
    counts = np.bincount(truth, minlength=K)
    if counts.min() < FEWEST:
        raise SourceError(
            f"frequencies cannot be told from mistakes: the classifier has left out {counts.min()} photos of a class, "
            f"and {FEWEST} of each are needed. Train with more photos, or give the frequencies yourself."
        )
    by_class = np.stack([left_out[truth == k].mean(axis=0) for k in range(K)])
    weight = (trained / counts)[truth]
    usual, found = trained @ by_class, probabilities.mean(axis=0)
    variance = weight**2 @ (left_out - by_class[truth]) ** 2 + probabilities.var(axis=0) / len(probabilities)
    distance = float(((found - usual) ** 2 / np.maximum(variance, 1e-30)).sum())
    believed = max(0.0, 1 - NOISE * K / max(distance, 1e-30))
    mix = trained.astype(float)
    for _ in range(STEPS if believed else 0):
        mix = mix * (by_class @ (found / (mix @ by_class)))
        mix = (mix / mix.sum() + TRUST * trained) / (1 + TRUST)
    return np.asarray(believed * mix + (1 - believed) * trained)


def read_counts(path: Path) -> dict[str, float]:
    """How frequent each class is, from a CSV file with a class and a number in each line."""
    pairs = _pairs(path, "a class and how frequent it is, such as cat,120", numbers=True)
    return {label: float(count) for label, count in pairs.items()}


def read_parents(path: Path) -> dict[str, str]:
    """What each class is a kind of, from a CSV file with a class and its parent in each line; or a manifest."""
    return _pairs(path, "a class and what it is a kind of, such as spaniel,dog")


def frequencies(counts: Mapping[str, float], classes: Sequence[str]) -> NDArray[np.float64]:
    """(K,) The part of each class; one that is not named is not there, as far as one can be sure."""
    _check_known(list(counts), classes, "prior")
    values = np.array([counts.get(label, 0.0) for label in classes], float)
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        told = listed([str(value) for value in counts.values()])
        raise SourceError(f"prior must have numbers of 0 or more, and one above 0: got {told}.")
    return np.asarray(values / values.sum())


@dataclass(frozen=True)
class Kinds:
    """What is a kind of what: the parent of each class, and of parents.

    >>> kinds = Kinds({"spaniel": "dog", "poodle": "dog", "dog": "animal"})
    >>> kinds.above("spaniel")
    ['dog', 'animal']
    >>> kinds.back_off({"spaniel": 0.5, "poodle": 0.4, "rose": 0.1}, 0.8)
    ('dog', 0.9)
    """

    parents: Mapping[str, str]

    def __post_init__(self) -> None:
        for label in self.parents:
            if label in self.above(label):
                raise SourceError(f"{shown(label)} is a kind of itself: see the list of parents.")

    def above(self, label: str) -> list[str]:
        """Its parent, the parent of that, and so on."""
        found: list[str] = []
        while label in self.parents and self.parents[label] not in found:
            label = self.parents[label]
            found.append(label)
        return found

    def sums(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """Probabilities of all parents, the likeliest first."""
        sums: dict[str, float] = {}
        for label, probability in probabilities.items():
            for name in self.above(label):
                sums[name] = sums.get(name, probabilities.get(name, 0.0)) + probability
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def back_off(self, probabilities: Mapping[str, float], sure: float) -> tuple[str, float]:
        """The likeliest class, or the first of its parents that is as probable as `sure`; else the last one."""
        best = max(probabilities, key=probabilities.__getitem__)
        sums = {**probabilities, **self.sums(probabilities)}
        chain = [best, *self.above(best)]
        answer = next((name for name in chain if sums[name] >= sure), chain[-1])
        return answer, round(sums[answer], 9)


def _check_known(labels: Sequence[str], classes: Sequence[str], name: str) -> None:
    unknown = [label for label in labels if label not in classes]
    if unknown or not labels:
        what = f"{name} has {listed([shown(str(label)) for label in unknown])}" if unknown else f"{name} is empty"
        raise SourceError(f"{what}: this classifier knows {listed(list(classes))}.")


def _lines(path: Path) -> list[list[str]]:
    try:
        return list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path} cannot be read as CSV ({error}).") from error


def _pairs(path: Path, what: str, *, numbers: bool = False) -> dict[str, str]:
    """Two columns of a CSV file: the first two, or those that its first line calls label and parent or count."""
    lines = _lines(path)
    columns = _columns(lines[0] if lines else [])
    head, places = (0, (0, 1)) if columns is None else (1, columns)
    found: dict[str, str] = {}
    for number, cells in enumerate(lines[head:], 1 + head):
        label, value = ("".join(cells[place : place + 1]).strip() for place in places)
        if not label + value or not (value or numbers):
            continue  # A class may have no parent.
        if not label or (numbers and not _is_number(value)):
            raise SourceError(f"{path}, line {number}: {shown(','.join(cells))} should be {what}.")
        if found.setdefault(label, value) != value:
            raise SourceError(f"{path}, line {number}: {shown(label)} has {shown(found[label])} in an earlier line.")
    if not found:
        raise SourceError(f"{path} is empty: each line has {what}.")
    return found


def _columns(head: list[str]) -> tuple[int, int] | None:
    """The places of label and parent or count, if the first line names them."""
    names = [cell.strip().lower() for cell in head]
    second = next((name for name in ("parent", "count") if name in names), None)
    return (names.index("label"), names.index(second)) if second and "label" in names else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
