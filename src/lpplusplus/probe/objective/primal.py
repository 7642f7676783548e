"""The objective on the weights themselves: coordinates are the (D, K) effective weights.

An evaluation takes two products of N x D x K, in chunks of rows so that the N x K logits never exist at once. Steps on
α take one, since the products f_i·t_k of images and text are kept: the gradient of α is Σ_i R_ik f_i·t_k.

With a metric the gradient of W is B⁻¹ ∂L/∂W: the gradient in the metric's coordinates, converted to weights. This takes
one product of D x D x K per evaluation, and saves a second copy of the images in the metric's coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..._core import backend
from ..._core.backend import Array
from ..._core.threads import ALONE, Team, lazy
from .base import Coefficients, Evaluation, Objective, Point, Watch, own_entries, residual, sum_of_kappa
from .spectrum import Spectrum, leading_eigenpairs
from .support import Support


class Share(NamedTuple):
    """Sums over one worker's images."""

    loss: float
    intercept: Array
    kappa: Array
    along_text: Array
    size: float
    """A bound on their logits."""


class Pass(NamedTuple):
    """What one pass over the images computes."""

    point: Point
    gradient: bool
    """Whether the residual is multiplied with the images."""
    kappa: bool
    scores: dict[tuple[int, int], Array] | None
    """Products with the text, if they give the gradient of α and that of W is not needed."""
    bound: float | None
    """A known bound on all logits."""


class PrimalObjective(Objective):
    """L in the coordinates of the weights; see `Objective`."""

    def __init__(self, support: Support, *, team: Team = ALONE, freeze: bool = True) -> None:
        super().__init__(support, team=team, freeze=freeze)
        text = support.text
        self._text = None if text is None else backend.copy(backend.namespace(text).permute_dims(text, (1, 0)))
        self._make_room()

    def _make_room(self) -> None:
        """What every pass over the images writes to."""
        support, team, F = self.support, self.team, self.support.F
        self._chunks = support.chunks(team)
        height = max(b - a for a, b in self._chunks)
        self._own = {chunk: own_entries(support.y[slice(*chunk)], support.n_classes) for chunk in self._chunks}
        shape = (support.dim, support.n_classes)
        self._logits = [backend.empty(F, (height, shape[1])) for _ in range(team.size)]
        self._sums = [backend.empty(F, shape) for _ in range(team.size)]
        self._parts = [backend.empty(F, shape) for _ in range(team.size)]
        self._rooms = [support.room(height) for _ in range(team.size)]

    def at(self, weights: Coefficients) -> Point:
        xp = backend.namespace(self.support.F)
        v = backend.copy(xp.permute_dims(weights.W, (1, 0)))
        if weights.alpha is not None:
            self._add_text(v, weights.alpha)
        return Point(v, weights.alpha, weights.intercept)

    def weights(self, point: Point) -> Coefficients:
        xp = backend.namespace(self.support.F)
        point = point.copy()
        if point.alpha is not None:
            self._add_text(point.v, -point.alpha)
        return Coefficients(backend.copy(xp.permute_dims(point.v, (1, 0))), point.alpha, point.intercept)

    def watch(self, X: Array) -> Watch:
        return PrimalWatch(X)

    @lazy
    def _curvature(self) -> tuple[Spectrum, Array | None]:
        """`spectrum` and, with text, `score_energy`; both from FᵀF/N (not kept) if that is smaller than F."""
        support, text = self.support, self.support.text
        energy = None
        if support.is_tall:
            moment = support.moment(self.team) / support.total
            if text is not None:
                energy = backend.row_dots(self.team.matmul(text, moment), text)
            return self._eigenpairs(lambda x: moment @ x, moment), energy
        F = support.F[:, :]
        if text is not None:
            scores = self.team.matmul(F, text.T)
            energy = backend.column_dots(scores, scores) / support.total
        return self._eigenpairs(lambda x: F.T @ (F @ x) / support.total, F), energy

    def _eigenpairs(self, apply: Callable[[Array], Array], reference: Array) -> Spectrum:
        """Eigenpairs of FᵀF/N, or with a metric of RᵀFᵀF R/N."""
        metric, dim = self.support.metric, self.support.dim
        if metric is None:
            return leading_eigenpairs(apply, reference, dim)
        values, vectors, _ = leading_eigenpairs(
            lambda x: metric.images(apply(metric.weights(x.T).T).T).T, reference, dim
        )
        return Spectrum(values, metric.weights(vectors.T).T, metric.duals(vectors.T).T)

    @property
    def spectrum(self) -> Spectrum:
        return self._curvature[0]

    def _energy(self) -> Array:
        return self._curvature[1]

    def damp(self, gradient: Array, strength: Array) -> None:
        self.spectrum.damp_(gradient, strength)

    def evaluate(
        self, point: Point, *, w: bool = False, alpha: bool = False, kappa: bool = False, factor: float = 1.0
    ) -> Evaluation:
        asked = self._prepare(point, w=w, alpha=alpha, kappa=kappa)
        shares, gradient = self.over_images(asked)
        self._note_bound(point, max(share.size for share in shares))
        size, per_image = self.support.total, factor / self.support.total
        loss = sum(share.loss for share in shares) / size
        kappas = sum(share.kappa for share in shares) / size if kappa else None
        if asked.scores is not None:
            text_gradient = sum(share.along_text for share in shares) * per_image
            self._freeze(text_gradient)
            return Evaluation(loss, alpha=text_gradient, kappa=kappas)
        if gradient is None:
            return Evaluation(loss, kappa=kappas)
        gradient *= per_image
        self._freeze(gradient)
        text_gradient = backend.column_dots(gradient, self._text) if alpha else None
        if self.support.metric is not None:
            gradient = self.support.metric.steps(gradient, self.team, often=True)
        bias_gradient = None
        if point.intercept is not None:
            bias_gradient = sum(share.intercept for share in shares) * per_image
            self._freeze(bias_gradient)
        return Evaluation(loss, gradient, text_gradient, bias_gradient, kappas)

    def over_images(self, asked: Pass) -> tuple[list[Share], Array | None]:
        """One pass: the sums over each worker's images, and the gradient of W if asked for."""
        shares = self.team.map(lambda worker: self._share(asked, worker))
        if not asked.gradient:
            return shares, None
        gradient = self._sums[0]
        for other in self._sums[1:]:
            gradient += other
        return shares, gradient

    def _prepare(self, point: Point, *, w: bool, alpha: bool, kappa: bool) -> Pass:
        """Decide what the workers do, and make what they share here, in one thread."""
        scores = self._scores if alpha and not w and self.support.n_classes <= self.support.dim else None
        return Pass(point, (w or alpha) and scores is None, kappa, scores, self._logit_bound(point))

    def _share(self, asked: Pass, worker: int) -> Share:
        """Go through one worker's images; their part of the gradient of W goes to `_sums`."""
        support, intercept = self.support, asked.point.intercept
        xp = backend.namespace(support.F)
        total, part = self._sums[worker], self._parts[worker]
        loss = size = 0.0
        by_class = (support.n_classes,)
        bias, kappa, along_text = (backend.zeros(support.F, by_class) for _ in range(3))
        if asked.gradient:
            total[...] = 0
        for a, b in self._chunks[self.team.share(len(self._chunks), worker)]:
            r = self._logits[worker][: b - a, :]  # Room for the logits, which become the residual.
            F, roots = support.read(a, b, self._rooms[worker]), None
            z = self._chunk_logits(asked, (a, b), F, r)
            if support.roots is not None:
                roots = support.roots[a:b]
                z = xp.divide(z, roots[:, None], out=r)
            here = backend.largest(z) if asked.bound is None else asked.bound
            size = max(size, here)
            loss += residual(z, self._own[a, b], out=r, bound=here, roots=roots)
            if asked.kappa:
                kappa += sum_of_kappa(r, roots)
            if asked.scores is not None:
                along_text += backend.column_dots(r, asked.scores[a, b])
            if asked.gradient:
                total += xp.matmul(F.T, r, out=part)
                if intercept is not None:
                    bias += xp.sum(r, axis=0) if roots is None else roots @ r
        return Share(loss, bias, kappa, along_text, size)

    def _chunk_logits(self, asked: Pass, chunk: tuple[int, int], F: Array, room: Array) -> Array:
        """Logits of the images `F`, in `room`."""
        point = asked.point
        z = backend.namespace(room).matmul(F, point.v, out=room)
        if point.intercept is not None:
            roots = self.support.roots
            z += point.intercept if roots is None else roots[slice(*chunk), None] * point.intercept
        return z

    @lazy
    def _scores(self) -> dict[tuple[int, int], Array]:
        """f_i·t_k of each chunk's images, (n, K); used only if they take no more memory than the images."""
        text = self._text
        return {(a, b): self.team.matmul(self.support.F[a:b, :], text) for a, b in self._chunks}

    def _squared_length_(self, step: Array) -> Array:
        return backend.column_dots_(step, step)

    def _add_text(self, v: Array, alpha: Array) -> None:
        v += self._text * alpha


class PrimalWatch(Watch):
    """Images scored with the weights themselves."""

    def __init__(self, X: Array) -> None:
        super().__init__(X)
        self._X = X

    def logits(self, point: Point, rows: Array | slice = slice(None), team: Team = ALONE) -> Array:
        z = team.matmul(self._X[rows], point.v)
        if point.intercept is not None:
            z += point.intercept
        return z
