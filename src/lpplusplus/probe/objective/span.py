"""The objective in the span of the support, for tasks with few images.

Every gradient of W is a combination of support images, so W = W⁰ + CᵀF/N with an (N, K) matrix C of coefficients, and
the logits of the support follow from the Gram matrix: F Wᵀ = F W⁰ᵀ + (F Fᵀ/N) C. Coordinates are C and the logits
stacked, (2N, K); those of the gradient are R and (F Fᵀ/N) R. An evaluation takes one N x N x K product, whatever D is,
and the iterates are those of `primal` up to rounding. With a metric, F Fᵀ becomes F B⁻¹Fᵀ, and W = W⁰ + CᵀF B⁻¹/N.
"""

from ..._core import backend
from ..._core.backend import Array
from ..._core.threads import ALONE, Team, lazy
from ..metric import products
from .base import Coefficients, Evaluation, Objective, Point, Watch, own_entries, residual, sum_of_kappa
from .spectrum import Spectrum, leading_eigenpairs
from .support import Support


class SpanObjective(Objective):
    """L in the span of the support; see `Objective`."""

    def __init__(self, support: Support, *, team: Team = ALONE, freeze: bool = True) -> None:
        super().__init__(support, team=team, freeze=freeze)
        self._rows, self._y, self._roots = support.F[:, :], support.y, support.roots
        self._F = self._seen(self._rows)
        self._gram = products(self._F, self._F)
        self._gram /= support.total
        self._scores = None if support.text is None else team.matmul(self._rows, support.text.T)
        shares = (team.share(support.size, worker) for worker in range(team.size))
        self._own = [own_entries(self._y[share], support.n_classes) for share in shares]
        self._gradient = backend.empty(self._rows, (2 * support.size, support.n_classes))
        self._start: Array | None = None

    def at(self, weights: Coefficients) -> Point:
        """The point that stands for `weights`, from which all later points are measured."""
        n = self.support.size
        v = backend.zeros(self._gradient, self._gradient.shape)
        v[n:, :] = self.team.matmul(self._rows, weights.W.T)
        if weights.alpha is not None:
            self._add_text(v, weights.alpha)
        self._start = weights.W
        return Point(v, weights.alpha, weights.intercept)

    def weights(self, point: Point) -> Coefficients:
        n = self.support.size
        way, metric = self.team.matmul(self._rows.T, point.v[:n, :]) / self.support.total, self.support.metric
        way = way if metric is None else metric.steps(way, self.team)
        return Coefficients(self._start + way.T, point.alpha, point.intercept)

    def _seen(self, X: Array) -> tuple[Array, Array | None]:
        """Images in the metric's coordinates."""
        return (X, None) if self.support.metric is None else self.support.metric.seen(X, self.team)

    def watch(self, X: Array) -> Watch:
        assert self._start is not None
        return SpanWatch(X, products(self._seen(X), self._F), self._start, self.support, self.team)

    @lazy
    def spectrum(self) -> Spectrum:
        return leading_eigenpairs(lambda x: self._gram @ x, self._gram, self.support.size)

    def damp(self, gradient: Array, strength: Array) -> None:
        # The vectors are eigenvectors of the Gram matrix, so the same division holds for C and for (F Fᵀ/N) C.
        n = self.support.size
        self.spectrum.damp_(gradient[:n, :], strength)
        self.spectrum.damp_(gradient[n:, :], strength)

    def _energy(self) -> Array:
        assert self._scores is not None
        return backend.column_dots(self._scores, self._scores) / self.support.total

    def evaluate(
        self, point: Point, *, w: bool = False, alpha: bool = False, kappa: bool = False, factor: float = 1.0
    ) -> Evaluation:
        n, total, xp = self.support.size, self.support.total, backend.namespace(point.v)
        residuals, products = self._gradient[:n, :], self._gradient[n:, :]
        bound = self._logit_bound(point)

        def soften(worker: int) -> tuple[float, float, Array, Array]:
            part = self.team.share(n, worker)
            z, r = point.v[n:, :][part], residuals[part]
            roots = None
            if self._roots is not None:
                roots = self._roots[part]
                z = z / roots[:, None]
            if point.intercept is not None:
                z = z + point.intercept
            size = backend.largest(z) if bound is None else bound
            loss = residual(z, self._own[worker], r, factor, size, roots)
            bent = sum_of_kappa(r if factor == 1 else r / factor, roots) if kappa else 0
            along_text = backend.column_dots(r, self._scores[part]) if alpha else 0  # type: ignore[index]
            return loss, size, bent, along_text

        def project(worker: int) -> None:
            part = self.team.share(n, worker)
            xp.matmul(self._gram[part], residuals, out=products[part])

        losses, sizes, bent, along_text = zip(*self.team.map(soften), strict=True)
        self._note_bound(point, max(sizes))
        kappas = sum(bent) / total if kappa else None
        text_gradient = bias_gradient = None
        if alpha:
            text_gradient = sum(along_text) / total
            self._freeze(text_gradient)
        if w:
            self._freeze(residuals)
            self.team.map(project)
            if point.intercept is not None:
                bias = xp.sum(residuals, axis=0) if self._roots is None else self._roots @ residuals
                bias_gradient = bias / total
        return Evaluation(sum(losses) / total, self._gradient if w else None, text_gradient, bias_gradient, kappas)

    def _squared_length_(self, step: Array) -> Array:
        # ‖Fᵀc/N‖² = cᵀ(F Fᵀ/N)c / N, and (F Fᵀ/N)c are the lower rows.
        n = self.support.size
        return backend.column_dots_(step[:n, :], step[n:, :]) / self.support.total

    def _add_text(self, v: Array, alpha: Array) -> None:
        v[self.support.size :, :] += self._scores * alpha


class SpanWatch(Watch):
    """Images scored through their products with the support."""

    def __init__(self, X: Array, products: Array, start: Array, support: Support, team: Team) -> None:
        super().__init__(X)
        self._products = products
        self._products /= support.total
        self._base = team.matmul(X, start.T)
        self._scores = None if support.text is None else team.matmul(X, support.text.T)

    def logits(self, point: Point, rows: Array | slice = slice(None), team: Team = ALONE) -> Array:
        n = self._products.shape[1]
        z = team.matmul(self._products[rows], point.v[:n, :])
        z += self._base[rows]
        if point.alpha is not None:
            z += self._scores[rows] * point.alpha  # type: ignore[index]
        if point.intercept is not None:
            z += point.intercept
        return z
