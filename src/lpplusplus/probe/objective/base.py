"""What a solver may ask of the loss, whatever its coordinates."""

from abc import ABC, abstractmethod

from ..._core import backend
from ..._core.backend import Array
from ..._core.threads import ALONE, Team, lazy
from .distance_bound import DistanceBound
from .point import Coefficients, Evaluation, Point, Watch
from .spectrum import Spectrum
from .support import Support


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
