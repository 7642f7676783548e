"""How accuracy grows with the number of examples: of class names alone, of examples alone, and of both."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from .._core.progress import Progress
from ..methods.zero_shot import ZeroShot
from ..probe.estimator import LPPlusPlus
from .embeddings import Embeddings
from .sources import sample_shots

CHOICES = 5
NAMES, EXAMPLES, BOTH = "class names alone (zero-shot)", "examples alone (visual probe)", "both (LP++)"
"""What is compared."""


def learning_curve(
    support: Embeddings,
    text: NDArray[np.float32] | None,
    test: Embeddings,
    shots: Sequence[int],
    progress: Progress | None = None,
    choices: int = CHOICES,
) -> dict[str, list[float]]:
    """Test accuracy of three methods for each number of shots, with examples chosen from `support`.

    A class that has fewer images gives all it has.

    Parameters
    ----------
    support, test
        Embedded images with labels.
    text
        Embeddings of the class names, in the order of `support.classes`; without them there are only examples.
    shots
        Numbers of examples per class.
    progress
        Called as `progress(done, total)` after each number of shots.
    choices
        Random choices of examples that each accuracy is averaged over, where there are more images than shots.
    """
    assert support.labels is not None
    methods: dict[str, FewShotClassifier] = {NAMES: ZeroShot(), EXAMPLES: LPPlusPlus(alpha="none"), BOTH: LPPlusPlus()}
    if text is None:
        methods = {EXAMPLES: methods[EXAMPLES]}
    known = set(support.labels.tolist())
    with_examples = [label for label in support.classes if label in known]
    most = np.unique(support.labels, return_counts=True)[1].max()
    curve: dict[str, list[float]] = {name: [] for name in methods}
    for done, count in enumerate(shots, 1):
        seeds = range(choices if count < most else 1)
        drawn = [sample_shots(support.labels, count, seed, allow_fewer=True) for seed in seeds]
        for name, method in methods.items():
            scores = []
            by_name = name != EXAMPLES
            classes = support.classes if by_name else with_examples
            for rows in drawn:
                method.fit(support.rows[rows], support.labels[rows], text=text if by_name else None, classes=classes)
                scores.append(float(np.mean(method.predict(test.rows) == test.labels)))
            curve[name].append(float(np.mean(scores)))
        if progress is not None:
            progress(done, len(shots))
    return curve


def held_out_curve(
    support: Embeddings,
    text: NDArray[np.float32] | None,
    folds: NDArray[np.intp],
    progress: Progress | None = None,
) -> tuple[list[int], dict[str, list[float]]]:
    """Numbers of examples per class, and accuracy for each on images that are held out: those of one fold at a time.

    The last number is that of the median class without one fold.
    """
    assert support.labels is not None
    numbers = np.unique(folds[folds >= 0]).tolist()
    counts = np.unique(support.labels[folds != numbers[0]], return_counts=True)[1]
    typical = int(np.median(counts))
    shots = [2**power for power in range(int(np.log2(typical)) + 1) if 2**power < typical]
    curves = []
    for done, fold in enumerate(numbers):
        rest, held = support.subset(folds != fold), support.subset(folds == fold)
        curves.append(learning_curve(rest, text, held, [*shots, int(counts.max())], choices=1))
        if progress is not None:
            progress(done + 1, len(numbers))
    sizes = [int((folds == fold).sum()) for fold in numbers]
    return [*shots, typical], {
        name: np.average([curve[name] for curve in curves], axis=0, weights=sizes).tolist() for name in curves[0]
    }
