"""A solver's position, the classifier there, and its loss and gradients."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from ..._core import backend
from ..._core.backend import Array
from ..._core.threads import ALONE, Team


@dataclass(slots=True)
class Point:
    """A solver's position: coordinates of the effective weights, text weights, intercept.

    `v` is moved in place; `alpha` and `intercept` are replaced, never written to, so that points can share them.
    """

    v: Array
    alpha: Array | None
    intercept: Array | None

    def copy(self) -> "Point":
        """An independent copy."""
        return Point(backend.copy(self.v), self.alpha, self.intercept)

    def assign(self, other: "Point") -> None:
        """Move to `other` without allocating anything large."""
        self.v[...] = other.v
        self.alpha, self.intercept = other.alpha, other.intercept


class Coefficients(NamedTuple):
    """A classifier in the paper's terms: prototypes, text weights, intercept."""

    W: Array
    alpha: Array | None
    intercept: Array | None

    def effective(self, text: Array | None) -> Array:
        """w_k + α_k t_k, (K, D)."""
        return self.W if text is None else self.W + self.alpha[:, None] * text  # type: ignore[index]


class Evaluation(NamedTuple):
    """Loss and gradients at a point. The arrays belong to the objective; its next evaluation overwrites them."""

    loss: float
    w: Array | None = None
    alpha: Array | None = None
    intercept: Array | None = None
    kappa: Array | None = None
    """κ_k = mean_i p_ik (1 - p_ik), the curvature of the softmax for class k."""


class Watch(ABC):
    """Images `X` outside the loss whose logits are asked for along the path."""

    def __init__(self, X: Array) -> None:
        self.norms = backend.namespace(X).sqrt(backend.row_dots(X, X))
        """Length of each image's embedding, (n,)."""

    def __len__(self) -> int:
        return int(self.norms.shape[0])

    @abstractmethod
    def logits(self, point: "Point", rows: Array | slice = slice(None), team: Team = ALONE) -> Array:
        """Logits of the chosen images at `point`, a new (n, K) array."""
