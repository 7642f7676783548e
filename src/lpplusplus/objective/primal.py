"""The objective on the weights themselves: coordinates are the (D, K) effective weights.

Two products of N x D x K an evaluation, taken in blocks of rows so that the N x K logits never exist at once. A step on
α alone spares some of them where the images' products with the text may be kept: its gradient is Σ_i R_ik f_i·t_k, and
the logits after it are those before it plus Δα_k f_i·t_k.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from .. import _arrays
from .._arrays import Array
from .._spectrum import Spectrum, leading_eigenpairs
from .._threads import ALONE, Team
from .base import (
    Evaluation,
    Objective,
    Point,
    Support,
    Weights,
    own_entries,
    residual,
    spread_of,
)

HELD = 0.375
"""Memory for logits that are kept over a step on α, as a part of the images' own."""


class Share(NamedTuple):
    """What one worker's images add up to."""

    loss: float
    intercept: Array
    spread: Array
    along_text: Array
    size: float
    """A bound on their logits."""


class PrimalObjective(Objective):
    """L in the coordinates of the weights; see `Objective`."""

    def __init__(self, support: Support, *, team: Team = ALONE, freeze: bool = True) -> None:
        super().__init__(support, team=team, freeze=freeze)
        F, text = support.F, support.text
        xp = _arrays.namespace(F)
        self._chunks = support.chunks(team)
        height = max(b - a for a, b in self._chunks)
        self._text = None if text is None else _arrays.copy(xp.permute_dims(text, (1, 0)))
        self._own = {chunk: own_entries(support.y[slice(*chunk)], support.n_classes) for chunk in self._chunks}
        shape = (support.dim, support.n_classes)
        self._logits = [_arrays.empty(F, (height, shape[1])) for _ in range(team.size)]
        self._sums = [_arrays.empty(F, shape) for _ in range(team.size)]
        self._parts = [_arrays.empty(F, shape) for _ in range(team.size)]
        self._held_at: tuple[Point, Array] | None = None  # The point whose logits are held, and its α at that time.

    def at(self, weights: Weights) -> Point:
        xp = _arrays.namespace(self.support.F)
        v = _arrays.copy(xp.permute_dims(weights.W, (1, 0)))
        if weights.alpha is not None:
            self._add_text(v, weights.alpha)
        return Point(v, weights.alpha, weights.intercept)

    def weights(self, point: Point) -> Weights:
        xp = _arrays.namespace(self.support.F)
        point = point.copy()
        if point.alpha is not None:
            self._add_text(point.v, -point.alpha)
        return Weights(_arrays.copy(xp.permute_dims(point.v, (1, 0))), point.alpha, point.intercept)

    def watch(self, X: Array) -> PrimalWatch:
        return PrimalWatch(X)

    @cached_property
    def _curvature(self) -> tuple[Spectrum, Array | None]:
        """Spectrum and, with text, `score_energy`; both from FᵀF/N where that is smaller than F, and then let go."""
        support, text = self.support, self.support.text
        energy = None
        if support.is_tall:
            moment = support.moment(self.team)
            moment /= support.size
            if text is not None:
                energy = _arrays.row_dots(self.team.matmul(text, moment), text)
            return leading_eigenpairs(lambda x: moment @ x, moment, support.dim), energy
        F, _ = support.gathered
        if text is not None:
            scores = self.team.matmul(F, text.T)
            energy = _arrays.column_dots(scores, scores) / support.size
        return leading_eigenpairs(lambda x: F.T @ (F @ x) / support.size, F, support.dim), energy

    @property
    def spectrum(self) -> Spectrum:
        return self._curvature[0]

    def _energy(self) -> Array:
        return self._curvature[1]

    def damp(self, gradient: Array, strength: Array) -> None:
        self.spectrum.damp_(gradient, strength)

    def evaluate(
        self, point: Point, *, w: bool = False, alpha: bool = False, spread: bool = False, scale: float = 1.0
    ) -> Evaluation:
        support, xp = self.support, _arrays.namespace(point.v)
        scores = self._scores if alpha and not w and support.n_classes <= support.dim else None
        needs_gradient = (w or alpha) and scores is None
        known = self._held_at is not None and self._held_at[0] is point
        hold = scores is not None and not known
        held = self._held if hold or known else {}  # Made here, where there is one thread.
        travel = point.alpha - self._held_at[1] if known else None  # type: ignore[index]
        bound = self._logit_bound(point)

        def logits(chunk: tuple[int, int], room: Array) -> Array:
            """In `room`; or, to be held, in a place of their own."""
            if travel is not None and chunk in held:
                xp.multiply(self._scores[chunk], travel, out=room)
                room += held[chunk]
                return room
            z = xp.matmul(support.F[slice(*chunk), :], point.v, out=held.get(chunk, room) if hold else room)
            if point.intercept is not None:
                z += point.intercept
            return z

        def work(worker: int) -> Share:
            chunks = self._chunks[self.team.share(len(self._chunks), worker)]
            total, part = self._sums[worker], self._parts[worker]
            loss = size = 0.0
            intercept = _arrays.zeros(point.v, (support.n_classes,))
            kappa = _arrays.zeros(point.v, (support.n_classes,))
            along_text = _arrays.zeros(point.v, (support.n_classes,))
            if needs_gradient:
                total[...] = 0
            for a, b in chunks:
                r = self._logits[worker][: b - a, :]  # Room for the logits, which become the residual.
                z = logits((a, b), r)
                here = _arrays.largest(z) if bound is None else bound
                size = max(size, here)
                loss += residual(z, self._own[a, b], out=r, bound=here)
                if spread:
                    kappa += spread_of(r)
                if scores is not None:
                    along_text += _arrays.column_dots(r, scores[a, b])
                if needs_gradient:
                    total += xp.matmul(support.F[a:b, :].T, r, out=part)
                    if point.intercept is not None:
                        intercept += xp.sum(r, axis=0)
            return Share(loss, intercept, kappa, along_text, size)

        shares = self.team.map(work)
        self._note_bound(point, max(share.size for share in shares))
        if hold:
            self._held_at = point, point.alpha
        loss = sum(share.loss for share in shares) / support.size
        gradient = text_gradient = bias_gradient = None
        if scores is not None:
            text_gradient = sum(share.along_text for share in shares) * (scale / support.size)
            self._freeze(text_gradient)
        if needs_gradient:
            gradient = self._sums[0]
            for other in self._sums[1:]:
                gradient += other
            gradient *= scale / support.size
            self._freeze(gradient)
            if alpha:
                text_gradient = _arrays.column_dots(gradient, self._text)
            if point.intercept is not None:
                bias_gradient = sum(share.intercept for share in shares) * (scale / support.size)
                self._freeze(bias_gradient)
        kappa = sum(share.spread for share in shares) / support.size if spread else None
        return Evaluation(loss, gradient, text_gradient, bias_gradient, kappa)

    def _forget(self) -> None:
        self._held_at = None

    @cached_property
    def _held(self) -> dict[tuple[int, int], Array]:
        """Room for the logits of the first chunks of each worker."""
        part = min(1.0, HELD * self.support.dim / self.support.n_classes)
        shares = (self._chunks[self.team.share(len(self._chunks), worker)] for worker in range(self.team.size))
        chosen = [chunk for share in shares for chunk in share[: int(part * len(share))]]
        return {(a, b): _arrays.empty(self.support.F, (b - a, self.support.n_classes)) for a, b in chosen}

    @cached_property
    def _scores(self) -> dict[tuple[int, int], Array]:
        """Products of each chunk's images with the text, never larger than the images themselves."""
        text = self._text
        return {(a, b): self.team.matmul(self.support.F[a:b, :], text) for a, b in self._chunks}

    def _blocks(self, v: Array, worker: int) -> tuple[Array, ...]:
        return (v[self.team.share(v.shape[0], worker)],)

    def _squared_length_(self, *blocks: Array) -> Array:
        (step,) = blocks
        return _arrays.column_dots_(step, step)

    def _add_text(self, v: Array, alpha: Array) -> None:
        v += self._text * alpha


class PrimalWatch:
    """Images scored with the weights themselves."""

    def __init__(self, X: Array) -> None:
        self._X = X
        xp = _arrays.namespace(X)
        self.norms = xp.sqrt(_arrays.row_dots(X, X))

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def logits(self, point: Point, rows: Array | slice = slice(None), team: Team = ALONE) -> Array:
        z = team.matmul(self._X[rows], point.v)
        if point.intercept is not None:
            z += point.intercept
        return z
