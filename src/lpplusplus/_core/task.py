"""A few-shot task: the arguments of `fit`, checked."""

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
    """(N, D) support embeddings, not yet normalised; the mean of an image's views if it has several. `Rows`, if they
    are in a file that the method reads block by block."""
    y: Array
    """(N,) class indices."""
    n_classes: int
    text: Array | None
    """(K, D) unit class-name embeddings; the mean of a class's prompts if it has several."""
    X_val: Array | None
    y_val: Array | None
    views: Array | None = None
    """(N, V, D) embeddings of V views of each image, if given."""
    prompts: Array | None = None
    """(P, K, D) unit embeddings of each class's prompts, if there are several; zeros if a class has fewer."""
    weights: Array | None = None
    """(N,) weights of the images, all positive; None if all are 1."""
    unlabelled: Array | None = None
    """(n, D) embeddings without labels, not yet normalised."""
    means: int = 0
    """Number of last rows of the support that are means of images; they say nothing about the scatter of images."""

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
        """As `fewest_shots`, with the weights of the examples; at least 1."""
        if self.weights is None:
            return self.fewest_shots
        totals = np.bincount(backend.to_numpy(self.y), backend.to_numpy(self.weights))
        return max(1, round(float(totals[totals > 0].min())))
