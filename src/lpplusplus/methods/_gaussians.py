"""Classes as Gaussians with one covariance, and their scores with each image left out, in closed form.

Samples x of class k scatter about the mean μ_k. With S = Σ (x - μ_y)(x - μ_y)ᵀ over all n samples in D dimensions,

    score_k(f) = f·Pμ_k - μ_k·Pμ_k / 2,   P = D (S + r I)⁻¹,   r = tr(S) / (n - 1)

P estimates the inverse covariance, also with fewer samples than dimensions (Kubokawa and Srivastava, 2008). If no class
has two samples, S = 0, and P = D·I. A class without samples has the mean of the other classes' means.

Everything is computed in the eigenvectors of S within the span of the samples. There, S without an image is a diagonal
matrix minus one of rank one, so that its inverse is known (Sherman and Morrison), and another r costs nothing.
"""

from typing import Any

from .._core import backend
from .._core.backend import Array
from .._core.rows import Rows, everywhere, parts


class Gaussians:
    """The fitted classes.

    Parameters
    ----------
    X : (n, D)
        Samples. Images come first; other samples may follow, which are never left out.
    y : (n,)
        Their classes.
    n_classes : int
    sample : (m,), optional
        Images that may be left out, if there are many, read block by block; by default all.
    """

    def __init__(self, X: Array | Rows, y: Array, n_classes: int, sample: Array | None = None) -> None:
        xp, wide = backend.namespace(X), backend.wide_dtype(X)
        self._dtype, self._sample = X.dtype, sample
        self._y, self._n, self._dim = y, int(X.shape[0]), int(X.shape[1])
        self._basis = xp.linalg.qr(backend.cast(X[:, :], wide).T)[0] if self._n < self._dim else None
        self._X = X if isinstance(X, Rows) else backend.cast(X, wide)
        self._counts = backend.cast(xp.bincount(y, minlength=n_classes), wide)
        known = self._counts > 0
        sums = sum(everywhere(self._X, _sums, y, n_classes=n_classes, basis=self._basis))
        means = sums / xp.where(known, self._counts, 1.0)[:, None]
        means = xp.where(known[:, None], means, xp.sum(means, axis=0)[None, :] / xp.sum(backend.cast(known, wide)))
        scatter = sum(everywhere(self._X, _scatter, y, means=means, basis=self._basis))
        values, self._vectors = xp.linalg.eigh(scatter)
        self._values = xp.where(values > 0, values, xp.zeros_like(values))
        self._means, self._centre = means @ self._vectors, means
        self._trace = float(xp.sum(self._values))
        self._nothing = self._n * float(xp.finfo(wide).eps)
        """A trace this small is rounding."""

    def _samples(self, rows: Array | slice) -> Array:
        return _samples(self._X, rows, self._basis)

    def linear(self) -> tuple[Array, Array]:
        """Pμ_k, (K, D), and -μ_k·Pμ_k / 2, (K,)."""
        if self._trace <= self._nothing:
            scaled = self._dim * self._means
        else:
            scaled = self._dim * self._means / (self._values + self._trace / (self._n - 1))
        bias = -backend.row_dots(scaled, self._means) / 2
        weights = scaled @ self._vectors.T
        if self._basis is not None:
            weights = weights @ self._basis.T
        return backend.cast(weights, self._dtype), backend.cast(bias, self._dtype)

    def left_out(self, images: int) -> tuple[Array, Array]:
        """Which of the first `images` samples (or of `sample`) can be left out, and their scores without them, (m, K).

        An image can be left out if its class keeps another image and two samples in all. Otherwise its class would be
        the only one without scatter, unlike in prediction.
        """
        xp = backend.namespace(self._means)
        rows = slice(0, images) if self._sample is None else self._sample
        y = self._y[rows]
        n = self._counts[y]
        z = (self._samples(rows) - self._centre[y]) @ self._vectors
        factor = n / xp.where(n > 1, n - 1, 1.0)
        trace = self._trace - factor * backend.row_dots(z, z)
        shots = n if self._sample is not None else xp.bincount(y, minlength=self._counts.shape[0])[y]
        which = xp.nonzero((shots > 1) & (n > 2) & (trace > self._nothing))[0]
        scores = self._scores_without(z[which, :], y[which], n[which], factor[which], trace[which])
        return which, backend.cast(scores, self._dtype)

    def _scores_without(self, z: Array, own: Array, n: Array, factor: Array, trace: Array) -> Any:
        f = z + self._means[own]
        inverse = 1 / (self._values[None, :] + (trace / max(1, self._n - 2))[:, None])  # Of the diagonal, per image.
        zz, fz = (backend.row_dots(part * inverse, z) for part in (z, f))
        update = factor / (1 - factor * zz)
        z_means = (z * inverse) @ self._means.T
        f_means = (f * inverse) @ self._means.T + (update * fz)[:, None] * z_means
        squares = inverse @ (self._means**2).T + update[:, None] * z_means**2
        # The class's own mean moves away from the image by z / (n - 1).
        grown = 1 + update * zz
        each = backend.arange(z, z.shape[0])
        squares[each, own] += (zz / (n - 1) - 2 * z_means[each, own]) * grown / (n - 1)
        f_means[each, own] -= fz * grown / (n - 1)
        return self._dim * (f_means - squares / 2)


def _sums(X: Array | Rows, y: Array, n_classes: int, basis: Array | None) -> Array:
    return sum(backend.sum_by_class(_samples(X, rows, basis), y[rows], n_classes) for rows in parts(X))


def _scatter(X: Array | Rows, y: Array, means: Array, basis: Array | None) -> Array:
    centred = (_samples(X, rows, basis) - means[y[rows]] for rows in parts(X))
    return sum(part.T @ part for part in centred)


def _samples(X: Array | Rows, rows: Array | slice, basis: Array | None) -> Array:
    """Some samples, in the span of all samples if that is smaller."""
    block = backend.cast(X[rows, :], backend.wide_dtype(X))
    return block if basis is None else block @ basis
