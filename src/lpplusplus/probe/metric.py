"""The within-class metric: what a step of the descent is measured in.

With two images of a class the support tells how images of one class differ: S, the pooled within-class scatter. Its
large directions carry no class, and plain gradient steps spend their time on them. Let B = I + ρ S / λ with λ the mean
eigenvalue of S, and R Rᵀ = B⁻¹. The descent runs in the coordinates in which images are Rᵀf and texts R⁻¹t, whose
products f·t are those of before: images of one class scatter alike in all directions there. Loss, α and the text block
stay what they are; a gradient step on W becomes one with B⁻¹ in front, and the start becomes B⁻¹ Σ f: the weights of
linear discriminant analysis with S shrunk half way (ρ = 1) to a sphere, as LP++'s start is that of a nearest-mean
classifier. The forms of the objective take steps with B⁻¹ and leave images and texts as they are. A solver that needs
the coordinates themselves gets images and texts that have been changed. See docs/explanation/flow.md.
"""

from dataclasses import dataclass

from .._core import backend
from .._core.backend import Array
from .._core.lazy import lazy
from .._core.rows import Rows, is_scattered, parts, sum_by_class, times
from .._core.threads import ALONE, Team

RHO = 1.0
"""ρ: how much the scatter counts against a sphere of the same mean eigenvalue."""


@dataclass(frozen=True)
class Metric:
    """The change of coordinates; within the span of `basis` only, where there are few images, else everywhere."""

    root: Array
    """R, (m, m): within `basis`, or of all D dimensions."""
    inverse: Array
    """R⁻¹."""
    basis: Array | None
    """(D, m) orthonormal columns."""
    moment: Array | None = None
    """Σ of the images' outer products, (D, D), where it was needed."""

    def images(self, X: Array, team: Team = ALONE) -> Array:
        """Rᵀx for each row."""
        return self._times(X, self.root, team)

    def text(self, T: Array, team: Team = ALONE) -> Array:
        """R⁻¹t for each row."""
        return self._times(T, self.inverse.T, team)

    def weights(self, W: Array, team: Team = ALONE) -> Array:
        """R w for each row: weights for images in the old coordinates."""
        return self._times(W, self.root.T, team)

    def duals(self, W: Array, team: Team = ALONE) -> Array:
        """R⁻ᵀw for each row."""
        return self._times(W, self.inverse, team)

    def steps(self, gradients: Array, team: Team = ALONE) -> Array:
        """B⁻¹g for each column."""
        if self.basis is None:
            return team.matmul(self._shrinking, gradients)
        inside = self.basis.T @ gradients
        return gradients + self.basis @ (self._shrinking @ inside - inside)

    @lazy
    def _shrinking(self) -> Array:
        """B⁻¹."""
        return self.root @ self.root.T

    def _times(self, X: Array, matrix: Array, team: Team) -> Array:
        if self.basis is None:
            return team.matmul(X, matrix)
        inside = team.matmul(X, self.basis)
        return X + team.matmul(inside @ matrix - inside, self.basis.T)


def within(
    F: Array | Rows, y: Array, n_classes: int, team: Team = ALONE, rho: float = RHO, weights: Array | None = None
) -> Metric | None:
    """The metric of labelled images; None where no class has two that differ.

    >>> import numpy as np
    >>> F = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> metric = within(F, np.array([0, 0, 1, 1]), 2)
    >>> metric.images(F).round(3).tolist()  # Their differences within a class have shrunk.
    [[1.0, 0.058], [1.0, -0.058], [-1.0, 0.058], [-1.0, -0.058]]
    >>> metric.weights(np.eye(2)).round(3).tolist()
    [[1.0, 0.0], [0.0, 0.577]]
    """
    xp = backend.namespace(F)
    n, dim = F.shape
    sums = sum_by_class(F if weights is None else times(F, weights), y, n_classes)
    counts = xp.bincount(y, minlength=n_classes, **({} if weights is None else {"weights": weights}))
    counts = backend.cast(counts + (counts == 0), F.dtype)
    F = F if weights is None else times(F, xp.sqrt(weights))
    moment = None
    if 2 * n <= dim:
        means = (sums / counts[:, None])[y]
        means = means if weights is None else means * xp.sqrt(weights)[:, None]
        basis, triangle = xp.linalg.qr((F[:, :] - means).T)
        scatter = triangle @ triangle.T
    else:
        basis, sums = None, sums / xp.sqrt(counts)[:, None]
        moment = moment_of(F, team)
        scatter = moment - sums.T @ sums
    total = float(xp.linalg.trace(scatter))
    largest = backend.largest(F[next(parts(F)), :])  # Of many rows the first say how large their numbers are.
    if not total > n * float(xp.finfo(F.dtype).eps) * largest**2:
        return None
    scatter *= rho * dim / total
    scatter += backend.like(xp.eye(scatter.shape[0]), scatter, dtype=F.dtype)
    ahead, inverse = backend.triangle_and_inverse(scatter)
    return Metric(inverse.T, ahead.T, basis, moment)


def moment_of(F: Array | Rows, team: Team) -> Array:
    """FᵀF, (D, D)."""
    if is_scattered(F):
        return sum(F.each(_moment_there))

    def work(worker: int) -> Array:
        total, mine = 0, team.share(F.shape[0], worker)
        for rows in parts(F):
            low, high = max(rows.start, mine.start), min(rows.stop, mine.stop)
            if low < high:
                block = F[low:high, :]
                total = total + block.T @ block
        return total

    return sum(team.map(work))


def _moment_there(F: Rows) -> Array:
    """`moment_of` in a process that holds some of the rows, on the threads that BLAS has there."""
    return moment_of(F, ALONE)
