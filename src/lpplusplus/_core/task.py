"""A few-shot task: what `fit` was given, once it has been checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import backend
from .backend import Array
from .lazy import lazy


@dataclass(frozen=True)
class Task:
    """Support, class names and validation data in working precision, all on one device."""

    X: Any
    """(N, D) support embeddings, not yet normalised; the mean of an image's views where it has several. `Rows`, if they
    lie in a file and the method reads it block by block."""
    y: Array
    """(N,) class indices."""
    n_classes: int
    text: Array | None
    """(K, D) unit class-name embeddings; the mean of a class's prompts where it has several."""
    X_val: Array | None
    y_val: Array | None
    views: Array | None = None
    """(N, V, D) embeddings of V views of each image, where they were given."""
    prompts: Array | None = None
    """(P, K, D) unit embeddings of each class's prompts, where there are several; zero where a class has fewer."""
    weights: Array | None = None
    """(N,) how often each image counts, where that is not once; all are positive."""
    unlabelled: Array | None = None
    """(n, D) embeddings without labels, not yet normalised."""
    means: int = 0
    """How many of the last rows of the support are means of images, which tell nothing of how images scatter."""

    @lazy
    def fewest_shots(self) -> int:
        """Number of examples of the smallest class, not counting classes without any.

        >>> Task(np.eye(3), np.array([0, 2, 2]), 3, None, None, None).fewest_shots
        1
        """
        counts = np.bincount(backend.to_numpy(self.y))
        return int(counts[counts > 0].min())

    @property
    def least_weight(self) -> int:
        """`fewest_shots`, with each example as often as it counts; at least 1."""
        if self.weights is None:
            return self.fewest_shots
        totals = np.bincount(backend.to_numpy(self.y), backend.to_numpy(self.weights))
        return max(1, round(float(totals[totals > 0].min())))
