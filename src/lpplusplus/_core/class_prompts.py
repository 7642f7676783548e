"""Forms of `text=`: one embedding per class, or several prompts per class."""

from collections.abc import Iterable
from typing import Any

from . import backend, checks
from .backend import Array


def check_text(text: Any, like: Array | None = None) -> tuple[Array, Array | None]:
    """One unit embedding per class, (K, D); and those of all prompts, if there are several, (P, K, D).

    Parameters
    ----------
    text
        (K, D), one row per class; (P, K, D), P prompts of each; or a list with an array (P_k, D) for each class. In the
        result, zeros stand where a class has fewer prompts than another.
    like
        The images, with the same number of dimensions; the result has their precision and device.

    Examples
    --------
    >>> import numpy as np
    >>> text, prompts = check_text([np.array([[2.0, 0.0]]), np.array([[0.0, 1.0], [3.0, 4.0]])])
    >>> text.round(2).tolist(), prompts[1].round(2).tolist()
    ([[1.0, 0.0], [0.32, 0.95]], [[0.0, 0.0], [0.6, 0.8]])
    """
    if _depth(text) != 3:
        return _unit(text, "text", like), None
    parts = [_unit(part, f"text[{i}]", like) for i, part in enumerate(text)]
    if not parts:
        raise ValueError("text is empty: pass at least one prompt, with a row for each class.")
    if isinstance(text, list | tuple):
        prompts = backend.zeros(parts[0], (max(map(len, parts)), len(parts), parts[0].shape[1]))
        for k, part in enumerate(parts):
            if part.shape[1] != prompts.shape[2]:
                raise ValueError(f"text[{k}] has {part.shape[1]} columns, text[0] {prompts.shape[2]}: use one model.")
            prompts[: len(part), k, :] = part
    else:
        prompts = backend.namespace(parts[0]).stack(parts)
    if len(prompts) == 1:
        return prompts[0], None
    mean = backend.namespace(prompts).sum(prompts, axis=0)
    checks.check_no_zero_rows(mean, "the mean of the prompts in text")
    return backend.unit_rows(mean), prompts


def weighted(prompts: Iterable[Array], cosines: Array, factor: float) -> Array:
    """Σ_p exp(factor · cosine_pk) prompt_pk for each class, of unit length, (K, D); `cosines` are (P, K)."""
    xp = backend.namespace(cosines)
    weights = xp.exp(factor * (cosines - xp.max(cosines, axis=0)))
    return backend.unit_rows(sum(weight[:, None] * prompt for weight, prompt in zip(weights, prompts, strict=True)))


def _unit(rows: Any, name: str, like: Array | None) -> Array:
    rows = checks.check_embeddings(rows, name, dim=None if like is None else like.shape[-1])
    checks.check_no_zero_rows(rows, name)
    return backend.unit_rows(rows if like is None else backend.like(rows, like, dtype=like.dtype))


def _depth(text: Any) -> int:
    """Number of dimensions; a list has one more than its first element."""
    if isinstance(text, list | tuple):
        return 1 + (_depth(text[0]) if text else 0)
    return int(getattr(text, "ndim", 0))
