"""How accuracy grows with the number of examples: of class names alone, of examples alone, and of both."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._core.progress import Progress
from ..methods.zero_shot import ZeroShot
from ..probe.estimator import LPPlusPlus
from .embeddings import Embeddings
from .sources import sample_shots

CHOICES = 5
"""Random choices of examples that each accuracy is averaged over, where there are more images than shots."""


def learning_curve(
    support: Embeddings,
    text: NDArray[np.float32],
    test: Embeddings,
    shots: Sequence[int],
    progress: Progress | None = None,
) -> dict[str, list[float]]:
    """Test accuracy of three methods for each number of shots, with examples chosen from `support`.

    Parameters
    ----------
    support, test
        Embedded images with labels.
    text
        Embeddings of the class names, in the order of `support.classes`.
    shots
        Numbers of examples per class.
    progress
        Called as `progress(done, total)` after each number of shots.
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
