"""The objective of LP++ and its conventions, stated here once.

Shapes
    N support images, K classes, D embedding dimensions. `F` (N, D) image embeddings, unit rows unless told otherwise;
    `y` (N,) class indices 0 … K-1; `text` (K, D) unit class-name embeddings t_k; `W` (K, D) visual prototypes w_k;
    `alpha` (K,) text weights α_k; `intercept` (K,) b_k, absent in the paper, present in its released code.
Model (paper eq. 3)
    Logits l_ik = f_i·(w_k + α_k t_k) + b_k, probabilities p_i = softmax(l_i). No temperature: α_k ≈ 50 plays its part.
Loss (paper eq. 4)
    L = -(1/N) Σ_i ln p_i,y(i): the mean over images, without any penalty.
Gradients, with the residual R = P - Y (one-hot Y)
    ∂L/∂W = Rᵀ F / N,   ∂L/∂α_k = (1/N) Σ_i R_ik f_i·t_k = (∂L/∂w_k)·t_k,   ∂L/∂b = (1/N) Σ_i R_i.
Effective weights
    Only v_k = w_k + α_k t_k enters the logits, so v is what is stored and multiplied; α is kept beside it for the
    record and w_k = v_k - α_k t_k is recovered at the end. An α step adds Δα_k t_k to v_k.
Orientation
    Inside the solvers the class axis comes last: coordinates of v are an (M, K) array. M is D where the solver works on
    the weights themselves (`primal`), 2N where it works in the span of the support (`span`).
Frozen classes
    A class without any example has no evidence to move on: its gradients are zero and it keeps its text score α_k t_k.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from .. import _arrays
from .._arrays import Array
from .._spectrum import Spectrum
from .._threads import ALONE, Team


@dataclass(slots=True)
class Point:
    """Where a solver stands: coordinates of the effective weights, text weights, intercept.

    `v` is moved in place; `alpha` and `intercept` are replaced, never written to, so that they can be shared.
    """

    v: Array
    alpha: Array | None
    intercept: Array | None

    def copy(self) -> Point:
        """An independent copy."""
        return Point(_arrays.copy(self.v), self.alpha, self.intercept)

    def assign(self, other: Point) -> None:
        """Move to `other` without allocating anything large."""
        self.v[...] = other.v
        self.alpha, self.intercept = other.alpha, other.intercept


class Evaluation(NamedTuple):
    """Loss and gradients at a point. The arrays belong to the objective, whose next evaluation overwrites them."""

    loss: float
    w: Array | None = None
    alpha: Array | None = None
    intercept: Array | None = None
    spread: Array | None = None
    """κ_k = mean_i p_ik (1 - p_ik), the curvature that the softmax has left for class k."""


class Weights(NamedTuple):
    """A classifier in the paper's own terms."""

    W: Array
    alpha: Array | None
    intercept: Array | None

    def effective(self, text: Array | None) -> Array:
        """w_k + α_k t_k, (K, D)."""
        return self.W if text is None else self.W + self.alpha[:, None] * text  # type: ignore[index]


class Watch(Protocol):
    """Images outside the loss whose logits are asked for along the way."""

    norms: Array
    """Length of each image's embedding, (n,)."""

    def __len__(self) -> int: ...

    def logits(self, point: Point, rows: Array | slice = slice(None), team: Team = ALONE) -> Array:
        """Logits of the chosen images at `point`, a new (n, K) array."""


@dataclass(frozen=True)
class Support:
    """The labelled examples of one task, in working precision.

    `rows` lists the half-open row ranges of `F` and `y` that belong to the task, so that the folds of a
    cross-validation share one array instead of copying most of it four times.
    """

    F: Array
    y: Array
    n_classes: int
    text: Array | None
    rows: tuple[tuple[int, int], ...]
    gram_of_all: Array | None = None
    """F Fᵀ of *all* rows of `F`, where somebody computed it already."""
    moment_of_all: Array | None = None
    """FᵀF of *all* rows of `F`, likewise."""

    @classmethod
    def of(cls, F: Array, y: Array, n_classes: int, text: Array | None) -> Support:
        """All rows of `F`."""
        return cls(F, y, n_classes, text, ((0, F.shape[0]),))

    @cached_property
    def size(self) -> int:
        """Number of examples N."""
        return sum(stop - start for start, stop in self.rows)

    @property
    def dim(self) -> int:
        """Embedding dimension D."""
        return int(self.F.shape[1])

    def chunks(self, team: Team) -> list[tuple[int, int]]:
        """The rows in blocks small enough to hold their logits, and of a number that divides evenly among `team`."""
        most = rows_per_chunk(self.n_classes)
        count = team.size * -(-self.size // (team.size * most))
        height = max(1, -(-self.size // count))
        return [(low, min(low + height, stop)) for start, stop in self.rows for low in range(start, stop, height)]

    @cached_property
    def gathered(self) -> tuple[Array, Array]:
        """The task's own rows as contiguous arrays `F`, `y`."""
        if len(self.rows) == 1:
            ((start, stop),) = self.rows
            return self.F[start:stop, :], self.y[start:stop]
        xp = _arrays.namespace(self.F)
        return (
            xp.concat([self.F[a:b, :] for a, b in self.rows]),
            xp.concat([self.y[a:b] for a, b in self.rows]),
        )

    @cached_property
    def gram(self) -> Array:
        """F Fᵀ of the task's rows, (N, N)."""
        if self.gram_of_all is None:
            F, _ = self.gathered
            return F @ F.T
        xp = _arrays.namespace(self.F)
        return xp.concat([xp.concat([self.gram_of_all[a:b, c:d] for c, d in self.rows], axis=1) for a, b in self.rows])

    @property
    def is_tall(self) -> bool:
        """Whether there are at least as many images as dimensions, and so FᵀF is the smaller Gram matrix."""
        return self.size >= self.dim

    def moment(self, team: Team) -> Array:
        """FᵀF of the task's rows, (D, D)."""
        if self.moment_of_all is None:
            return self._moment(self.rows, team)
        edges = [0, *(edge for ends in self.rows for edge in ends), self.F.shape[0]]
        return self.moment_of_all - self._moment(tuple(zip(edges[::2], edges[1::2], strict=True)), team)

    def _moment(self, rows: tuple[tuple[int, int], ...], team: Team) -> Array:
        def work(worker: int) -> Array:
            blocks = (self.F[a:b, :][team.share(b - a, worker)] for a, b in rows)
            return sum(block.T @ block for block in blocks)

        return sum(team.map(work))

    @cached_property
    def counts(self) -> Array:
        """Examples of each class, (K,) integers."""
        xp = _arrays.namespace(self.y)
        return sum(xp.bincount(self.y[a:b], minlength=self.n_classes) for a, b in self.rows)


class Objective(ABC):
    """L on one support, in coordinates of its own, with all that a solver may ask of it.

    A solver moves a `Point` with `descend` (or `jump`) and never learns whether the coordinates are weights or
    combinations of support images; see `primal` and `span` for the two exact forms.
    """

    def __init__(self, support: Support, *, team: Team = ALONE, freeze: bool = True) -> None:
        self.support = support
        self.team = team
        self.odometer: Array | None = None
        self._bounded: tuple[Point, float, float] | None = None  # A reading of the odometer, a bound on logits then.
        self._alive: Array | None = None
        xp = _arrays.namespace(support.F)
        alive = support.counts > 0
        if freeze and not bool(xp.all(alive)):
            self._alive = _arrays.cast(alive, support.F.dtype)

    @abstractmethod
    def at(self, weights: Weights) -> Point:
        """The point that stands for `weights`."""

    @abstractmethod
    def weights(self, point: Point) -> Weights:
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

        Exact along the vectors of `spectrum`, the other directions sharing its bound.
        """

    @abstractmethod
    def evaluate(
        self, point: Point, *, w: bool = False, alpha: bool = False, spread: bool = False, scale: float = 1.0
    ) -> Evaluation:
        """Loss at `point`, with the gradients asked for; the intercept's comes with that of `w`.

        Gradients are multiplied by `scale`, where it costs nothing: a step whose length is known needs no more work.
        """

    @abstractmethod
    def _add_text(self, v: Array, alpha: Array) -> None:
        """v_k += α_k t_k, in coordinates, in place."""

    @cached_property
    def lambda_max(self) -> float:
        """Largest eigenvalue of FᵀF (not divided by N)."""
        return float(self.spectrum.values[0]) * self.support.size

    @cached_property
    def score_energy(self) -> Array:
        """mean_i (f_i·t_k)² for each class, (K,)."""
        if self.support.text is None:
            raise ValueError("the text block has no curvature without text")
        return self._energy()

    @abstractmethod
    def _energy(self) -> Array:
        """`score_energy`, where there is text."""

    def descend(
        self,
        point: Point,
        *,
        w: tuple[Array, float] | None = None,
        alpha: Array | None = None,
        intercept: Array | None = None,
    ) -> None:
        """Subtract steps from `point`, in place.

        `w` is a gradient in coordinates with a factor that makes it a step (the gradient is overwritten); `alpha` and
        `intercept` are whole steps.
        """
        if w is not None or intercept is not None:
            self._forget()
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
        measure = self.odometer is not None
        if self.team.size == 1 and not measure:
            if length != 1:
                gradient *= length
            point.v -= gradient
            return

        def work(worker: int) -> Array:
            steps, targets = (self._blocks(array, worker) for array in (gradient, point.v))
            for step, target in zip(steps, targets, strict=True):
                if length != 1:
                    step *= length
                target -= step
            return self._squared_length_(*steps) if measure else None

        squares = self.team.map(work)
        if measure:
            xp = _arrays.namespace(gradient)
            total = sum(squares)
            self._note_travel(xp.sqrt(xp.maximum(total, 0 * total)))

    def jump(self, point: Point, to: Point) -> None:
        """Move `point` anywhere, in place."""
        self._forget()
        point.assign(to)
        if self.odometer is not None:
            self.odometer += float("inf")

    def retreat(self, point: Point, to: Point) -> None:
        """Take `point` back to where it stood before its last step, in place.

        The odometer has counted the step away from there, so it need not count the way back; a bound on logits that was
        found further on does not hold here.
        """
        self._forget()
        point.assign(to)
        self._bounded = None

    def _forget(self) -> None:  # noqa: B027  (Nothing to drop, unless a form says so.)
        """Drop what was kept of a point that now moves in more than α."""

    def keep(self, source: Point, target: Point) -> None:
        """Copy to `target` what `weights` needs of `source`."""

        def work(worker: int) -> None:
            self._blocks(target.v, worker)[0][...] = self._blocks(source.v, worker)[0]

        self.team.map(work)
        target.alpha, target.intercept = source.alpha, source.intercept

    def start_odometer(self) -> Array:
        """From now on measure how far the weights of each class travel; returns the meter, (K + 1,).

        Its last entry is the way of whichever class moved most at each step. No class's weights and intercept are
        further from where they were than the meter has advanced since.
        """
        size = self.support.n_classes + 1
        self.odometer = _arrays.zeros(self.support.F, (size,), dtype=_arrays.wide_dtype(self.support.F))
        self._bounded = None
        return self.odometer

    def _logit_bound(self, point: Point) -> float | None:
        """A bound on the support's logits that spares `softmax` two passes over them; None where it has to look."""
        if self.odometer is None or self._bounded is None or self._bounded[0] is not point:
            return None
        _, reading, bound = self._bounded
        bound += (float(self.odometer[-1]) - reading) * self._longest
        return bound if bound < _arrays.HARMLESS else None

    def _note_bound(self, point: Point, bound: float) -> None:
        if self.odometer is not None:
            self._bounded = point, float(self.odometer[-1]), bound

    @cached_property
    def _longest(self) -> float:
        """Length of the longest embedding, or 1: what a class's logits change by at most when it moves by 1."""
        F = self.support.F
        return max(1.0, math.sqrt(_arrays.row_dots(F, F).max()))

    def _note_travel(self, step: Array) -> None:
        if self.odometer is not None:
            xp = _arrays.namespace(step)
            lengths = xp.abs(_arrays.cast(step, self.odometer.dtype))
            self.odometer[:-1] += lengths
            self.odometer[-1] += xp.max(lengths)

    @abstractmethod
    def _blocks(self, v: Array, worker: int) -> tuple[Array, ...]:
        """A worker's rows of an array of coordinates, one block for each kind; the first is enough for `weights`."""

    @abstractmethod
    def _squared_length_(self, *blocks: Array) -> Array:
        """What these rows of a step contribute to its squared length in weights for each class, (K,); spoils them."""

    def _freeze(self, *gradients: Array | None) -> None:
        """Zero the columns of classes without examples."""
        if self._alive is not None:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= self._alive


def own_entries(y: Array, n_classes: int) -> Array:
    """Where the entries of the right classes stand in an (n, K) array laid flat."""
    return _arrays.arange(y, y.shape[0]) * n_classes + y


def cross_entropy(z: Array, own: Array, out: Array, scale: float = 1.0, bound: float | None = None) -> Array:
    """Loss of each row of logits; `scale` times the probabilities go to `out`, which may be `z`.

    `own` comes from `own_entries`; `bound` is `softmax`'s.
    """
    chosen = z.reshape(-1)[own]
    return _arrays.softmax(z, out, scale, bound)[:, 0] - chosen


def residual(z: Array, own: Array, out: Array, scale: float = 1.0, bound: float | None = None) -> float:
    """Sum of the rows' losses; `scale` times P - Y goes to `out`, which may be `z`."""
    losses = cross_entropy(z, own, out, scale, bound)
    out.reshape(-1)[own] -= scale
    return float(losses.sum(dtype=_arrays.wide_dtype(z)))


def spread_of(r: Array) -> Array:
    """Σ_i p_ik (1 - p_ik) for each class from R = P - Y: |r| - r² holds for the true class and the others alike."""
    xp = _arrays.namespace(r)
    return xp.sum(xp.abs(r), axis=0) - _arrays.column_dots(r, r)


def rows_per_chunk(n_classes: int) -> int:
    """Rows of logits to hold at once and worker: about 8 MiB of float32, where products run at full speed."""
    return int(min(4096, max(256, 2**21 // n_classes)))
