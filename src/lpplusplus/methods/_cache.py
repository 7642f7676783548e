"""Tip-Adapter's model, a cache of labelled images beside the text classifier, and the search for its α and β.

    logits(f) = s·f·t_k + α Σ_{i: y_i = k} exp(-β (1 - f·key_i)),   s = 100, f and t_k unit, one key per example

The model is written once for numpy and for torch, where it can be differentiated. For one image and one β, the margin
over each other class is linear in α, so the image is right in an interval of α. One pass over the classes finds the
interval and thus answers for all α at once.
"""

from typing import Any

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.threads import rows_per_chunk

Numbers = np.ndarray[Any, Any]


def cache_scores(cosines: Array, values: Array, beta: float, n_classes: int) -> Array:
    """Σ over the keys of each class of exp(-β(1 - cosine)), (n, K), from the cosines of keys with images, (N, n)."""
    xp = backend.namespace(cosines)
    return backend.sum_by_class(xp.exp(-beta * (1 - cosines)), values, n_classes).T


def cache_logits(F: Array, names: Array, keys: Array, values: Array, alpha: float, beta: float) -> Array:
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


def grid(start: float, top: float, count: int) -> Numbers:
    """`count` values in equal steps from `start`; `top` would be the next one. This is Tip-Adapter's grid."""
    return start + np.arange(count) * (top - start) / count


def count_hits(
    names_logits: Array, cosines: Array, values: Array, y: Array, alphas: Numbers, betas: Numbers
) -> Numbers:
    """Number of images that are right at each pair, (betas, alphas).

    Parameters
    ----------
    names_logits : (n, K)
        The text's part of the logits.
    cosines : (N, n)
        Cosine of every key with every image; -inf hides a key from an image.
    values : (N,)
        Class of each key.
    y : (n,)
        Class of each image.
    alphas : increasing
    betas
    """
    n_classes, n = names_logits.shape[1], y.shape[0]
    hits = np.zeros((len(betas), len(alphas)), dtype=np.int64)
    y = backend.to_numpy(y)
    height = rows_per_chunk(max(n_classes, values.shape[0]))
    for low in range(0, n, height):
        rows = slice(low, min(low + height, n))
        own = y[rows]
        everyone = np.arange(len(own))
        text = backend.to_numpy(names_logits[rows, :]).astype(np.float64)
        constant = text[everyone, own][:, None] - text
        # Of equal logits the first class wins: a class before the image's own must be beaten, not only equalled.
        must_beat = np.arange(n_classes) < own[:, None]
        constant[everyone, own] = np.inf
        block = cosines[:, rows]
        for i, beta in enumerate(betas):
            cache = backend.to_numpy(cache_scores(block, values, float(beta), n_classes)).astype(np.float64)
            slope = cache[everyone, own][:, None] - cache
            first, stop = _right_between(constant, slope, must_beat, alphas)
            edges = np.bincount(first, minlength=len(alphas) + 1) - np.bincount(stop, minlength=len(alphas) + 1)
            hits[i] += np.cumsum(edges)[: len(alphas)]
    return hits


def best_of(hits: Numbers, alphas: Numbers, betas: Numbers, n: int) -> tuple[float, float, float]:
    """α, β and accuracy of the first pair with the most hits: what a double loop, β outside, finds with a strict >."""
    i, j = np.unravel_index(int(np.argmax(hits)), hits.shape)
    return float(alphas[j]), float(betas[i]), float(hits[i, j]) / n


def _right_between(constant: Numbers, slope: Numbers, must_beat: Numbers, alphas: Numbers) -> tuple[Numbers, Numbers]:
    """First index of `alphas` at which each image is right, and the first after that at which it no longer is.

    An image is right where constant + α·slope is positive for every class, or zero for a class that comes later.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -constant / slope
    rising, falling = slope > 0, slope < 0
    never = (slope == 0) & np.where(must_beat, constant <= 0, constant < 0)
    # All bounds are strict. A bound that may be reached is moved by the last bit.
    above = np.where(must_beat, crossing, np.nextafter(crossing, -np.inf))
    below = np.where(must_beat, crossing, np.nextafter(crossing, np.inf))
    low = np.where(rising, above, -np.inf).max(axis=1)
    high = np.where(falling, below, np.inf).min(axis=1)
    high[never.any(axis=1)] = -np.inf
    first = np.searchsorted(alphas, low, side="right")
    stop = np.searchsorted(alphas, high, side="left")
    return first, np.maximum(first, stop)
