"""Class-name embeddings by class: a dictionary, or a data frame with the classes as its index."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import backend, checks


def in_order(text: Any, classes: Any, y: Any, known: Any = ()) -> tuple[Any, Any]:
    """Rows of `text` in the order of the classes, and these classes; both unchanged if `text` has no names.

    A data frame's index names the classes if it has any of them, or of `known`, those that are there already. pandas'
    default index 0, 1, … is no name.
    """
    if isinstance(text, Mapping):
        if not text:
            raise ValueError("text is an empty dictionary: give one embedding per class.")
        names, rows = list(text), _stacked(text)
    else:
        names, rows = (text.index.tolist(), text) if hasattr(text, "columns") and hasattr(text, "index") else ([], text)
        if names == list(range(len(names))):
            return text, classes
    wanted = _listed(y if classes is None else classes)
    possible = {*wanted, *known}
    if possible and not isinstance(text, Mapping) and not possible & set(names):
        return text, classes
    given = checks.check_labels(names, "the names of text", len(names))
    known = np.unique(given) if classes is None else classes
    _check_names(names, wanted, closed=classes is not None)
    position = {name: i for i, name in enumerate(names)}
    order = [position[label] for label in _listed(known)]
    return (rows.iloc[order] if hasattr(rows, "iloc") else rows[order]), known


def _check_names(names: list[Any], wanted: list[Any], *, closed: bool) -> None:
    """Raise unless every wanted class has one name; `closed` if there may be no others."""
    which, what, why = [label for label in wanted if label not in set(names)], "has no embedding of", ""
    if not which and closed:
        which, what, why = [name for name in names if name not in set(wanted)], "names", " which is not in classes"
    if not which:
        which, what, why = [name for name in names if names.count(name) > 1], "names twice", ""
    if which:
        raise ValueError(
            f"text {what} {checks.some(which[:1])}{why} ({len(set(which))} such class(es) in all): give one embedding "
            f"for each class by its name, or an array in the order of the classes."
        )


def _listed(labels: Any) -> list[Any]:
    labels = backend.to_numpy(labels) if backend.is_foreign(labels) else labels
    return list(labels.tolist() if hasattr(labels, "tolist") else labels)


def _stacked(text: Mapping[Any, Any]) -> Any:
    """The vectors of a dictionary as one array."""
    vectors = list(text.values())
    shapes = {tuple(np.shape(vector)) for vector in vectors}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ValueError("text must have one vector per class, all of the same length.")
    return backend.namespace(vectors[0]).stack(vectors) if backend.is_foreign(vectors[0]) else np.stack(vectors)
