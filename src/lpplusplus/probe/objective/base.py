"""The loss, and what a solver may ask of it, whatever its coordinates: a point, and what is known there."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from ..._core import backend
from ..._core.backend import Array
from ..._core.rows import Rows, everywhere, parts
from ..._core.softmax import HARMLESS, softmax
from ..._core.threads import ALONE, Team, lazy
from .spectrum import Spectrum
from .support import Support


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


class DistanceBound:
    """Length of each class's path, and a bound on the support's logits that grows with it.

    `reading` has K + 1 entries: the distance travelled by each class's weights and intercept, and last the sum over
    steps of the largest distance. Over any part of the path, no class moves further than its entry grows.
    """

    def __init__(self, support: Support) -> None:
        self.reading = backend.zeros(support.F, (support.n_classes + 1,), dtype=backend.wide_dtype(support.F))
        self._support = support
        self._bounded: tuple[Point, float, float] | None = None  # A point, the last entry there, a bound on its logits.

    def advance(self, step: Array) -> None:
        """Add a step's length for each class, (K,)."""
        lengths = backend.namespace(step).abs(backend.cast(step, self.reading.dtype))
        self.reading[:-1] += lengths
        self.reading[-1] += lengths.max()

    def note_bound(self, point: Point, bound: float) -> None:
        """No logit of the support exceeds `bound` in absolute value at `point`."""
        self._bounded = point, float(self.reading[-1]), bound

    def forget_bound(self) -> None:
        """Drop the bound: it may not hold at the new point."""
        self._bounded = None

    def logit_bound(self, point: Point) -> float | None:
        """A bound on the support's logits, so that `softmax` need not look for the largest; None if not known."""
        if self._bounded is None or self._bounded[0] is not point:
            return None
        _, reading, bound = self._bounded
        bound += (float(self.reading[-1]) - reading) * self._longest
        return bound if bound < HARMLESS else None

    @lazy
    def _longest(self) -> float:
        """Length of the longest embedding, at least 1: the most that a logit changes when its class moves by 1."""
        F, roots = self._support.F, self._support.roots
        return max(1.0, math.sqrt(max(everywhere(F, _longest_square, roots))))


def _longest_square(F: Array | Rows, roots: Array | None) -> float:
    squares = backend.namespace(F).concat([backend.squared_lengths(F[rows, :]) for rows in parts(F)])
    return float((squares if roots is None else squares / roots**2).max())


class Objective(ABC):
    """L on one support, in coordinates of its own, with everything that a solver needs.

    A solver moves a `Point` with `descend` (or `jump`) and does not know whether the coordinates are weights or
    coefficients of support images; see `primal` and `span` for the two exact forms.
    """

    def __init__(self, support: Support, *, team: Team = ALONE, freeze: bool = True) -> None:
        self.support = support
        self.team = team
        self.distance_bound: DistanceBound | None = None
        self._alive: Array | None = None
        xp = backend.namespace(support.F)
        alive = support.counts > 0
        if freeze and not bool(xp.all(alive)):
            self._alive = backend.cast(alive, support.F.dtype)

    @abstractmethod
    def at(self, weights: Coefficients) -> Point:
        """The point that stands for `weights`."""

    @abstractmethod
    def weights(self, point: Point) -> Coefficients:
        """The classifier that `point` stands for; the inverse of `at`."""

    @abstractmethod
    def watch(self, X: Array) -> Watch:
        """Follow the logits of further images `X` (n, D)."""

    @property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Leading eigenpairs of FᵀF/N; the vectors in the objective's own coordinates."""

    @abstractmethod
    def damp(self, gradient: Array, strength: Array) -> None:
        """Divide class k of `gradient` by 1 + strength_k λ_d along each eigenvector d of FᵀF/N, in place.

        Exact along the vectors of `spectrum`; all other directions share its last eigenvalue.
        """

    @abstractmethod
    def evaluate(
        self, point: Point, *, w: bool = False, alpha: bool = False, kappa: bool = False, factor: float = 1.0
    ) -> Evaluation:
        """Loss at `point` and the gradients asked for; the intercept's comes with that of `w`.

        Gradients are multiplied by `factor`. That costs nothing here, and gives a step of known length at once.
        """

    @abstractmethod
    def _add_text(self, v: Array, alpha: Array) -> None:
        """v_k += α_k t_k in the objective's coordinates, in place."""

    @lazy
    def lambda_max(self) -> float:
        """Largest eigenvalue of FᵀF (not divided by N)."""
        return float(self.spectrum.values[0]) * self.support.total

    @lazy
    def score_energy(self) -> Array:
        """mean_i (f_i·t_k)² for each class, (K,)."""
        if self.support.text is None:
            raise ValueError("the text block has no curvature without text")
        return self._energy()

    @abstractmethod
    def _energy(self) -> Array:
        """`score_energy`, if there is text."""

    def descend(
        self,
        point: Point,
        *,
        w: tuple[Array, float] | None = None,
        alpha: Array | None = None,
        intercept: Array | None = None,
    ) -> None:
        """Subtract steps from `point`, in place.

        `w` is a gradient and a factor; their product is the step, and the gradient is overwritten. `alpha` and
        `intercept` are the steps themselves.
        """
        if w is not None:
            self._descend_w(point, *w)
        if alpha is not None:
            assert point.alpha is not None
            point.alpha = point.alpha - alpha
            self._add_text(point.v, -alpha)
            self._note_travel(alpha)
        if intercept is not None:
            point.intercept = point.intercept - intercept
            self._note_travel(intercept)

    def _descend_w(self, point: Point, gradient: Array, length: float) -> None:
        if length != 1:
            gradient *= length
        point.v -= gradient
        if self.distance_bound is not None:
            squares = self._squared_length_(gradient)
            xp = backend.namespace(gradient)
            self._note_travel(xp.sqrt(xp.maximum(squares, 0 * squares)))

    def jump(self, point: Point, to: Point) -> None:
        """Move `point` anywhere, in place."""
        point.assign(to)
        if self.distance_bound is not None:
            self.distance_bound.reading += float("inf")

    def retreat(self, point: Point, to: Point) -> None:
        """Move `point` back to where it was before its last step, in place.

        The bound has counted the step and need not count the way back. A bound on logits noted after the step does
        not hold here.
        """
        point.assign(to)
        if self.distance_bound is not None:
            self.distance_bound.forget_bound()

    def start_distance_bound(self) -> Array:
        """Measure from now on how far each class's weights travel; the returned `DistanceBound.reading` is updated."""
        self.distance_bound = DistanceBound(self.support)
        return self.distance_bound.reading

    def _logit_bound(self, point: Point) -> float | None:
        return None if self.distance_bound is None else self.distance_bound.logit_bound(point)

    def _note_bound(self, point: Point, bound: float) -> None:
        if self.distance_bound is not None:
            self.distance_bound.note_bound(point, bound)

    def _note_travel(self, step: Array) -> None:
        if self.distance_bound is not None:
            self.distance_bound.advance(step)

    @abstractmethod
    def _squared_length_(self, step: Array) -> Array:
        """A step's squared length, per class, (K,); the step may be overwritten."""

    def _freeze(self, *gradients: Array | None) -> None:
        """Zero the columns of classes without examples."""
        if self._alive is not None:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= self._alive


def own_entries(y: Array, n_classes: int) -> Array:
    """Positions of the right classes' entries in a flattened (n, K) array."""
    return backend.arange(y, y.shape[0]) * n_classes + y


def cross_entropy(z: Array, own: Array, out: Array, factor: float = 1.0, bound: float | None = None) -> Array:
    """-ln p of the right class for each row of logits; `factor` times the probabilities go to `out`, which may be `z`.

    `own` comes from `own_entries`; `bound` is `softmax`'s.
    """
    chosen = z.reshape(-1)[own]
    return softmax(z, out, factor, bound)[:, 0] - chosen


def residual(
    z: Array, own: Array, out: Array, factor: float = 1.0, bound: float | None = None, roots: Array | None = None
) -> float:
    """Sum of the rows' losses (paper eq. 3); `factor` times R = P - Y goes to `out`, which may be `z`.

    With `roots`, rows have weights: losses count ω_i times, and the rows of R are multiplied by √ω_i.
    """
    losses = cross_entropy(z, own, out, factor, bound)
    out.reshape(-1)[own] -= factor
    if roots is not None:
        losses *= roots**2
        out *= roots[:, None]
    return float(losses.sum(dtype=backend.wide_dtype(z)))


def sum_of_kappa(r: Array, roots: Array | None = None) -> Array:
    """Σ_i p_ik (1 - p_ik) for each class from R = P - Y: it is |r| - r², for the true class and for the others."""
    xp = backend.namespace(r)
    sizes = xp.abs(r) if roots is None else xp.abs(r) * roots[:, None]
    return xp.sum(sizes, axis=0) - backend.column_dots(r, r)
