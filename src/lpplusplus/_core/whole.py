"""Parameters of `fit` that scikit-learn must not cut.

`cross_val_score`, `GridSearchCV` and the like take the rows of each fold from every parameter of `fit` that has as many
rows as X. They would cut, without a warning, a validation set of the size of the support (LP++'s own protocol), and
text if there are as many images as classes. `fit` cannot see this in its arguments, so it looks at its callers.
"""

import inspect
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True, eq=False)
class Whole:
    """An array that scikit-learn passes on as it is: it has no length to compare with that of X.

    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from lpplusplus import LPPlusPlus, Whole
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> scores = cross_val_score(LPPlusPlus(), X, y, cv=2, params={"X_val": Whole(X), "y_val": Whole(y)})
    """

    array: Any


def whole(X: Any, **given: Any) -> dict[str, Any]:
    """The arguments of `fit`, without wrapping; raises for a parameter that was cut."""
    n = _length(X)
    for name, value in given.items():
        if _length(value) == n is not None and _was_cut(name, n):
            raise ValueError(
                f"{name} was cut: it has as many rows as X, so scikit-learn took the rows of a fold from both. Pass "
                f"{name}=lpplusplus.Whole({name}), which it does not cut."
            )
    return {name: value.array if isinstance(value, Whole) else value for name, value in given.items()}


def _length(value: Any) -> int | None:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if hasattr(value, "__len__") else None


def _was_cut(name: str, length: int) -> bool:
    """Whether scikit-learn called `fit` for a fold, and had more rows of this parameter."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "sklearn.utils.parallel":  # What runs one fold, with the arguments for all of them.
            passed = [item for part in frame.f_locals.values() for item in _items(part) if isinstance(item, dict)]
            # In a pipeline the name has the step before it.
            before = [
                _length(value) for item in passed for key, value in item.items() if f"__{key}".endswith(f"__{name}")
            ]
            return any(n != length for n in before)
        if module.partition(".")[0] not in ("lpplusplus", "sklearn", "contextlib"):
            return False  # Another library's call, which chose the rows itself.
        frame = frame.f_back
    return False


def _items(part: Any) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else list(part) if isinstance(part, tuple) else []
