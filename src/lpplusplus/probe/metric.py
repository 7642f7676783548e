"""The within-class metric: the coordinates in which the descent takes its steps.

If a class has two images, the support shows how images of one class differ: S, the pooled within-class scatter. Its
large directions do not separate classes, and plain gradient steps spend their time on them. Let λ be the mean
eigenvalue of S, B = I + ρ S / λ and R Rᵀ = B⁻¹. The descent runs in coordinates in which images are Rᵀf and texts R⁻¹t.
There, images of one class vary equally in all directions, and products f·t stay the same. Loss, α and the text block do
not change. A gradient step on W is multiplied by B⁻¹. The start becomes B⁻¹ Σ f: the weights of linear discriminant
analysis with S shrunk half way (ρ = 1) to a sphere, just as LP++'s own start is a nearest-mean classifier. The forms of
the objective take steps with B⁻¹ and leave images and texts as they are. A solver that needs the coordinates themselves
gets transformed images and texts. See docs/explanation/flow.md.
"""

from dataclasses import dataclass
from typing import TypeAlias

from .._core import backend
from .._core.backend import Array
from .._core.rows import Rows, everywhere, is_remote, parts, sum_by_class, times
from .._core.threads import ALONE, Team, lazy

RHO = 1.0
"""ρ: weight of the scatter relative to a sphere with the same mean eigenvalue."""
LEAST = 0.01
"""Least root mean square of a coordinate, relative to that of all."""
SOFT = 0.5
"""Its power in the metric; 1 is Adam's. Some encoders have coordinates that are small because they say nothing."""
ROUNDING = 16.0
"""Images of one class that differ by less than this many units of rounding, relative to their length, are copies."""


@dataclass(frozen=True)
class Metric:
    """The change of coordinates: B = L Lᵀ; or, for few images, B = I + UᵀU with the smaller L Lᵀ = I + U Uᵀ."""

    triangle: Array
    """L, (m, m); m is D, or the number of rows of U."""
    inverse: Array
    """L⁻¹."""
    rows: Array | None
    """U, (m, D)."""
    moment: Array | None = None
    """Σ of the images' outer products, (D, D), if it was needed."""

    def images(self, X: Array, team: Team = ALONE) -> Array:
        """Rᵀx for each row."""
        return self._times(X, self._root, team)

    def text(self, T: Array, team: Team = ALONE) -> Array:
        """R⁻¹t for each row."""
        return self._times(T, self._way_back.T, team)

    def weights(self, W: Array, team: Team = ALONE) -> Array:
        """R w for each row: weights for images in the old coordinates."""
        return self._times(W, self._root.T, team)

    def duals(self, W: Array, team: Team = ALONE) -> Array:
        """R⁻ᵀw for each row."""
        return self._times(W, self._way_back, team)

    def steps(self, gradients: Array, team: Team = ALONE, *, often: bool = False) -> Array:
        """B⁻¹g for each column. With `often`, B⁻¹ is computed once and kept."""
        if self.rows is not None:
            inside = team.matmul(self.inverse, team.matmul(self.rows, gradients))
            return gradients - team.matmul(self.rows.T, self.inverse.T @ inside)
        if often:
            return team.matmul(self._shrinking, gradients)
        return team.matmul(self.inverse.T, team.matmul(self.inverse, gradients))

    def seen(self, X: Array, team: Team = ALONE) -> tuple[Array, Array | None]:
        """Images for `products`: products of the first arrays minus those of the second arrays are x B⁻¹y."""
        if self.rows is None:
            return self.images(X, team), None
        return X, team.matmul(team.matmul(X, self.rows.T), self.inverse.T)

    def part_kept(self, X: Array | Rows, team: Team = ALONE) -> float:
        """Part of their squared length that images keep: Σ x·B⁻¹x / Σ x·x over the rows of X.

        If the moment of the images that made the metric is known, it is used instead of that of X.
        """
        if self.moment is not None:
            kept = team.matmul(self.inverse, self.moment) * self.inverse
            return float(kept.sum()) / float(backend.namespace(kept).linalg.trace(self.moment))
        whole, (kept, lost) = float((X[:, :] * X[:, :]).sum()), self.seen(X[:, :], team)
        return float((kept * kept).sum()) / whole if lost is None else 1 - float((lost * lost).sum()) / whole

    @lazy
    def _shrinking(self) -> Array:
        """B⁻¹."""
        return self.inverse.T @ self.inverse

    @lazy
    def _root(self) -> Array:
        """R = L⁻ᵀ; with U, the middle of R = I - Uᵀ L⁻ᵀ(I + L)⁻¹ U."""
        return self.inverse.T if self.rows is None else -(self.inverse.T @ self._way_back.T)

    @lazy
    def _way_back(self) -> Array:
        """R⁻¹ = Lᵀ; with U, the middle of R⁻¹ = I + Uᵀ(I + L)⁻ᵀ U."""
        if self.rows is None:
            return self.triangle.T
        xp = backend.namespace(self.triangle)
        return xp.linalg.inv(_plus_one(backend.copy(self.triangle))).T

    def _times(self, X: Array, matrix: Array, team: Team) -> Array:
        if self.rows is None:
            return team.matmul(X, matrix)
        return X + team.matmul(team.matmul(X, self.rows.T) @ matrix, self.rows)


@dataclass(frozen=True)
class Coordinates:
    """A `Metric` of the coordinates themselves: B = diag(b)."""

    roots: Array
    """√b, (D,)."""
    moment: None = None

    def images(self, X: Array, team: Team = ALONE) -> Array:
        """As `Metric.images`; and so are the others."""
        return X / self.roots

    weights = images

    def text(self, T: Array, team: Team = ALONE) -> Array:
        return T * self.roots

    duals = text

    def steps(self, gradients: Array, team: Team = ALONE, *, often: bool = False) -> Array:
        return gradients / (self.roots**2)[:, None]

    def seen(self, X: Array, team: Team = ALONE) -> tuple[Array, None]:
        return X / self.roots, None

    def part_kept(self, X: Array | Rows, team: Team = ALONE) -> float:
        squares, b = sum_of_squares(X), self.roots**2
        return float((squares / b).sum()) / float(squares.sum())


AnyMetric: TypeAlias = Metric | Coordinates


def by_coordinates(F: Array | Rows) -> Coordinates | None:
    """The metric of images without regard to their classes: b_d is the root of the root mean square of
    coordinate d, relative to that of all.

    Adam divides its steps by the root mean square itself, for images that are all as much in doubt. It depends on the
    axes: the same embeddings turned have another metric.

    >>> import numpy as np
    >>> by_coordinates(np.array([[3.0, 1.0], [3.0, -1.0]])).images(np.array([[3.0, 1.0]])).round(3).tolist()
    [[2.787, 1.223]]
    """
    xp = backend.namespace(F)
    squares = sum_of_squares(F)
    mean = float(xp.mean(squares))
    if not mean > 0:
        return None
    return Coordinates(xp.maximum(xp.sqrt(squares / mean), LEAST + 0 * squares) ** (SOFT / 2))


def sum_of_squares(F: Array | Rows) -> Array:
    """Σ f_d² over the images, (D,)."""
    return sum(everywhere(F, _squares_there))


def _squares_there(F: Array | Rows) -> Array:
    return sum(backend.column_dots(F[rows, :], F[rows, :]) for rows in parts(F))


def products(a: tuple[Array, Array | None], b: tuple[Array, Array | None]) -> Array:
    """x B⁻¹y for each x of `a` and each y of `b`, as `Metric.seen` gives them."""
    whole = a[0] @ b[0].T
    if a[1] is not None and b[1] is not None:
        whole -= a[1] @ b[1].T
    return whole


def within(
    F: Array | Rows, y: Array, n_classes: int, team: Team = ALONE, weights: Array | None = None
) -> Metric | None:
    """The metric of labelled images; None if no class has two different ones.

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
    means = sums / backend.cast(counts + (counts == 0), F.dtype)[:, None]
    roots = None if weights is None else xp.sqrt(weights)
    F = F if roots is None else times(F, roots)
    moment = rows = None
    if 2 * n <= dim:
        rows = _centred(F[:, :], y, roots, means)
        scatter = team.matmul(rows, rows.T)
    else:
        scatter = _sum_of_products(F, y, roots, team, means)
        moment = scatter + sums.T @ means
    total = float(xp.linalg.trace(scatter))
    if not total > (ROUNDING * float(xp.finfo(F.dtype).eps)) ** 2 * float((sums * means).sum()):
        return None
    scatter *= RHO * dim / total
    rows = None if rows is None else (RHO * dim / total) ** 0.5 * rows
    return Metric(*backend.triangle_and_inverse(_plus_one(scatter)), rows, moment)


def _centred(F: Array, y: Array, roots: Array | None, means: Array | None) -> Array:
    """Differences from the means of their classes; the images of `F` are multiplied by `roots`."""
    if means is None:
        return F
    return F - (means[y] if roots is None else means[y] * roots[:, None])


def _plus_one(x: Array) -> Array:
    """I + x, in place."""
    diagonal = backend.arange(x, x.shape[0])
    x[diagonal, diagonal] += 1
    return x


def moment_of(F: Array | Rows, team: Team) -> Array:
    """FᵀF, (D, D)."""
    return _sum_of_products(F, None, None, team, None)


def _sum_of_products(F: Array | Rows, y: Array | None, roots: Array | None, team: Team, means: Array | None) -> Array:
    """Σ of outer products of the images, or of their differences from the `means` of their classes, (D, D)."""
    if is_remote(F):
        return sum(F.each(_products_there, y, roots, means=means))

    def work(worker: int) -> Array:
        total, mine = 0, team.share(F.shape[0], worker)
        for rows in parts(F):
            some = slice(max(rows.start, mine.start), min(rows.stop, mine.stop))
            if some.start < some.stop:
                labels, factors = (None if each is None else each[some] for each in (y, roots))
                block = _centred(F[some, :], labels, factors, means)
                total = total + block.T @ block
        return total

    return sum(team.map(work))


def _products_there(F: Rows, y: Array | None, roots: Array | None, means: Array | None) -> Array:
    """`_sum_of_products` in a process that holds some of the rows, with the BLAS threads of that process."""
    return _sum_of_products(F, y, roots, ALONE, means)
