"""`text=` in all its forms: one embedding per class or several prompts of each, by position or by name."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from . import backend, checks
from .backend import Array
from .folds import first_of_each_class

ENOUGH_TO_COMPARE = 8
"""Images of a class that are compared with the names."""
FEWEST_CLASSES = 4
"""With fewer classes, names that mean nothing look too often like names in another order."""
CLEARLY = 0.25
"""Another reading fits clearly better if the names of this part of the classes more fit their images best. Names
contradict the labels as a whole if those of less than this part do."""
MOSTLY = 0.7
"""Names in another order are different names for at least this part of the classes; names that mean nothing seldom."""
STANDS_OUT = 3.0
"""How many standard deviations the cosine with the best name must lie above the others."""

Text: TypeAlias = Any
"""As it was given, checked: (K, D) embeddings of the classes; (P, K, D), of P prompts of each; or, if numbers of
prompts differ, a list with an array (P_k, D) for each class."""


def read_text(
    text: Any, y: Any, classes: Any, *, known: Iterable[Any] = (), dim: int | None = None
) -> tuple[Text, Any]:
    """`text` in the order of the classes, and these classes: `classes` itself if `text` has no names.

    Parameters
    ----------
    text
        (K, D), one row per class; (P, K, D), P prompts of each; a list with the prompts (P_k, D) of each class; a
        dictionary from class to vector or prompts; a data frame whose index names the classes. An index names the
        classes if it has any of them, or of `known`; pandas' default index 0, 1, … is no name.
    y
        Labels, for text by name without `classes`.
    known
        Classes that are there already.
    dim
        Dimensions of the images.
    """
    if text is None:
        return None, classes
    names: list[Any] = []
    if isinstance(text, Mapping):
        if not text:
            raise ValueError("text is an empty dictionary: give one embedding per class.")
        names, by_name = list(text), True
        vectors = _vectors([*text.values()], dim)
    else:
        vectors = _vectors(text, dim)
        if hasattr(text, "columns") and hasattr(text, "index"):
            names = text.index.tolist()
        by_name = names != list(range(len(names)))
    wanted = _listed(y if classes is None else classes)
    possible = {*wanted, *known}
    if not by_name or (possible and not isinstance(text, Mapping) and not possible & set(names)):
        return vectors, classes
    given = checks.check_labels(names, "the names of text", len(names))
    _check_names(names, wanted, closed=classes is not None, also=checks.of_sklearn(np.asarray(wanted), names))
    ordered = np.unique(given) if classes is None else classes
    position = {name: i for i, name in enumerate(names)}
    return _taken(vectors, [position[label] for label in _listed(ordered)]), ordered


def _taken(vectors: Text, order: list[int]) -> Text:
    """The prompts of these classes, in this order."""
    if isinstance(vectors, list):
        return [vectors[i] for i in order]
    return vectors[order, :] if vectors.ndim == 2 else vectors[:, order, :]


def check_text(text: Any, like: Array | None = None) -> tuple[Array, Array | None]:
    """One unit embedding per class, (K, D); and those of all prompts, if there are several, (P, K, D).

    Parameters
    ----------
    text
        By position, as in `read_text`. In the result, zeros stand where a class has fewer prompts than another.
    like
        The images, with the same number of dimensions; the result has their precision and device.

    Examples
    --------
    >>> import numpy as np
    >>> text, prompts = check_text([np.array([[2.0, 0.0]]), np.array([[0.0, 1.0], [3.0, 4.0]])])
    >>> text.round(2).tolist(), prompts[1].round(2).tolist()
    ([[1.0, 0.0], [0.32, 0.95]], [[0.0, 0.0], [0.6, 0.8]])
    """
    return unit_text(_vectors(text, None if like is None else like.shape[-1]), like)


def unit_text(text: Text, like: Array | None = None) -> tuple[Array, Array | None]:
    """`check_text` of text that is checked."""
    if isinstance(text, list):
        padded = backend.zeros(text[0], (max(map(len, text)), len(text), text[0].shape[1]))
        for k, part in enumerate(text):
            padded[: len(part), k, :] = part
        text = padded
    if like is None:
        text = backend.cast(text, backend.working_dtype(text))
    else:
        text = backend.like(text, like, dtype=like.dtype)
    if text.ndim == 2:
        return backend.unit_rows(text), None
    prompts = backend.unit_vectors(text)
    mean = backend.namespace(prompts).sum(prompts, axis=0)
    checks.check_no_zero_rows(mean, "the mean of the prompts in text")
    return backend.unit_rows(mean), prompts


def warn_of_order(X: Array, y: Array, text: Text, unit: Array, *, stacklevel: int = 4) -> None:
    """Warn if the text fits the images clearly better in another order, of its axes or of its rows.

    `unit` are the class names of unit length. A few images of each class are looked at. Cosines are compared less what
    an image has in common with all names, and a name with all images. Names that mean nothing stand out from none.
    """
    rows = first_of_each_class(backend.to_numpy(y), ENOUGH_TO_COMPARE)
    present, labels = np.unique(backend.to_numpy(y)[rows], return_inverse=True)
    if len(present) < FEWEST_CLASSES:
        return
    F = backend.unit_rows(X[backend.like(rows, y), :])
    means = backend.unit_rows(backend.sum_by_class(F, backend.like(labels, y), len(present)))
    classes = np.arange(len(present))

    def right(names: Array) -> tuple[np.ndarray[Any, Any], float]:
        """How names fit classes, and for what part of the classes the best is their own."""
        scores = backend.to_numpy(means @ names[backend.like(present, y), :].T).astype(np.float64)
        scores -= scores.mean(axis=0)
        scores -= scores.mean(axis=1, keepdims=True)
        return scores, float((scores.argmax(axis=1) == classes).mean())

    scores, part = right(unit)
    shape = (len(text), 0) if isinstance(text, list) else tuple(text.shape)
    if shape[0] == shape[1]:
        other = text.T if len(shape) == 2 else backend.namespace(text).permute_dims(text, (1, 0, 2))
        if right(unit_text(other, unit)[0])[1] > part + CLEARLY:
            remedy = "text.T: a row for each class" if len(shape) == 2 else "text.swapaxes(0, 1): prompts first"
            warnings.warn(
                f"text has shape {shape}, which can be read in two ways, and the other one fits the images better: "
                f"pass {remedy}.",
                stacklevel=stacklevel,
            )
            return
    best = scores.argmax(axis=1)
    matched = np.zeros(scores.shape, bool)
    matched[classes, best] = True
    if part >= CLEARLY or len(np.unique(best)) < MOSTLY * len(present):
        return
    if scores[matched].mean() - scores[~matched].mean() > STANDS_OUT * scores[~matched].std():
        warnings.warn(
            "nearly every name fits the images of another class best, and each those of a different one: are the rows "
            "of text in the order of the classes, which by default are the sorted labels? Give text by name, "
            "text={label: embedding}, or the order of its rows in classes=[...].",
            stacklevel=stacklevel,
        )


def joined_text(mine: Text, known: list[Any], more: Text, named: list[Any], order: list[Any]) -> Text:
    """Text of the classes `order`: `mine` is that of `known`, `more` that of `named`."""
    if more is None and order == known:
        return mine
    if more is None and mine is None:
        return None
    parts = [] if more is None else _per_class(more)
    if len(parts) not in (0, len(named)):
        raise ValueError(f"text has {len(parts)} rows for {len(named)} classes ({checks.some(named)}).")
    there = {} if mine is None else dict(zip(known, _per_class(mine), strict=True))
    there |= dict(zip(named, parts, strict=False))
    missing = [label for label in order if label not in there]
    if missing:
        raise ValueError(
            f"class {checks.some(missing[:1])} has no text ({len(missing)} such class(es) in all), and others "
            f"have: give text= for all classes, or for none."
        )
    return _together([there[label] for label in order])


def weighted(prompts: Iterable[Array], cosines: Array, factor: float) -> Array:
    """Σ_p exp(factor · cosine_pk) prompt_pk for each class, of unit length, (K, D); `cosines` are (P, K)."""
    xp = backend.namespace(cosines)
    weights = xp.exp(factor * (cosines - xp.max(cosines, axis=0)))
    return backend.unit_rows(sum(weight[:, None] * prompt for weight, prompt in zip(weights, prompts, strict=True)))


def _vectors(text: Any, dim: int | None) -> Text:
    """Text by position, checked."""
    depth, listed = _depth(text), isinstance(text, list | tuple)
    if depth != 3:
        if listed and text and backend.is_foreign(text[0]):
            text = backend.namespace(text[0]).stack([*text])
        _check_lengths(text)
        _check_orientation(text, dim)
        return _checked(text, "text", dim)
    parts = [_checked(part, f"text[{i}]", dim) for i, part in enumerate(text)]
    if not parts:
        raise ValueError("text is empty: pass at least one prompt, with a row for each class.")
    for i, part in enumerate(parts):
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"text[{i}] has {part.shape[1]} columns, text[0] {parts[0].shape[1]}: use one model.")
    if listed:
        return _together(parts)
    return parts[0] if len(parts) == 1 else backend.namespace(parts[0]).stack(parts)


def _checked(rows: Any, name: str, dim: int | None) -> Array:
    rows = checks.check_rows(rows, name, dim=dim)
    checks.check_no_zero_rows(rows, name)
    return rows


def _together(parts: list[Array]) -> Text:
    """The prompts of each class in one array, if all have the same number."""
    xp = backend.namespace(parts[0])
    parts = [backend.like(part, parts[0]) for part in parts]
    kind = xp.result_type(*{part.dtype: part for part in parts}.values())
    parts = [backend.cast(part, kind) for part in parts]
    if len({len(part) for part in parts}) > 1:
        return parts
    return xp.concat(parts) if len(parts[0]) == 1 else xp.stack(parts, axis=1)


def _per_class(text: Text) -> list[Array]:
    """The prompts of each class, (P_k, D)."""
    if isinstance(text, list):
        return text
    return [text[k : k + 1, :] if text.ndim == 2 else text[:, k, :] for k in range(text.shape[-2])]


def _check_orientation(text: Any, dim: int | None) -> None:
    """Raise for embeddings in columns, as in the `zeroshot_weights` of CLIP's own examples."""
    shape = np.shape(text) if isinstance(text, list | tuple) else tuple(getattr(text, "shape", ()))
    if len(shape) == 2 and shape[0] == dim != shape[1]:
        raise ValueError(
            f"text has shape {shape}, and the images have {dim} columns: each class needs a row of its own, and here "
            f"it has a column, as in CLIP's zeroshot_weights. Transpose it: text=text.T."
        )


def _check_lengths(text: Any) -> None:
    lengths = {np.shape(part) for part in text} if isinstance(text, list | tuple) else set()
    if len(lengths) > 1:
        raise ValueError(
            f"text has parts of shapes {checks.some(sorted(lengths))}: give one vector per class, all of the same "
            f"length, or the prompts of each class as an array with a row for each."
        )


def _check_names(names: list[Any], wanted: list[Any], *, closed: bool, also: str) -> None:
    """Raise unless every wanted class has one name; `closed` if there may be no others."""
    which, what, why = [label for label in wanted if label not in set(names)], "has no embedding of", ""
    if not which and closed:
        which, what, why = [name for name in names if name not in set(wanted)], "names", " which is not in classes"
    if not which:
        which, what, why = [name for name in names if names.count(name) > 1], "names twice", ""
    if which:
        raise ValueError(
            f"text {what} {checks.some(which[:1])}{why} ({len(set(which))} such class(es) in all): give one embedding "
            f"for each class by its name, or an array in the order of the classes.{also}"
        )


def _listed(labels: Any) -> list[Any]:
    labels = backend.to_numpy(labels) if backend.is_foreign(labels) else labels
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)


def _depth(text: Any) -> int:
    """Number of dimensions; a list has one more than its first element."""
    if isinstance(text, list | tuple):
        return 1 + (_depth(text[0]) if text else 0)
    return int(getattr(text, "ndim", 0))
