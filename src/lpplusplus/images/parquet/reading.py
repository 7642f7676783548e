"""Parquet data sets as `Embeddings`: ours, those of other programs, and clip-retrieval's layout."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..embeddings import Embeddings, Origin, share_of
from ..errors import SourceError, StoreError, shown
from ..sources.arrays import FREELY_UNPACKED, MOST_PACKED, check_finite_rows
from . import clip_retrieval
from .addresses import is_address, need_pyarrow, open_place, shown_in, spelled
from .columns import EMBEDDING, HASH, LABEL, PATH, head_of, labels_of, named_classes, read_origin, rows_of, width_of
from .index import LARGEST, NAME, ParquetIndex, part_name, read_index

PATHS = (PATH, "image_path", "url")
"""Columns that may name the image of a row; the first that a file has is used."""
_T = TypeVar("_T")


def is_parquet(place: str | PathLike[str]) -> bool:
    """Whether a local path is a Parquet file, a folder of them, or clip-retrieval's layout; True for an address."""
    if is_address(place):
        return True
    path = Path(place)
    if path.suffix.lower() == ".parquet":
        return True
    if not path.is_dir():
        return False
    with os.scandir(path) as entries:
        found = [(entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith(".")]
    files = {name for name, folder in found if not folder}
    if NAME in files or clip_retrieval.is_layout(found):
        return True
    return any(name.endswith(".parquet") for name in files) and not any(folder for _, folder in found)


def files_of(place: str | PathLike[str]) -> int:
    """How many files `read_parquet` would read; in clip-retrieval's layout, pairs of files."""
    system, path = open_place(place)
    files, _ = _files(system, path, spelled(place))
    return len(files.pairs if isinstance(files, clip_retrieval.Layout) else files)


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
    need_pyarrow("parquet")
    system, path = open_place(place)
    try:
        files, index = _files(system, path, spelled(place))
        if isinstance(files, clip_retrieval.Layout):
            found = clip_retrieval.read(system, clip_retrieval.Layout(share_of(files.pairs, share)), place, LABEL)
        else:
            index = index and replace(index, rows=share_of(index.rows, share))
            found = _read(system, share_of(files, share), index, place, alone=files == [path])
    except (SourceError, StoreError):
        raise
    except Exception as error:  # pyarrow's errors on malformed files, and every file system's own.
        why = shown(str(error))
        raise SourceError(f"{spelled(place)} cannot be read ({why}).") from None
    if labels and found.labels is None:
        raise SourceError(f"{spelled(place)} has no labels: a column {LABEL!r} with a label for each row is missing.")
    return found


def _files(system: Any, path: str, where: str) -> tuple[list[str] | clip_retrieval.Layout, ParquetIndex | None]:
    """The files to read in their order, and the index if there is one."""
    fs = need_pyarrow("fs")
    info = system.get_file_info(path)
    if info.type == fs.FileType.File:
        return [path], None
    if info.type != fs.FileType.Directory:
        raise SourceError(f"{where} does not exist.")
    inside = {one.base_name: one for one in system.get_file_info(fs.FileSelector(path))}
    if NAME in inside:
        with system.open_input_stream(f"{path}/{NAME}") as stream:
            index = read_index(stream.read(LARGEST + 1), f"{where}/{NAME}")
        names = [part_name(number) for number in range(len(index.rows))]
        lost = [name for name in names if name not in inside]
        if lost:
            raise StoreError(f"{where}: {lost[0]} is missing ({len(lost)} such part(s)): embed again to rebuild it.")
        return [f"{path}/{name}" for name in names], index
    layout = clip_retrieval.find(system, path, inside)
    if layout is not None:
        return layout, None
    names = sorted(name for name in inside if name.endswith(".parquet") and name[0] not in "._")
    if not names:
        raise SourceError(f"{where} has no Parquet files: to embed images there, use lpp embed --engine ray.")
    return [f"{path}/{name}" for name in names], None


def read_file(system: Any, path: str, place: str | PathLike[str]) -> Embeddings:
    """Embeddings of one file in the file system of `place`; it may be a part of a data set that is not complete."""
    return _read(system, [path], None, place, alone=True)


@dataclass
class _OpenFile:
    """A file; only its end, with the metadata, has been read."""

    where: str
    file: Any
    size: int
    rows: int
    head: dict[str, Any] | None
    width: int | None


def _read(system: Any, files: list[str], index: ParquetIndex | None, place: Any, alone: bool) -> Embeddings:
    def opened(path: str) -> _OpenFile:
        where = shown_in(place, path)
        handle = system.open_input_file(path)
        try:
            file = need_pyarrow("parquet").ParquetFile(handle)
        except Exception as error:
            raise SourceError(f"{where} is damaged, or no Parquet file ({shown(str(error))}).") from None
        schema = file.schema_arrow
        width = width_of(schema, where)
        return _OpenFile(where, file, handle.size(), file.metadata.num_rows, head_of(schema, where), width)

    parts = _parallel(opened, files)
    if index is None and not alone and any(part.head is not None for part in parts):
        raise StoreError(f"{spelled(place)} is incomplete: embedding was interrupted. Run it again; only what is "
                         f"missing is computed.")  # fmt: skip
    origin = _origin(parts, index)
    width = _width(parts)
    rows, size = sum(part.rows for part in parts), sum(part.size for part in parts)
    if not rows:
        raise SourceError(f"{spelled(place)} has no rows.")
    if 4 * rows * width > max(FREELY_UNPACKED, MOST_PACKED * size):
        raise SourceError(f"{spelled(place)} has {size:,} bytes, but {rows:,} embeddings of {width} numbers would take "
                          f"{4 * rows * width:,} in memory: these are no embeddings.")  # fmt: skip
    shape = (1, width) if origin is None else origin.shape
    if shape[0] * shape[1] != width:
        raise StoreError(f"{spelled(place)}: rows have {width} numbers, its origin says {shape[0]} × {shape[1]}.")
    X = np.empty((rows, width), np.float32)
    starts = np.cumsum([0, *(part.rows for part in parts)])
    columns = _parallel(lambda k: _columns(parts[k], X[starts[k] : starts[k + 1]]), range(len(parts)))
    check_finite_rows(X, spelled(place))
    return _embeddings(X.reshape(rows, *shape), columns, origin, index, spelled(place))


def _origin(parts: Sequence[_OpenFile], index: ParquetIndex | None) -> Origin | None:
    """The one origin of all parts."""
    if index is not None:
        for part, rows in zip(parts, index.rows, strict=True):
            if part.rows != rows:
                raise StoreError(f"{part.where} has {part.rows} rows instead of {rows}: embed again to rebuild it.")
    heads = [part.head for part in parts]
    if all(head is None for head in heads):
        return None
    origins = [read_origin((head or {}).get("origin"), part.where) for head, part in zip(heads, parts, strict=True)]
    for part, origin in zip(parts, origins, strict=True):
        if origin.key != (index.origin if index else origins[0]).key:
            raise StoreError(f"{part.where} has embeddings by {origin}, others are by {origins[0]}.")
    return origins[0]


def _width(parts: Sequence[_OpenFile]) -> int:
    """Numbers per row, the same in all parts."""
    for part in parts:
        if part.width is None and part.rows:
            batch = next(part.file.iter_batches(1, columns=[EMBEDDING]))
            part.width = rows_of(batch.column(0), None, part.where, 0).shape[1]
    found = {part.width: part.where for part in parts if part.rows}
    if len(found) > 1:
        (one, here), (other, there) = list(found.items())[:2]
        raise SourceError(f"{here} has {one} numbers per row, {there} has {other}.")
    width = next(iter(found), 0) or 0
    if found and width < 1:
        raise SourceError(f"{parts[0].where}: embeddings are empty.")
    return width


@dataclass
class _Columns:
    labels: list[str] | None
    whole: bool
    paths: list[str]
    hashes: NDArray[np.uint8] | None


def _columns(part: _OpenFile, out: NDArray[np.float32]) -> _Columns:
    """Read a part, a few rows at a time; its embeddings straight into `out`."""
    names = part.file.schema_arrow.names
    path = next((name for name in PATHS if name in names), None)
    wanted = [name for name in (EMBEDDING, LABEL, path, HASH) if name in names]
    labels: list[str] = []
    paths: list[str] = []
    hashes: list[bytes] = []
    whole = True
    first = 0
    for batch in part.file.iter_batches(4096, columns=wanted):
        embeddings = rows_of(batch.column(EMBEDDING), part.width, part.where, first)
        if embeddings.shape[1:] != out.shape[1:] or first + len(embeddings) > len(out):
            raise SourceError(f"{part.where}: row {first} has {embeddings.shape[1]} numbers, expected {out.shape[1]}.")
        out[first : first + len(embeddings)] = embeddings
        if LABEL in wanted:
            more, whole = labels_of(batch.column(LABEL), part.where)
            labels += more
        if path is not None:
            paths += ["" if one is None else str(one) for one in batch.column(path).to_pylist()]
        if HASH in wanted:
            hashes += batch.column(HASH).to_pylist()
        first += len(embeddings)
    if first != len(out):
        raise SourceError(f"{part.where} has {first} rows, its end says {len(out)}.")
    base = os.path.basename(part.where)
    paths = paths or [f"{base}[{row}]" for row in range(first)]
    return _Columns(labels if LABEL in wanted else None, whole, paths, _digests(hashes))


def _digests(hashes: list[bytes]) -> NDArray[np.uint8] | None:
    """(n, 32); None unless every row has one."""
    sound = bool(hashes) and all(isinstance(one, bytes) and len(one) == 32 for one in hashes)
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32) if sound else None


def _labels(columns: Sequence[_Columns], where: str) -> list[str] | None:
    labelled = [column.labels is not None for column in columns]
    if any(labelled) and not all(labelled):
        raise SourceError(f"{where}: some files have a column {LABEL!r}, others have none.")
    return [label for column in columns for label in column.labels or ()] if all(labelled) else None


def _embeddings(
    X: NDArray[np.float32], columns: Sequence[_Columns], origin: Origin | None, index: ParquetIndex | None, where: str
) -> Embeddings:
    filled = [column for column in columns if column.paths]
    labels = _labels(filled, where)
    classes, names = named_classes(labels, all(column.whole for column in filled), where)
    if index is not None and index.labelled:
        if labels is None or not set(classes) <= set(index.classes):
            raise StoreError(f"{where}: its rows have other labels than its index: embed again to rebuild it.")
        classes, names = index.classes, index.names
    hashes = [column.hashes for column in filled]
    known = [one for one in hashes if one is not None]
    return Embeddings(
        X,
        None if labels is None else np.array(labels, np.str_),
        [path for column in filled for path in column.paths],
        classes,
        names,
        origin,
        hashes=np.concatenate(known) if len(known) == len(hashes) else None,
        reused=len(X),
    )


def _parallel(function: Callable[[Any], _T], items: Iterable[Any]) -> list[_T]:
    with ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as pool:
        return list(pool.map(function, items))
