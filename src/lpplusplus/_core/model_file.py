"""One file per classifier: arrays in safetensors, everything else as JSON in its header. Nothing is ever unpickled.

Format 2. The header's metadata has one entry, `lpplusplus`: a JSON object with `version` (2), `digest` (SHA-256 of the
arrays and of `model`) and `model`: the estimator's name, its parameters, the classes and their dtype, scalar fitted
attributes, and the user's own metadata. A solver given as an object is `{"solver": name, **its parameters}`, one from
outside the package `{"foreign": "module.Class"}`. Arrays whose names begin with `given.` are what `fit` was given
(`task.Task.arrays`); they may be left out, all together. Format 1 has none. A reader refuses a version that it does
not know.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy

from . import backend
from .backend import Array
from .errors import BriefError
from .files import atomic_write, canonical_json, open_regular
from .parameters import check_parameters
from .task import Task

if TYPE_CHECKING:
    from .base import FewShotClassifier

KEY, VERSION, FIRST = "lpplusplus", 2, 1
PREFIX = "given."
"""Prefix of the names of arrays that are arguments of `fit`."""
LARGEST_FILE = 8 * 2**30
"""Bytes. A cache of 16 images of each of ImageNet's 21 000 classes in double precision takes 3 GB, and the arguments of
`fit` take as much."""
LARGEST_HEADER = 32 * 2**20
LARGEST_LABELS = 2**30
"""Bytes of an array of labels; numpy gives each the room of the longest."""
DEEPEST = 64
"""Largest depth of nested lists and dictionaries."""


class ModelFormatError(BriefError, ValueError):
    """A file is not a classifier of this package, is damaged, or is of a newer format.

    >>> issubclass(ModelFormatError, ValueError)
    True
    """


def save(
    estimator: FewShotClassifier,
    path: str | PathLike[str],
    metadata: dict[str, Any] | None = None,
    *,
    support: bool = True,
) -> None:
    """Write a fitted estimator; see `FewShotClassifier.save`."""
    kind = type(estimator)
    if method(kind.__name__) is not kind:
        raise ValueError(
            f"{kind.__module__}.{kind.__qualname__} is not one of lpplusplus's own classifiers, so `load` would not "
            f"know it: save one of those, or its coef_ and intercept_ in your own way."
        )
    arrays = {name: getattr(estimator, name) for name in estimator.fitted_arrays}
    task = vars(estimator).get("task_")
    if support and task is not None:
        arrays |= {PREFIX + name: value for name, value in task.arrays().items()}
    arrays = {name: _native(value) for name, value in arrays.items() if value is not None}
    for name, value in arrays.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has non-finite entries: this classifier is broken and is not saved.")
    model = {
        "estimator": kind.__name__,
        "parameters": _jsonable(estimator._parameters_to_save()),
        "classes": _encode_classes(estimator._labels),
        "fitted": _jsonable(estimator._scalars_to_save()),
        "metadata": _plain(metadata if metadata is not None else getattr(estimator, "metadata_", {})),
    }
    # One entry, since safetensors writes several in any order and equal classifiers should be equal files.
    header = canonical_json({"version": VERSION, "digest": _digest(arrays, model), "model": model})
    content = safetensors.numpy.save(arrays, {KEY: header})
    with atomic_write(path) as file:
        file.write(content)


def load(path: str | PathLike[str]) -> FewShotClassifier:
    """Read a classifier that `save` wrote; it predicts bit for bit as before.

    Raises
    ------
    ModelFormatError
        For anything else: a foreign, truncated or damaged file, non-finite weights, a newer format.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, lpplusplus
    >>> probe = lpplusplus.LPPlusPlus().fit(np.eye(4), [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "birds.lpp"
    ...     probe.save(path)
    ...     again = lpplusplus.load(path)
    >>> bool((again.coef_ == probe.coef_).all())
    True
    """
    arrays, text = _read(Path(path))
    try:
        header = json.loads(text)
        _check_depth(header)
        version, model = header["version"], header.get("model")
        if type(version) is not int or version < FIRST:
            raise ValueError(f"version {_short(version)}")
        whole = header["digest"] == _digest(arrays, model)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFormatError(f"{path} has a damaged header ({_short(error)}): restore it from a copy.") from error
    if version > VERSION:
        raise ModelFormatError(
            f"{path} has format version {_short(version)}, this lpplusplus reads {VERSION}: upgrade lpplusplus."
        )
    if not whole:
        raise ModelFormatError(f"{path} is damaged: its contents do not match their checksum. Restore it from a copy.")
    try:
        kind = method(model["estimator"])
        if kind is None:
            raise ValueError(f"there is no method {model['estimator']!r}")
        estimator: FewShotClassifier = kind._with_parameters(model["parameters"])
        check_parameters(kind, estimator.get_params(deep=False))
        given = {name[len(PREFIX) :]: arrays.pop(name) for name in [*arrays] if name.startswith(PREFIX)}
        if given and version == FIRST:
            raise ValueError(f"format {FIRST} has no arrays {sorted(given)}")
        estimator._restore(arrays, model["fitted"], _decode_classes(model["classes"]))
        if given:
            estimator.task_ = Task.read(given, estimator._labels, estimator.n_features_in_)
        estimator.metadata_ = model["metadata"]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFormatError(f"{path} does not describe a classifier of this version: {_short(error)}.") from error
    return estimator


def is_classifier(path: str | PathLike[str]) -> bool:
    """Whether a file looks like one that `save` wrote; only `load` checks its content."""
    try:
        _read(Path(path), arrays=False)
    except (ModelFormatError, OSError):
        return False
    return True


def _read(path: Path, arrays: bool = True) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """The arrays and the description in a file; the description alone without `arrays`."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
    if not path.is_file():
        kind = "folder" if path.is_dir() else "pipe or a device"
        raise ModelFormatError(f"{path} is a {kind}, not a classifier saved by lpplusplus: name its file (.lpp).")
    # The open file is asked how large it is, and read: the name may be another's by then.
    with open_regular(path) as opened:
        _check_size(path, os.fstat(opened.fileno()))
        again = f"/dev/fd/{opened.fileno()}"
        try:
            with safetensors.safe_open(again if os.path.exists(again) else path, framework="numpy") as file:
                header = (file.metadata() or {}).get(KEY)
                if header is None:
                    raise ModelFormatError(f"{path} is a safetensors file but not a classifier saved by lpplusplus.")
                if len(header) > LARGEST_HEADER:
                    raise ModelFormatError(
                        f"{path} has a description of {len(header):,} characters: that is no classifier."
                    )
                return {name: np.asarray(file.get_tensor(name)) for name in (file.keys() if arrays else ())}, header
        except (safetensors.SafetensorError, TypeError, AttributeError) as error:
            # The last two are of bfloat16 and the like, which numpy does not have.
            raise ModelFormatError(
                f"{path} is not a whole safetensors file of numbers that classifiers have ({error}): it is truncated, "
                f"damaged or of another kind."
            ) from error


def _check_size(path: Path, status: os.stat_result) -> None:
    """Raise for what would take much memory, or has mostly no content on the disk."""
    stored = getattr(status, "st_blocks", status.st_size // 512) * 512
    if status.st_size > LARGEST_FILE or status.st_size > 100 * max(stored, 2**20):
        raise ModelFormatError(
            f"{path} has {status.st_size:,} bytes ({stored:,} on the disk): no classifier is stored like that."
        )


def _check_depth(value: Any, left: int = DEEPEST) -> None:
    """Raise for lists and dictionaries that are nested so deeply that showing them would fail."""
    if not left:
        raise ValueError(f"lists and dictionaries are nested more than {DEEPEST} deep")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_depth(part, left - 1)


def _short(cause: object) -> str:
    """A cause in one line: a file may hold very long names."""
    said = repr(cause)
    return said if len(said) <= 300 else said[:300] + "…"


def _native(value: Array) -> np.ndarray[Any, Any]:
    """As safetensors writes it: row by row, in the byte order of this machine."""
    value = backend.to_numpy(value)
    return np.ascontiguousarray(value, value.dtype.newbyteorder("="))


def _digest(arrays: dict[str, np.ndarray[Any, Any]], model: Any) -> str:
    digest = hashlib.sha256(canonical_json(model).encode())
    for name in sorted(arrays):
        value = arrays[name]
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _plain(metadata: Any) -> Any:
    """`metadata` after a round trip through JSON: keys become strings, so that their order in the file is fixed."""
    try:
        plain = json.loads(json.dumps(metadata, allow_nan=False))
        _check_depth(plain)
        return plain
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"metadata cannot be saved ({error}): use dictionaries, lists, strings, finite numbers, booleans and None."
        ) from error


def _encode_classes(classes: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Labels with their dtype, since 1, "1" and True are different labels. Dates are numbers, bytes Latin-1."""
    kind, plain = classes.dtype.kind, classes
    if kind in "MmS":
        plain = np.char.decode(classes, "latin-1") if kind == "S" else classes.astype(np.int64)
    labels = _jsonable(plain.tolist())
    if not all(isinstance(label, str | bool | int | float) for label in labels):
        raise ValueError(
            f"labels of type {type(labels[0]).__name__} cannot be saved: use strings, whole numbers or booleans."
        )
    return {"dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str, "labels": labels}


def _decode_classes(encoded: dict[str, Any]) -> np.ndarray[Any, Any]:
    if not re.fullmatch(r"object|[<>|]?[SUbiuf]\d{1,8}|[<>][Mm]8(\[\w{1,8}\])?", encoded["dtype"]):
        raise ValueError(f"labels of dtype {encoded['dtype']!r} are not supported")
    dtype = np.dtype(encoded["dtype"])
    labels = encoded["labels"]
    if not all(isinstance(label, str | bool | int | float) for label in labels) or len(set(labels)) != len(labels):
        raise ValueError("labels are not a list of different strings or numbers")
    longest = 4 * max((len(label) for label in labels if isinstance(label, str)), default=0)
    if dtype.itemsize > max(longest, 40_000) or max(longest, dtype.itemsize) * len(labels) > LARGEST_LABELS:
        raise ValueError(f"{len(labels)} labels of dtype {dtype} would take too much memory")
    plain = {"M": "int64", "m": "int64", "S": f"U{dtype.itemsize}"}.get(dtype.kind, dtype)
    with np.errstate(invalid="ignore"):
        decoded = np.array(labels, dtype) if dtype.kind == "O" else np.array(labels).astype(plain)
    if decoded.tolist() != labels:  # numpy 1 lets numbers wrap around, and all versions cut strings short.
        raise ValueError(f"labels do not fit the dtype {dtype}")
    return np.char.encode(decoded, "latin-1").astype(dtype) if dtype.kind == "S" else decoded.astype(dtype)


def _jsonable(value: Any) -> Any:
    """As JSON has it. A generator, which has moved on since, becomes None; an encoder is known by its name."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if isinstance(getattr(value, "spec", None), str):
        return value.spec
    if isinstance(value, tuple | list):
        return [_jsonable(part) for part in value]
    if isinstance(value, dict):
        return {name: _jsonable(part) for name, part in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def method(name: Any) -> Any:
    """The classifier that the package exports under this name, or None.

    The list is `lpplusplus/__init__.pyi`. The methods are found by name, because this package must not import them.

    >>> import lpplusplus
    >>> method("ZeroShot") is lpplusplus.ZeroShot
    True
    >>> method("load") is None
    True
    """
    package = sys.modules[__name__.partition(".")[0]]
    kind = getattr(package, name) if name in package.__all__ else None
    return kind if isinstance(kind, type) and hasattr(kind, "_fit_task") else None
