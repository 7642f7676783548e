"""Embeddings that were made elsewhere, from one file of arrays. Nothing is unpickled."""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from .class_names import SourceError


@dataclass(frozen=True, eq=False)
class ArraySet:
    """Arrays of one file, checked against each other.

    Attributes
    ----------
    embeddings
        (n, D), or (n, V, D) with V views of each image.
    labels
        (n,) strings or whole numbers, or None. Whole numbers are positions in `classes` where the file has those, and
        have been replaced by the names then.
    text
        (K, D) embeddings of the classes' prompts, in the order of `classes` (or of the sorted labels), or None.
    classes
        K names, or None.
    """

    embeddings: NDArray[Any]
    labels: NDArray[Any] | None = None
    text: NDArray[Any] | None = None
    classes: tuple[str, ...] | None = None


NAMES = ("embeddings", "labels", "text", "classes")


def read_arrays(path: str | PathLike[str]) -> ArraySet:
    """Read `embeddings`, and if they are there `labels`, `text` and `classes`, from a `.npz` or `.safetensors` file.

    A safetensors file holds numbers only: its labels are positions in `classes`, a JSON list in the file's metadata.
    """
    path = Path(path)
    arrays = load_arrays(path, NAMES, lists=("classes",))
    if "embeddings" not in arrays:
        raise SourceError(f"{path} has the arrays {sorted(arrays)}, expected 'embeddings' (and 'labels', 'text', "
                          f"'classes').")  # fmt: skip
    embeddings = _numbers(arrays["embeddings"], "embeddings", path, (2, 3))
    classes = _classes(arrays.get("classes"), path)
    text = arrays.get("text")
    if text is not None:
        text = _numbers(text, "text", path, (2,))
        if text.shape[1] != embeddings.shape[-1]:
            raise SourceError(f"{path}: text has {text.shape[1]} dimensions, embeddings {embeddings.shape[-1]}.")
        if classes is not None and len(text) != len(classes):
            raise SourceError(f"{path}: text has {len(text)} rows for {len(classes)} classes.")
    return ArraySet(embeddings, _labels(arrays.get("labels"), len(embeddings), classes, path), text, classes)


def load_arrays(path: Path, names: Sequence[str], *, lists: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Those arrays among `names` that a `.npz` or `.safetensors` file has; if none, all its names with empty arrays.

    Parameters
    ----------
    path
        The file.
    names
        Arrays to read.
    lists
        Those of them that are text, which a safetensors file holds as JSON lists in its metadata.
    """
    kind = path.suffix.lower()
    if kind not in (".npz", ".safetensors"):
        raise SourceError(f"{path}: a file of arrays ends in .npz or .safetensors.")
    try:
        return _npz(path, names) if kind == ".npz" else _safetensors(path, names, lists)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error


def _npz(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    try:
        with open(path, "rb") as opened:  # By us, since np.load leaves it open when it fails.
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise SourceError(f"{path} holds a single array, expected named arrays as np.savez writes them.")
            return {name: file[name] for name in names if name in file.files} or dict.fromkeys(file.files, np.empty(0))
    except (
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        MemoryError,
        RuntimeError,
        AttributeError,
    ) as error:
        if isinstance(error, SourceError):
            raise
        if "allow_pickle" in str(error):
            raise SourceError(
                f"{path} holds Python objects, which are never loaded: save labels as text, labels.astype(str)."
            ) from error
        raise SourceError(f"{path} is damaged ({error}): write it again.") from error


def _safetensors(path: Path, names: Sequence[str], lists: Sequence[str]) -> dict[str, NDArray[Any]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in names if name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
            others = list(file.keys())
    except (safetensors.SafetensorError, TypeError, AttributeError) as error:
        raise SourceError(f"{path} is damaged, or of a number type that numpy lacks ({error}): save it as float32.") \
            from error  # fmt: skip
    for name in lists:
        if name in metadata:
            try:
                arrays[name] = np.array(json.loads(metadata[name]))
            except (ValueError, RecursionError) as error:
                raise SourceError(f"{path}: {name!r} in its metadata is not a JSON list of names ({error}).") from error
    return arrays or dict.fromkeys(others, np.empty(0))


def _numbers(array: NDArray[Any], name: str, path: Path, dimensions: tuple[int, ...]) -> NDArray[Any]:
    if array.dtype.kind != "f" or array.ndim not in dimensions or 0 in array.shape:
        shape = " or ".join({2: "(n, D)", 3: "(n, V, D)"}[d] for d in dimensions)
        raise SourceError(f"{path}: {name} is {array.dtype} of shape {array.shape}, expected real numbers of shape "
                          f"{shape}.")  # fmt: skip
    check_finite_rows(array, f"{path}: {name}")
    return array


def check_finite_rows(array: NDArray[Any], name: str) -> None:
    """Raise for the first row with NaN or infinity."""
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        raise SourceError(
            f"{name} has NaN or infinity in row {int(bad.argmax())} ({int(bad.sum())} such row(s) in all): remove "
            f"these rows, or embed them again; half-precision encoders overflow to infinity."
        )


def _classes(array: NDArray[Any] | None, path: Path) -> tuple[str, ...] | None:
    if array is None:
        return None
    if array.ndim != 1 or array.dtype.kind != "U" or len(set(array.tolist())) != len(array):
        raise SourceError(f"{path}: classes must be a list of different names, found {array.dtype} of {array.shape}.")
    return tuple(array.tolist())


def _labels(array: NDArray[Any] | None, n: int, classes: tuple[str, ...] | None, path: Path) -> NDArray[Any] | None:
    if array is None:
        return None
    if array.shape != (n,) or array.dtype.kind not in "iuU":
        raise SourceError(f"{path}: labels are {array.dtype} of shape {array.shape}, expected {n} strings or whole "
                          f"numbers.")  # fmt: skip
    if classes is None:
        return array
    if array.dtype.kind == "U":
        unknown = sorted(set(array.tolist()) - set(classes))
        if unknown:
            raise SourceError(f"{path}: label {unknown[0]!r} is not among its classes.")
        return array
    if array.min(initial=0) < 0 or array.max(initial=0) >= len(classes):
        raise SourceError(f"{path}: labels from {array.min()} to {array.max()} are not positions in {len(classes)} "
                          f"classes.")  # fmt: skip
    names: NDArray[np.str_] = np.array(classes)[array]
    return names
