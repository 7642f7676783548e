"""The arguments of `fit`, unchanged: `extend` adds to them, and the result is that of a fit on everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import backend, checks, named_text
from .backend import Array

PRECISIONS = ("float16", "float32", "float64")


@dataclass(frozen=True, eq=False)
class Given:
    """Arguments of `fit`: copies, in their own precision."""

    X: Array
    """(N, D) embeddings, or (N, V, D) for V views; with places, one more axis before the last."""
    y: np.ndarray[Any, Any]
    """(N,) labels."""
    text: Array | list[Array] | None = None
    """(K, D), (P, K, D) or a list of (P_k, D), in the order of the classes."""
    X_val: Array | None = None
    y_val: np.ndarray[Any, Any] | None = None
    sample_weight: np.ndarray[Any, Any] | None = None
    unlabelled: Array | None = None
    """(n, D) embeddings without labels."""

    @classmethod
    def of(
        cls, X: Any, y: Any, *, text: Any = None, classes: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight: Any = None, unlabelled: Any = None,
    ) -> Given:  # fmt: skip
        """Copies of the arguments of `fit`, which has checked them."""
        X, X_val = kept(X), None if X_val is None else kept(X_val)
        labels = checks.check_labels(y, "y", len(X)).copy()
        text, _ = named_text.in_order(text, classes, labels)
        return cls(
            X,
            labels,
            [kept(part) for part in text] if _is_listed(text) else None if text is None else kept(text),
            X_val,
            None if y_val is None else checks.check_labels(y_val, "y_val", len(X_val)).copy(),
            None if sample_weight is None else np.array(backend.to_numpy(sample_weight), np.float64),
            None if unlabelled is None else kept(unlabelled),
        )

    def extended(self, X: Any, y: Any, text: Any, classes: Any, known: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Arguments for a fit on everything; `known` are the present classes."""
        X, labels = kept(X), checks.check_labels(y, "y", len(X))
        if X.shape[1:] != self.X.shape[1:]:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, and the classifier was fitted on {tuple(self.X.shape)}: give as many "
                f"dimensions, and views of each image, from the same model."
            )
        checks.check_labels(
            [*self.y[:1].tolist(), *labels.tolist()], "y", 1 + len(labels)
        )  # All strings, or all numbers.
        new = np.setdiff1d(labels, known)
        text, named = named_text.in_order(text, classes, new.tolist(), known.tolist())
        named = new if named is None else np.asarray(backend.to_numpy(named))
        order = _order(known, new, named)
        if classes is None and text is not None and len(_per_class(text)) == len(order):
            named = order
        weights = self.sample_weight
        if weights is not None:
            weights = np.concatenate([np.broadcast_to(weights, len(self.y)), np.ones(len(labels))])
        xp = backend.namespace(self.X)
        X = backend.like(X, self.X)
        kind = xp.result_type(self.X, X)
        return {
            "X": xp.concat([backend.cast(self.X, kind), backend.cast(X, kind)]),
            "y": np.concatenate([self.y, labels]),
            "text": self._text_of(order.tolist(), known.tolist(), text, named.tolist()),
            "classes": order,
            "X_val": self.X_val,
            "y_val": self.y_val,
            "sample_weight": weights,
            **({} if self.unlabelled is None else {"unlabelled": self.unlabelled}),
        }

    def _text_of(self, order: list[Any], known: list[Any], text: Any, named: list[Any]) -> Any:
        """Text of all classes: the existing text, and `text`, which belongs to the classes `named`."""
        if text is None and order == known:
            return self.text
        there: dict[Any, Any] = {}
        if self.text is not None:
            there = dict(zip(known, _per_class(self.text), strict=True))
        elif text is None:
            return None
        parts = [] if text is None else _per_class(text)
        if len(parts) not in (0, len(named)):
            raise ValueError(f"text has {len(parts)} rows for {len(named)} classes ({checks.some(named)}).")
        there |= {label: kept(part) for label, part in zip(named, parts, strict=False)}
        missing = [label for label in order if label not in there]
        if missing:
            raise ValueError(
                f"class {checks.some(missing[:1])} has no text ({len(missing)} such class(es) in all), and others "
                f"have: give text= for all classes, or for none."
            )
        rows = [backend.like(there[label], self.X) for label in order]
        if len({len(row) for row in rows}) > 1:
            return rows
        xp = backend.namespace(rows[0])
        return xp.concat(rows) if len(rows[0]) == 1 else xp.stack(rows, axis=1)

    def arrays(self, classes: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays for a file: labels are positions in `classes`; if numbers of prompts differ, all are stacked."""
        text = self.text
        found: dict[str, Any] = {"X": self.X, "X_val": self.X_val, "sample_weight": self.sample_weight}
        found["unlabelled"] = self.unlabelled
        if isinstance(text, list):
            found |= {"text": np.concatenate([backend.to_numpy(part) for part in text])}
            found |= {"prompts": np.array([len(part) for part in text])}
        else:
            found["text"] = text
        found["y"] = checks.encode_labels(self.y, classes, "y")
        if self.y_val is not None:
            found["y_val"] = checks.encode_labels(self.y_val, classes, "y_val")
        return {name: backend.to_numpy(value) for name, value in found.items() if value is not None}

    @classmethod
    def read(cls, arrays: dict[str, np.ndarray[Any, Any]], classes: np.ndarray[Any, Any], dim: int) -> Given:
        """The inverse of `arrays`; raises ValueError or KeyError unless everything fits together."""
        unknown = set(arrays) - {"X", "y", "text", "prompts", "X_val", "y_val", "sample_weight", "unlabelled"}
        if unknown or ("X_val" in arrays) != ("y_val" in arrays) or ("prompts" in arrays and "text" not in arrays):
            raise ValueError(f"arrays {sorted(arrays)} are not what a fit is given")
        for name, value in arrays.items():
            _check_kind(name, value, dim)
        X, held = arrays["X"], arrays.get("X_val")
        text: Any = arrays.get("text")
        for name, images in (("y", X), ("y_val", held), ("sample_weight", X)):
            if images is not None and name in arrays and (arrays[name].shape != images.shape[:1] or not images.size):
                raise ValueError(f"{name} has shape {arrays[name].shape}")
        labels = {name: _named(arrays[name], classes, name) for name in ("y", "y_val") if name in arrays}
        if "prompts" in arrays:
            text = _split(text, arrays["prompts"], len(classes))
        elif text is not None and text.shape[-2] != len(classes):
            raise ValueError(f"text has shape {text.shape} for {len(classes)} classes")
        return cls(
            X, labels["y"], text, held, labels.get("y_val"), arrays.get("sample_weight"), arrays.get("unlabelled")
        )


def _check_kind(name: str, value: np.ndarray[Any, Any], dim: int) -> None:
    whole = name in ("y", "y_val", "prompts")
    if value.dtype not in (("int64",) if whole else PRECISIONS):
        raise ValueError(f"{name} has entries of type {value.dtype}")
    if name == "unlabelled" and not value.size:
        raise ValueError("unlabelled has no rows")
    most = {"X": 4, "X_val": 4, "text": 3, "unlabelled": 2}.get(name)  # Views of an image, and places in a view.
    if most and (not 2 <= value.ndim <= most or value.shape[-1] != dim):
        raise ValueError(f"{name} has shape {value.shape}, but embeddings have {dim} dimensions")


def _split(text: np.ndarray[Any, Any], counts: np.ndarray[Any, Any], n_classes: int) -> list[np.ndarray[Any, Any]]:
    """The prompts of each class, from an array with all of them stacked."""
    fits = counts.shape == (n_classes,) and text.ndim == 2 and (counts > 0).all() and (counts <= len(text)).all()
    if not fits or counts.sum() != len(text):
        raise ValueError("prompts do not say how many rows of text each class has")
    return np.split(text, np.cumsum(counts)[:-1])


def kept(x: Any) -> Array:
    """A copy in the same precision, if a file can hold it; else in working precision."""
    x = backend.detached(x) if backend.is_foreign(x) else np.asarray(x)
    known = str(x.dtype).rpartition(".")[2] in PRECISIONS
    return backend.copy(x if known else backend.cast(x, backend.working_dtype(x)))


def _order(known: np.ndarray[Any, Any], new: np.ndarray[Any, Any], named: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All classes: in the order of `named` if that has all; sorted if `known` is; else with the new ones last."""
    if not set(known.tolist()) - set(named.tolist()):
        last = np.setdiff1d(new, named)
        return np.concatenate([named, last]) if len(last) else named
    more = [label for label in dict.fromkeys([*named.tolist(), *new.tolist()]) if label not in set(known.tolist())]
    if not more:
        return known
    everything = np.concatenate([known, np.array(more, known.dtype if known.dtype.kind == "O" else None)])
    in_order = np.unique(known)
    return np.unique(everything) if in_order.tolist() == known.tolist() else everything


def _is_listed(text: Any) -> bool:
    """Whether it is a list with the prompts of each class."""
    return isinstance(text, list | tuple) and getattr(text[0], "ndim", 0) == 2


def _per_class(text: Any) -> Sequence[Any]:
    """The prompts of each class, (P_k, D)."""
    if _is_listed(text):
        return text  # type: ignore[no-any-return]
    rows = text if backend.is_foreign(text) else np.asarray(text)
    return [rows[k : k + 1] if rows.ndim == 2 else rows[:, k] for k in range(rows.shape[-2])]


def _named(positions: np.ndarray[Any, Any], classes: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    if not ((positions >= 0) & (positions < len(classes))).all():
        raise ValueError(f"{name} names classes beyond the {len(classes)} that there are")
    return np.asarray(classes[positions])
