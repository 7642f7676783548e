"""Leading eigenpairs of a Gram matrix, and division by a function of its eigenvalues.

CLIP embeddings have one large common direction, so a few products with a thin block find the leading pairs. A full
eigendecomposition of a 1024 x 1024 matrix would cost as much as several passes over the support.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..._core import backend
from ..._core.backend import Array

COUNT = 32
"""Eigenvectors kept. On CLIP features the flow is as accurate with 32 as with all (docs/explanation/flow.md)."""
BLOCK = 40
"""Width of the block that is iterated."""
DENSE = 160
"""Operators up to this order are decomposed in full, which is cheaper than iterating."""
ROUNDS = 60
"""Iterations before a full decomposition is made instead."""


class Spectrum(NamedTuple):
    """Leading eigenpairs of a positive semi-definite operator of some order n."""

    values: Array
    """The min(COUNT + 1, n) largest eigenvalues, descending. The last stands for all that are left out."""
    vectors: Array
    """(n, min(COUNT, n)), orthonormal; if there are `duals`, in other coordinates than the operator's."""
    duals: Array | None = None
    """Products with these give a gradient's part along each of `vectors`; None if `vectors` themselves do."""

    def damp_(self, gradient: Array, strength: Array) -> None:
        """Divide column k of `gradient` by 1 + strength_k λ along each eigenvector, in place.

        Directions beyond `vectors` share the last of `values` as their λ.
        """
        count, duals = self.vectors.shape[1], self.vectors if self.duals is None else self.duals
        rest = 1 / (1 + strength * self.values[-1])
        along = 1 / (1 + strength[None, :] * self.values[:count, None]) - rest[None, :]
        correction = self.vectors @ (along * (duals.T @ gradient))
        gradient *= rest
        gradient += correction


def leading_eigenpairs(apply: Callable[[Array], Array], reference: Array, order: int) -> Spectrum:
    """Leading eigenpairs of the operator `apply` of order `order`, in the library and precision of `reference`.

    Restarted block Krylov iteration with Rayleigh–Ritz: from a block X, take the best approximations in the span of
    X and AX and start again from them. The largest eigenvalue is exact up to rounding: its error is at most the squared
    residual over the gap. The other pairs are less accurate, which is enough for a preconditioner.
    """
    xp = backend.namespace(reference)
    if order <= DENSE:
        return _dense(apply, reference, order)
    tolerance = 1e-13 if reference.dtype == xp.float64 else 1e-7
    X = backend.like(_first_block(order), reference, dtype=reference.dtype)
    power = apply(X)
    for _ in range(ROUNDS):
        # Without the projection AX would be close to the first eigenvector only. Done twice because of rounding.
        more, _ = xp.linalg.qr(power - X @ (X.T @ power))
        more -= X @ (X.T @ more)
        basis, product = xp.concat([X, more], axis=1), xp.concat([power, apply(more)], axis=1)
        values, mix = xp.linalg.eigh(basis.T @ product)
        values, mix = xp.flip(values, axis=0)[:BLOCK], xp.flip(mix, axis=1)[:, :BLOCK]
        X, power = basis @ mix, product @ mix
        top, gap = float(values[0]), float(values[0] - values[1])
        residual = float(xp.linalg.vector_norm(power[:, 0] - top * X[:, 0]))
        if residual**2 <= tolerance * top * gap or residual <= tolerance * top:
            return Spectrum(values[: COUNT + 1], X[:, :COUNT])
    return _dense(apply, reference, order)


@lru_cache(maxsize=2)
def _first_block(order: int) -> np.ndarray[Any, Any]:
    """Where the iteration starts: the same for all folds of a fit."""
    return np.linalg.qr(np.random.default_rng(0).standard_normal((order, BLOCK)))[0]


def _dense(apply: Callable[[Array], Array], reference: Array, order: int) -> Spectrum:
    xp = backend.namespace(reference)
    identity = backend.like(np.eye(order), reference, dtype=reference.dtype)
    values, vectors = xp.linalg.eigh(apply(identity))
    values = xp.flip(values, axis=0)[: COUNT + 1]
    return Spectrum(xp.maximum(values, 0 * values), xp.flip(vectors, axis=1)[:, :COUNT])
