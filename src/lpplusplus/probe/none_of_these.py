"""None of these: does an image show one of the classes at all?

Three scores, called witnesses. Each is higher for members, that is, images of one of the classes:

    logits   max_k z_k - mean_k z_k
    images   - min_k d_k / mean_k d_k,   d_k = (|f - m_k|² - |A (f - m_k)|²) n_k / (n_k + 1)
    names    max_k f·t_k

m_k is the mean of class k's n_k images. The rows of A are the directions in which images of one class differ most, with
lengths such that these directions hardly count, as in the within-class metric (`metric`). The factor with n_k corrects
for the error of a mean of few images. An image's score is the mean of the witnesses, standardised by their mean and
standard deviation over held-out members. The scores of held-out members set the threshold.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from .._core import backend
from .._core.backend import Array
from .._core.rows import Rows, sum_by_class, times

DIRECTIONS = 16
"""Largest number of rows of A. More would change nothing but the size of saved files."""
MOST_ROWS = 512
"""Images that A is computed from; if there are more, every n-th."""
ROUNDS = 4
"""Products used to find its directions. They need not be exact: the next directions would do hardly worse."""


@dataclass(frozen=True)
class Neighbourhood:
    """Where the images of each class are."""

    means: Array
    """(K, D); zero for a class without examples."""
    counts: Array
    """(K,) examples of each class, or their weight."""
    scatter: Array
    """A, (R, D)."""

    @classmethod
    def of(cls, F: Array | Rows, y: Array, n_classes: int, weights: Array | None = None) -> "Neighbourhood":
        """The neighbourhood of labelled images; one with a weight of 3 is like three copies."""
        means = backend.to_numpy(sum_by_class(F if weights is None else times(F, weights), y, n_classes))
        y, often = backend.to_numpy(y), None if weights is None else backend.to_numpy(weights)
        counts = np.bincount(y, often, minlength=n_classes).astype(means.dtype)
        means = means / np.where(counts > 0, counts, 1)[:, None]
        step = -(-len(y) // MOST_ROWS)
        apart = backend.to_numpy(F[::step, :]) - means[y[::step]]
        if often is not None:
            apart = apart * np.sqrt(often[::step])[:, None]
        gram = apart @ apart.T
        variance = float(np.trace(gram)) / F.shape[1]
        size = min(DIRECTIONS, len(gram))
        values, vectors = _leading(gram, size)
        real = values > 1e-6 * max(variance, 1e-30)
        values, vectors = values[real], vectors[:, real]
        # Squared, values / (variance + values) for unit directions; those of `apart` have length √values.
        lengths = np.sqrt(values / (variance + values) / values)
        return cls(means, counts, ((vectors * lengths).T @ apart).astype(means.dtype))

    def nearness(self, F: Array) -> Array:
        """The witness "images", (n,)."""
        xp = backend.namespace(F)
        means, counts, scatter = (
            backend.like(part, F, dtype=F.dtype) for part in (self.means, self.counts, self.scatter)
        )
        inside, centres = F @ scatter.T, means @ scatter.T
        squares = backend.squared_lengths(F) - backend.squared_lengths(inside)
        d = squares[:, None] - 2 * (F @ means.T - inside @ centres.T)
        d = d + (backend.squared_lengths(means) - backend.squared_lengths(centres))[None, :]
        d = (d * (counts / (counts + 1)))[:, counts > 0]
        mean = xp.mean(d, axis=1)
        return -xp.min(d, axis=1) / (mean + (mean == 0))  # 0 where all images are the same one.


def _leading(gram: np.ndarray[Any, Any], size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The largest eigenvalues and their vectors; for a large matrix by a few products with a thin block."""
    basis = np.eye(len(gram), dtype=gram.dtype)
    if len(gram) > 8 * size:
        basis = np.random.default_rng(0).standard_normal((len(gram), 2 * size)).astype(gram.dtype)
        for _ in range(ROUNDS):
            basis, _ = np.linalg.qr(gram @ basis)
    values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
    return values[-size:], (basis @ vectors)[:, -size:]


def evidence(logits: Array, nearness: Array, names: Array | None) -> Array:
    """The witnesses, (n, 3); (n, 2) without `names`, the products of images and names.

    >>> evidence(np.array([[5.0, 1.0]]), np.array([-0.2]), np.array([[0.4, 0.2]])).round(3).tolist()
    [[2.0, -0.2, 0.4]]
    """
    xp = backend.namespace(logits)
    columns = [xp.max(logits, axis=1) - xp.mean(logits, axis=1), nearness]
    if names is not None:
        columns.append(xp.max(names, axis=1))
    return xp.stack(columns, axis=1)


def familiarity(seen: Array, held_out: np.ndarray[Any, Any]) -> Array:
    """An image's score, (n,): the mean of its `evidence`, standardised over held-out members.

    >>> held_out = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> familiarity(np.array([[4.0, 20.0]]), held_out).tolist()
    [1.0]
    """
    centre, deviation = held_out.mean(axis=0), held_out.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1)
    centre, deviation = (backend.like(part, seen, dtype=seen.dtype) for part in (centre, deviation))
    return backend.namespace(seen).mean((seen - centre) / deviation, axis=1)


def lowest_familiarity(scores: np.ndarray[Any, Any], false_alarms: float) -> float:
    """The score below which an image is none of these: the quantile `false_alarms` of members' scores.

    It lies between the scores of two held-out members. If there are too few, it is the quantile of a normal
    distribution fitted to them.

    >>> lowest_familiarity(np.arange(19.0), 0.1)
    1.0
    >>> round(lowest_familiarity(np.arange(19.0), 0.01), 2)
    -5.74
    """
    n, scores = len(scores), np.sort(scores)
    rank = (n + 1) * false_alarms
    if 1 <= rank <= n:
        return float(np.interp(rank, np.arange(1, n + 1), scores))
    if n < 2:
        return -math.inf
    step = float(scipy.special.stdtrit(n - 1, false_alarms)) * math.sqrt(1 + 1 / n)
    return float(scores.mean() + step * scores.std(ddof=1))
