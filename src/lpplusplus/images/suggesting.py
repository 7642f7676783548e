"""Which photos to label next: balanced over the predicted classes, and unlike the labelled photos."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.backend import unit_rows
from .answers import Answers, positions
from .embeddings import Embeddings

SURE = 0.9
"""From this probability on, only one class is named as the guess."""


@dataclass(frozen=True)
class Suggestion:
    """A photo worth labelling."""

    path: str
    guess: str
    probability: float
    second: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


def choose(
    rows: NDArray[Any],
    probabilities: NDArray[Any],
    labelled: NDArray[Any],
    labels: NDArray[np.intp],
    count: int,
) -> list[int]:
    """Rows to label next, the most useful first.

    Next comes the class with the fewest photos, labelled or chosen, among the classes that are guessed for any photo.
    Of its photos, take the one farthest from all labelled and chosen ones, weighted by how typical it is (photos of
    nothing are far from everything, too). Choosing the most uncertain photos would unbalance the classes; on embeddings
    like CLIP's that is worse than a random choice.

    Parameters
    ----------
    rows
        (n, D) embeddings to choose from.
    probabilities
        (n, K) of each class.
    labelled, labels
        Embeddings and class positions of the labelled photos; there may be none.
    count
        How many to choose.
    """
    F = np.asarray(unit_rows(np.asarray(rows, np.float32)))
    guess = probabilities.argmax(axis=1)
    have = np.bincount(labels, minlength=probabilities.shape[1]).astype(float)
    typical = F @ F.mean(axis=0)
    nearest = np.full(len(F), -1.0)
    if len(labelled):
        nearest = (F @ np.asarray(unit_rows(np.asarray(labelled, np.float32))).T).max(axis=1)
    for k in np.unique(guess):
        own = guess == k
        typical[own] = F[own] @ F[own].mean(axis=0)
    free = np.ones(len(F), bool)
    chosen: list[int] = []
    while len(chosen) < min(count, len(F)):
        left = np.unique(guess[free])
        wanted = left[np.argmin(have[left])]
        candidates = np.flatnonzero(free & (guess == wanted))
        best = int(candidates[np.argmax(typical[candidates] - nearest[candidates])])
        chosen.append(best)
        free[best] = False
        have[wanted] += 1
        nearest = np.maximum(nearest, F @ F[best])
    return chosen


def suggestions(said: Answers, support: Embeddings | None, count: int) -> list[Suggestion]:
    """The choice of `choose`, with guesses and reasons; `support` are the labelled photos, if they are there."""
    labelled, labels = said.images.rows[:0], np.empty(0, np.intp)
    if support is not None:
        labelled, labels = support.rows, positions(support, said.classes)
    told, have, order = [], np.bincount(labels, minlength=len(said.classes)), said.order
    for row in choose(said.images.rows, said.probabilities, labelled, labels, count):
        first, second = order[row, :2]
        guess, other, chance = said.classes[first], said.classes[second], float(said.probabilities[row, first])
        why = f"{guess} has {have[first]} photo{'' if have[first] == 1 else 's'}"
        if not len(labels):  # Saved without its photos: how many each class has is not known.
            why = f"it looks like {guess}"
        why += "" if chance >= SURE else f"; it may be {other}"
        have[first] += 1
        told.append(Suggestion(said.images.paths[row], guess, round(chance, 4), other, why))
    return told


def already_there(found: Embeddings, labelled: Embeddings) -> list[Suggestion]:
    """Photos that are labelled already, with that label as the guess: they add nothing."""
    assert labelled.labels is not None
    known = dict(zip(labelled.digests(), labelled.labels.tolist(), strict=True))
    told = [(path, known[digest]) for path, digest in zip(found.paths, found.digests(), strict=True) if digest in known]
    return [Suggestion(path, label, 1.0, label, f"the same photo is in {label} already") for path, label in told]
