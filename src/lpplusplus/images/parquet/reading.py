"""Parquet data sets as `Embeddings`: ours, those of other programs, and clip-retrieval's layout."""

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embeddings import Embeddings, Origin, share_of
from ..errors import SourceError, StoreError, shown
from ..sources.arrays import FREELY_UNPACKED, MOST_PACKED, check_finite_rows, read_header
from ..store.feature_store import LARGEST, PARQUET, ShardIndex, read_index
from .addresses import is_address, need_pyarrow, open_place, shown_in, spelled
from .tables import EMBEDDING, HASH, LABEL, NAME, PATH, head_of, labels_of, named_classes, part_name, rows_of, width_of

PATHS = (PATH, "image_path", "url")
"""Columns that may name the image of a row; the first that a file has is used."""
_ARRAY, _TABLE = re.compile(r"img_emb_(\d+)\.npy"), re.compile(r"metadata_(\d+)\.parquet")
_Pair = tuple[str, str | None]
"""A Parquet file, and in clip-retrieval's layout the file of its embeddings."""


def is_parquet(place: str | PathLike[str]) -> bool:
    """Whether a local path is a Parquet file, a folder of them, or clip-retrieval's layout; True for an address."""
    path = Path(place)
    if is_address(place) or path.suffix.lower() == ".parquet":
        return True
    if not path.is_dir():
        return False
    with os.scandir(path) as entries:
        inside = {entry.name: entry.is_dir() for entry in entries if not entry.name.startswith(".")}
    if inside.get(NAME) is False or _of_clip_retrieval(inside):
        return True
    return any(name.endswith(".parquet") for name in inside) and not any(inside.values())


def files_of(place: str | PathLike[str]) -> int:
    """How many files `read_parquet` would read; in clip-retrieval's layout, pairs of files."""
    return len(_files(*open_place(place), spelled(place))[0])


def read_parquet(
    place: str | PathLike[str], *, labels: bool = False, share: tuple[int, int] | None = None
) -> Embeddings:
    """Embeddings of a Parquet file, of a folder of such files, or of what clip-retrieval wrote.

    Parameters
    ----------
    place
        A path or an address. A folder is read with all its `.parquet` files in the order of their names.
    labels
        Whether there must be labels.
    share
        (k, n) reads only part k of n of the files, in their order.

    Raises
    ------
    SourceError, StoreError
        What is wrong, and where. No message has a password.
    """
    system, path = open_place(place)
    where = spelled(place)
    try:
        pairs, index = _files(system, path, where)
        index = index and replace(index, shards=share_of(index.shards, share))
        embeddings = _read(system, share_of(pairs, share), index, where, alone=pairs == [(path, None)])
    except (SourceError, StoreError):
        raise
    except Exception as error:  # pyarrow's errors on malformed files, and every file system's own.
        raise SourceError(f"{where} cannot be read ({shown(str(error))}).") from None
    if labels and embeddings.labels is None:
        raise SourceError(f"{where} has no labels: a column {LABEL!r} with a label for each row is missing.")
    return embeddings


def read_file(system: Any, path: str, place: str) -> Embeddings:
    """Embeddings of one file in the file system of `place`; it may be a part of a data set that is not complete."""
    return _read(system, [(path, None)], None, place, alone=True)


def _files(system: Any, path: str, where: str) -> tuple[list[_Pair], ShardIndex | None]:
    """The files to read in their order, and the index if there is one."""
    fs = need_pyarrow("fs")
    info = system.get_file_info(path)
    if info.is_file:
        return [(path, None)], None
    if info.type != fs.FileType.Directory:
        raise SourceError(f"{where} {'does not exist' if info.type == fs.FileType.NotFound else 'is no regular file'}.")
    files = {one.base_name: one.is_file for one in system.get_file_info(fs.FileSelector(path))}
    index = None
    if files.get(NAME):
        with system.open_input_stream(f"{path}/{NAME}") as stream:
            index = read_index(stream.read(LARGEST + 1), PARQUET, f"{where}/{NAME}")
        names = _complete(index, files, where)
    elif _of_clip_retrieval({name: not is_file for name, is_file in files.items()}):
        return _pairs(system, path), None
    else:
        names = sorted(name for name in files if name.endswith(".parquet") and name[0] not in "._" and files[name])
        if not names:
            raise SourceError(f"{where} has no Parquet files: to embed images there, use lpp embed --engine ray.")
    return [(f"{path}/{name}", None) for name in names], index


def _complete(index: ShardIndex, files: Mapping[str, bool], where: str) -> list[str]:
    names = [part_name(number) for number in range(len(index.shards))]
    lost = sorted(name for name in names if not files.get(name))
    if lost:
        raise StoreError(f"{where}: {lost[0]} is missing ({len(lost)} such part(s)): embed again to rebuild it.")
    return names


def _of_clip_retrieval(inside: Mapping[str, bool]) -> bool:
    """Whether what is in a folder, with whether each is a folder itself, is what `clip-retrieval inference` writes.

    That is `img_emb/img_emb_0.npy` … and `metadata/metadata_0.parquet` …, or all in one folder. Row r of array k
    belongs to row r of table k, which may have labels; arrays do not say which encoder made them.
    """
    return inside.get("img_emb", False) or any(_ARRAY.fullmatch(name) for name, folder in inside.items() if not folder)


def _pairs(system: Any, path: str) -> list[_Pair]:
    """Each table with its array, in sub-folders or together."""
    arrays, tables = (_numbered(system, path, *which) for which in (("img_emb", _ARRAY), ("metadata", _TABLE)))
    odd = sorted(arrays.keys() ^ tables.keys())
    if odd:
        has, lacks = ("img_emb", "metadata") if odd[0] in arrays else ("metadata", "img_emb")
        raise SourceError(f"{path}: {has}_{odd[0]} has no {lacks}_{odd[0]} ({len(odd)} such file(s)).")
    if not arrays:
        raise SourceError(f"{path} has no img_emb_*.npy.")
    return [(tables[number], arrays[number]) for number in sorted(arrays)]


def _numbered(system: Any, path: str, folder: str, pattern: re.Pattern[str]) -> dict[int, str]:
    fs = need_pyarrow("fs")
    if system.get_file_info(f"{path}/{folder}").type == fs.FileType.Directory:
        path = f"{path}/{folder}"
    files = [info for info in system.get_file_info(fs.FileSelector(path)) if info.is_file]
    return {int(match[1]): info.path for info in files if (match := pattern.fullmatch(info.base_name))}


class _Part:
    """A Parquet file, and the array beside it in clip-retrieval's layout; only their heads are read at first."""

    labels: list[str] | None = None
    whole = True
    """Whether labels are whole numbers."""
    hashes: NDArray[np.uint8] | None = None
    array: Any = None

    def __init__(self, system: Any, place: str, pair: _Pair) -> None:
        table, array = pair
        self.named = self.where = shown_in(place, table)
        handle = system.open_input_file(table)
        try:
            self.file = need_pyarrow("parquet").ParquetFile(handle)
        except Exception as error:
            raise SourceError(f"{self.where} is damaged, or no Parquet file ({shown(str(error))}).") from None
        self.columns, self.rows, self.bytes = self.file.schema_arrow.names, self.file.metadata.num_rows, handle.size()
        self.path = next((name for name in PATHS if name in self.columns), None)
        self.head = head_of(self.file.schema_arrow, self.where)
        if array is None:
            self.width = width_of(self.file, self.where)
        else:
            self._open_array(system.open_input_file(array), shown_in(place, array))

    def _open_array(self, file: Any, where: str) -> None:
        """Check the header of an array against the file's size, before memory is taken."""
        try:
            shape, fortran, dtype = read_header(file)
        except Exception as error:  # Numpy raises anything on malformed content.
            raise SourceError(f"{where} is no array of numpy's ({shown(str(error))}).") from None
        if dtype.kind != "f" or len(shape) != 2 or 0 in shape or fortran:
            raise SourceError(f"{where} has {shown(str(dtype))} of shape {shape}, expected (n, D) real numbers.")
        if file.size() - file.tell() != shape[0] * shape[1] * dtype.itemsize:
            raise SourceError(f"{where} is truncated, or larger than its header says.")
        if shape[0] != self.rows:
            raise SourceError(f"{where} has {shape[0]} rows, {self.where} has {self.rows}.")
        self.array, self.dtype, self.named, self.bytes, self.width = file, dtype, where, file.size(), shape[1]

    def row_names(self) -> list[str]:
        """What rows are called where no column says it."""
        return [f"{os.path.basename(self.named)}[{row}]" for row in range(self.rows)]

    def read(self, out: NDArray[np.float32]) -> None:
        """The embeddings into `out`, a few rows at a time, and the other columns."""
        rest = self.file.read(columns=[name for name in (LABEL, self.path, HASH) if name in self.columns])
        if LABEL in self.columns:
            self.labels, self.whole = labels_of(rest.column(LABEL), self.where)
        texts = [] if self.path is None else rest.column(self.path).to_pylist()
        self.paths = ["" if text is None else str(text) for text in texts]
        hashes: list[Any] = rest.column(HASH).to_pylist() if HASH in self.columns else [None]
        if all(isinstance(digest, bytes) and len(digest) == 32 for digest in hashes):
            self.hashes = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32)
        if self.array is not None:
            out[:] = np.frombuffer(self.array.read(), self.dtype).reshape(out.shape)
            return
        first = 0
        for batch in self.file.iter_batches(4096, columns=[EMBEDDING]):
            out[first : first + batch.num_rows] = rows_of(batch.column(0), self.width, self.where, first)
            first += batch.num_rows
        if first != self.rows:
            raise SourceError(f"{self.where} has {first} rows, its end says {self.rows}.")


def _hashes(filled: Sequence[_Part]) -> NDArray[np.uint8] | None:
    """(n, 32); None unless all have some."""
    hashes = [part.hashes for part in filled if part.hashes is not None]
    return np.concatenate(hashes) if len(hashes) == len(filled) else None


def _read(system: Any, pairs: Sequence[_Pair], index: ShardIndex | None, where: str, alone: bool) -> Embeddings:
    with ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as pool:
        parts = list(pool.map(lambda pair: _Part(system, where, pair), pairs))
        if index is None and not alone and any(part.head is not None for part in parts):
            raise StoreError(f"{where} is incomplete: embedding was interrupted. Run it again; only what is missing is "
                             f"computed.")  # fmt: skip
        origin = _origin(parts, index)
        X = _room(parts, where)
        shape = (1, X.shape[1]) if origin is None else origin.shape
        if shape[0] * shape[1] != X.shape[1]:
            raise StoreError(f"{where}: rows have {X.shape[1]} numbers, its origin says {shape[0]} × {shape[1]}.")
        ends = np.cumsum([part.rows for part in parts])
        list(pool.map(_Part.read, parts, np.split(X, ends[:-1])))
    check_finite_rows(X, where)
    filled = [part for part in parts if part.rows]
    labels, classes, names = _labels(filled, index, where)
    return Embeddings(
        X.reshape(len(X), *shape),
        labels,
        [path for part in filled for path in part.paths or part.row_names()],
        classes,
        names,
        origin,
        hashes=_hashes(filled),
        reused=len(X),
    )


def _labels(
    filled: Sequence[_Part], index: ShardIndex | None, where: str
) -> tuple[NDArray[np.str_] | None, tuple[str, ...], tuple[str, ...]]:
    """Labels of all rows, classes and their names."""
    labelled = {part.labels is not None for part in filled}
    if len(labelled) > 1:
        raise SourceError(f"{where}: some files have a column {LABEL!r}, others have none.")
    labels = [label for part in filled for label in part.labels or ()]
    classes, names = named_classes(labels, all(part.whole for part in filled), where)
    if index is not None and index.labelled:
        if not labels or not set(classes) <= set(index.classes):
            raise StoreError(f"{where}: its rows have other labels than its index: embed again to rebuild it.")
        classes, names = index.classes, index.names
    return np.array(labels, np.str_) if labels else None, classes, names


def _origin(parts: Sequence[_Part], index: ShardIndex | None) -> Origin | None:
    """The one origin of all parts."""
    for part, receipt in zip(parts, index.shards if index else (), strict=index is not None):
        if part.rows != receipt.rows:
            raise StoreError(f"{part.where} has {part.rows} rows instead of {receipt.rows}: embed again to rebuild it.")
    if all(part.head is None for part in parts):
        return None
    origins = []
    for part in parts:
        try:
            origins.append(Origin.read((part.head or {})["origin"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{part.where}: its origin cannot be read ({error}).") from error
        if origins[-1].key != (index.origin if index else origins[0]).key:
            raise StoreError(f"{part.where} has embeddings by {origins[-1]}, others are by {origins[0]}.")
    return origins[0]


def _room(parts: Sequence[_Part], where: str) -> NDArray[np.float32]:
    """An array for all rows, if all have the same width and the files are as large as such rows are."""
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    if not rows:
        raise SourceError(f"{where} has no rows.")
    (width, here), *others = {part.width: part.named for part in parts if part.rows}.items()
    if others:
        raise SourceError(f"{here} has {width} numbers per row, {others[0][1]} has {others[0][0]}.")
    if width < 1:
        raise SourceError(f"{where}: embeddings are empty.")
    if 4 * rows * width > max(FREELY_UNPACKED, MOST_PACKED * size):
        raise SourceError(f"{where} has {size:,} bytes, but {rows:,} embeddings of {width} numbers would take "
                          f"{4 * rows * width:,} in memory: these are no embeddings.")  # fmt: skip
    return np.empty((rows, width), np.float32)
