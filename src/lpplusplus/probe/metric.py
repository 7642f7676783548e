"""The within-class metric: coordinates in which images of one class scatter alike in all directions.

With two images of a class the support tells how images of one class differ: S, the pooled within-class scatter. Its
large directions carry no class, and plain gradient steps spend their time on them. Let B = I + ρ S / λ with λ the mean
eigenvalue of S, and R Rᵀ = B⁻¹. The fit runs on images Rᵀf and texts R⁻¹t, whose products f·t are those of before, and
the weights it finds are R w in the old coordinates. Loss, α and the text block stay what they are; a gradient step on
W becomes one with B⁻¹ in front, and the start becomes B⁻¹ Σ f: the weights of linear discriminant analysis with S
shrunk half way (ρ = 1) to a sphere, as LP++'s start is that of a nearest-mean classifier. See
docs/explanation/flow.md.
"""

from dataclasses import dataclass

from .._core import backend
from .._core.backend import Array
from .._core.threads import ALONE, Team
from .initialization import class_sums
from .objective.support import moment_of

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
    """Σ of the images' outer products in the new coordinates, (D, D), where that was cheaper to change than to make."""

    def images(self, X: Array, team: Team = ALONE) -> Array:
        """Rᵀx for each row."""
        return self._times(X, self.root, team)

    def text(self, T: Array, team: Team = ALONE) -> Array:
        """R⁻¹t for each row."""
        return self._times(T, self.inverse.T, team)

    def weights(self, W: Array, team: Team = ALONE) -> Array:
        """R w for each row: weights for images in the old coordinates."""
        return self._times(W, self.root.T, team)

    def _times(self, X: Array, matrix: Array, team: Team) -> Array:
        if self.basis is None:
            return team.matmul(X, matrix)
        inside = team.matmul(X, self.basis)
        return X + team.matmul(inside @ matrix - inside, self.basis.T)


def within(
    F: Array, y: Array, n_classes: int, team: Team = ALONE, rho: float = RHO, weights: Array | None = None
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
    roots = None if weights is None else xp.sqrt(weights)[:, None]
    sums = class_sums(F if weights is None else F * weights[:, None], y, n_classes)
    counts = xp.bincount(y, minlength=n_classes, **({} if weights is None else {"weights": weights}))
    counts = backend.cast(counts + (counts == 0), F.dtype)
    if 2 * n <= dim:
        apart = F - (sums / counts[:, None])[y]
        basis, triangle = xp.linalg.qr((apart if roots is None else apart * roots).T)
        scatter = triangle @ triangle.T
    else:
        basis, sums = None, sums / xp.sqrt(counts)[:, None]
        F = F if roots is None else F * roots
        moment = moment_of(F, team)
        scatter = moment - sums.T @ sums
    total = float(xp.linalg.trace(scatter))
    if not total > n * float(xp.finfo(F.dtype).eps) * float(xp.max(xp.abs(F))) ** 2:
        return None
    scatter *= rho * dim / total
    ahead = xp.linalg.cholesky(scatter + backend.like(xp.eye(scatter.shape[0]), F, dtype=F.dtype))
    root = backend.inverse_of_triangle(ahead).T
    if basis is not None or n < 2 * dim:
        return Metric(root, ahead.T, basis)
    return Metric(root, ahead.T, basis, team.matmul(root.T, team.matmul(moment, root)))
