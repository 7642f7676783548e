"""How accuracy grows with the number of examples: of class names alone, of examples alone, and of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .gathering import Gathered
from .methods import ZeroShot
from .probe import LPPlusPlus
from .sources import sample_shots

CHOICES = 5
"""Choices of examples that an accuracy is averaged over, where there is a choice."""


def learning_curve(
    support: Gathered,
    text: NDArray[np.float32],
    test: Gathered,
    shots: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, list[float]]:
    """Test accuracy, one for each number of shots, with examples chosen from `support`.

    Parameters
    ----------
    support, test
        Embedded images with labels.
    text
        Embeddings of the class names, in the order of `support.classes`.
    shots
        Examples a class.
    progress
        Told `(done, total)` after each number of shots.
    """
    assert support.labels is not None
    methods = {
        "class names alone (zero-shot)": ZeroShot(),
        "examples alone (visual probe)": LPPlusPlus(alpha="none"),
        "both (LP++)": LPPlusPlus(),
    }
    most = np.unique(support.labels, return_counts=True)[1].max()
    curve: dict[str, list[float]] = {name: [] for name in methods}
    for done, count in enumerate(shots, 1):
        choices = [sample_shots(support.labels, count, seed) for seed in range(CHOICES if count < most else 1)]
        for name, method in methods.items():
            scores = []
            for rows in choices:
                method.fit(support.rows[rows], support.labels[rows], text=text, classes=list(support.classes))
                scores.append(float(method.score(test.rows, test.labels)))
            curve[name].append(float(np.mean(scores)))
        if progress is not None:
            progress(done, len(shots))
    return curve
