"""Tip-Adapter's model as plain functions: a cache of labelled images beside the text classifier.

    logits(f) = s·f·t_k + α Σ_{i: y_i = k} exp(-β (1 - f·key_i))

with s = 100, unit f and t_k, one key an example. Written once for numpy and torch, where it can be differentiated.
The grid search finds, for each image and β, the interval of α in which the image is right: its margin over each other
class is linear in α. One pass over the classes thus answers all α at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _arrays
from .._arrays import Array
from ..objective import rows_per_chunk


def cache_scores(cosines: Array, values: Array, beta: Any, n_classes: int) -> Array:
    """Σ over the keys of each class of exp(-β(1 - cosine)), (n, K), from the cosines of keys and images, (N, n)."""
    xp = _arrays.namespace(cosines)
    return _arrays.sum_by_class(xp.exp(-beta * (1 - cosines)), values, n_classes).T


def cache_logits(F: Array, names: Array, keys: Array, values: Array, alpha: Any, beta: Any) -> Array:
    """Logits of unit images `F`, (n, K).

    Parameters
    ----------
    F : (n, D)
    names : (K, D)
        Class directions times the logit scale.
    keys : (N, D)
    values : (N,)
        Class of each key.
    alpha, beta
        Weight and sharpness of the cache.
    """
    return F @ names.T + alpha * cache_scores(keys @ F.T, values, beta, names.shape[0])


class Best(NamedTuple):
    """The winner of a grid search."""

    alpha: float
    beta: float
    accuracy: float


def steps(start: float, top: float, count: int) -> np.ndarray[Any, Any]:
    """`count` equal steps from `start` towards `top`, which is not reached: Tip-Adapter's grid."""
    return start + np.arange(count) * (top - start) / count


def count_hits(
    names_logits: Array, cosines: Array, values: Array, y: Array, alphas: np.ndarray[Any, Any], betas: Any
) -> np.ndarray[Any, Any]:
    """Images that are right at each point of a grid, (betas, alphas).

    Parameters
    ----------
    names_logits : (n, K)
        The text's part of the logits.
    cosines : (N, n)
        Of every key with every image; computed once for the whole grid. -inf for a key that an image must not see.
    values : (N,)
        Class of each key.
    y : (n,)
        Class of each image.
    alphas : increasing
    """
    n_classes, n = names_logits.shape[1], y.shape[0]
    hits = np.zeros((len(betas), len(alphas)), dtype=np.int64)
    y = _arrays.to_numpy(y)
    height = max(1, rows_per_chunk(max(n_classes, values.shape[0])))
    for low in range(0, n, height):
        rows = slice(low, min(low + height, n))
        own = y[rows]
        everyone = np.arange(len(own))
        text = _arrays.to_numpy(names_logits[rows, :]).astype(np.float64)
        constant = text[everyone, own][:, None] - text
        # Of equal logits the first class wins, so a class before the own one must be beaten, not only equalled.
        must_beat = np.arange(n_classes) < own[:, None]
        constant[everyone, own] = np.inf
        block = cosines[:, rows]
        for i, beta in enumerate(betas):
            cache = _arrays.to_numpy(cache_scores(block, values, float(beta), n_classes)).astype(np.float64)
            slope = cache[everyone, own][:, None] - cache
            first, stop = _right_between(constant, slope, must_beat, alphas)
            edges = np.bincount(first, minlength=len(alphas) + 1) - np.bincount(stop, minlength=len(alphas) + 1)
            hits[i] += np.cumsum(edges)[: len(alphas)]
    return hits


def best_of(hits: np.ndarray[Any, Any], alphas: np.ndarray[Any, Any], betas: np.ndarray[Any, Any], n: int) -> Best:
    """The first of the highest counts, β in the outer loop, as the double loop with a strict > has it."""
    i, j = np.unravel_index(int(np.argmax(hits)), hits.shape)
    return Best(float(alphas[j]), float(betas[i]), float(hits[i, j]) / n)


def _right_between(
    constant: np.ndarray[Any, Any],
    slope: np.ndarray[Any, Any],
    must_beat: np.ndarray[Any, Any],
    alphas: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """First index of `alphas` at which each image is right, and the first after that at which it no longer is.

    The image is right where constant + α·slope is positive for every class, or zero for a class that comes later.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -constant / slope
    rising, falling = slope > 0, slope < 0
    never = (slope == 0) & np.where(must_beat, constant <= 0, constant < 0)
    # All bounds strict: one that may be met exactly moves by the last bit.
    above = np.where(must_beat, crossing, np.nextafter(crossing, -np.inf))
    below = np.where(must_beat, crossing, np.nextafter(crossing, np.inf))
    low = np.where(rising, above, -np.inf).max(axis=1)
    high = np.where(falling, below, np.inf).min(axis=1)
    high[never.any(axis=1)] = -np.inf
    first = np.searchsorted(alphas, low, side="right")
    stop = np.searchsorted(alphas, high, side="left")
    return first, np.maximum(first, stop)
