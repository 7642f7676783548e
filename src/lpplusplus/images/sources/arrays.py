"""Embeddings that were made elsewhere, from one file of arrays. Nothing is unpickled."""

import json
import math
import sys
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from ..._core.files import open_regular
from ...encoders.class_text import display_name
from ..embeddings import Embeddings
from ..errors import SourceError, shown
from .class_names import check_length

ARRAYS = (".npz", ".safetensors")
"""Endings of files of arrays."""
NAMES = ("embeddings", "labels", "text", "classes")
FREELY_UNPACKED = 2**28
"""A compressed array of up to this many bytes is unpacked, however small the file is."""
MOST_PACKED = 100
"""A larger array may be at most this many times larger than in the file. Embeddings hardly shrink at all."""


def read_arrays(path: str | PathLike[str]) -> Embeddings:
    """Read `embeddings`, and if they are there `labels`, `text` and `classes`, from a `.npz` or `.safetensors` file.

    `embeddings` are (n, D), or (n, V, D) with V views of each image. `labels` are n strings or whole numbers; whole
    numbers are positions in `classes` where the file has those. `text` has a row per class, in the order of `classes`,
    else of the sorted labels. A safetensors file holds numbers only: its `classes` are a JSON list in its metadata.
    """
    path = Path(path)
    arrays = load_arrays(path, NAMES, lists=("classes",))
    if "embeddings" not in arrays:
        raise SourceError(
            f"{path} has the arrays {shown(sorted(arrays))}, expected 'embeddings' (and 'labels', 'text', 'classes')."
        )
    embeddings = _numbers(arrays["embeddings"], "embeddings", path, (2, 3))
    classes = _classes(arrays.get("classes"), path)
    text = arrays.get("text")
    if text is not None:
        text = _numbers(text, "text", path, (2,))
        if text.shape[1] != embeddings.shape[-1]:
            raise SourceError(f"{path}: text has {text.shape[1]} dimensions, embeddings {embeddings.shape[-1]}.")
        if classes is not None and len(text) != len(classes):
            raise SourceError(f"{path}: text has {len(text)} rows for {len(classes)} classes.")
        text = np.asarray(text, np.float32)
    labels = _labels(arrays.get("labels"), len(embeddings), classes, path)
    if classes is None:  # Sorted as the labels are: 2 before 10.
        classes = () if labels is None else tuple(str(label) for label in np.unique(labels))
    for label in classes:
        check_length(label, str(path))
    return Embeddings(
        np.asarray(embeddings.reshape(len(embeddings), -1, embeddings.shape[-1]), np.float32),
        None if labels is None else labels.astype(np.str_),
        [f"{path.name}[{row}]" for row in range(len(embeddings))],
        classes,
        tuple(display_name(label) for label in classes),
        text=text,
    )


def load_arrays(path: Path, names: Sequence[str], *, lists: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The arrays of `names` that a `.npz` or `.safetensors` file has; if it has none, its names with empty arrays.

    Parameters
    ----------
    path
        The file.
    names
        Arrays to read.
    lists
        Names of arrays of text. A safetensors file has them as JSON lists in its metadata.
    """
    kind = path.suffix.lower()
    if kind not in ARRAYS:
        raise SourceError(f"{path}: a file of arrays ends in .npz or .safetensors.")
    try:
        return _npz(path, names) if kind == ".npz" else _safetensors(path, names, lists)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error


def _npz(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    try:
        with open_regular(path) as file:
            if file.read(6) == b"\x93NUMPY":
                raise SourceError(f"{path} holds a single array, expected named arrays as np.savez writes them.")
            archive = zipfile.ZipFile(file)
            members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}
            found = {name: _member(archive, members[name], path) for name in names if name in members}
            return found or dict.fromkeys(members, np.empty(0))
    except (SourceError, OSError):
        raise
    except Exception as error:  # Readers of zip files and arrays raise anything on malformed content.
        raise SourceError(f"{path} is damaged ({shown(str(error))}): write it again.") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    """One array, if it is as large as the file says and not far larger than the file."""
    with archive.open(member) as file:
        shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise SourceError(
            f"{path} holds Python objects, which are never loaded: save labels as text, labels.astype(str)."
        )
    size = math.prod(shape) * dtype.itemsize
    if max(size, math.prod(shape)) > member.file_size:  # Text of no length has no bytes.
        raise ValueError(f"{member.filename} has fewer bytes than its header says")
    _check_unpacked(size, min(member.compress_size, path.stat().st_size), f"{path}: {member.filename}")
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "U" and size:
        letters = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if letters.max() > sys.maxunicode:  # numpy does not check.
            raise ValueError(f"{member.filename} has characters beyond Unicode")
    return array


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype of an array in numpy's format; raises anything if it is not one."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def _check_unpacked(size: int, packed: int, what: str) -> None:
    """Raise, before memory is taken, if a few bytes would become very many."""
    if size > max(FREELY_UNPACKED, MOST_PACKED * packed):
        raise SourceError(
            f"{what} has {packed:,} bytes, but would take {size:,} in memory. If that is right, use np.savez, not "
            f"np.savez_compressed, and no label that is far longer than the others."
        )


def _safetensors(path: Path, names: Sequence[str], lists: Sequence[str]) -> dict[str, NDArray[Any]]:
    open_regular(path).close()
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
                values = json.loads(metadata[name])
                longest = max((len(value) for value in values if isinstance(value, str)), default=0)
                _check_unpacked(4 * longest * len(values), len(metadata[name]), f"{path}: {name!r} in its metadata")
                arrays[name] = np.array(values)
            except SourceError:
                raise
            except (ValueError, TypeError, RecursionError) as error:
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
            raise SourceError(f"{path}: label {shown(unknown[0])} is not among its classes.")
        return array
    if array.min(initial=0) < 0 or array.max(initial=0) >= len(classes):
        raise SourceError(f"{path}: labels from {array.min()} to {array.max()} are not positions in {len(classes)} "
                          f"classes.")  # fmt: skip
    names: NDArray[np.str_] = np.array(classes)
    _check_unpacked(n * names.itemsize, array.nbytes, f"{path}: labels, by their names,")
    named: NDArray[np.str_] = names[array]
    return named
