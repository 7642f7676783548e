"""Tip-Adapter's model: a cache of labelled images beside the text classifier.

    logits(f) = s·f·t_k + α Σ_{i: y_i = k} exp(-β (1 - f·key_i)),   s = 100, f and t_k unit, one key per example

Written once for numpy and for torch, where it can be differentiated.
"""

from ..._core import backend
from ..._core.backend import Array


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
