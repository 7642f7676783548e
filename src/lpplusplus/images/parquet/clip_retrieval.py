"""What `clip-retrieval inference` writes: `img_emb/img_emb_0.npy` … and `metadata/metadata_0.parquet` …

Row r of array k belongs to row r of table k. Its arrays do not say which encoder made them. Labels are a column of the
table.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embeddings import Embeddings
from ..errors import SourceError, shown
from ..sources.arrays import check_finite_rows, read_header
from .addresses import need_pyarrow, shown_in, spelled
from .columns import labels_of, named_classes

_ARRAY, _TABLE = re.compile(r"img_emb_(\d+)\.npy"), re.compile(r"metadata_(\d+)\.parquet")
_PATHS = ("image_path", "path", "url")


@dataclass(frozen=True)
class Layout:
    """Paths of the arrays and of their tables, in order."""

    pairs: tuple[tuple[str, str], ...]


def is_layout(entries: Iterable[tuple[str, bool]]) -> bool:
    """Whether the entries of a folder, (name, is it a folder?), look like this layout."""
    found = set(entries)
    return ("img_emb", True) in found or any(_ARRAY.fullmatch(name) for name, folder in found if not folder)


def find(system: Any, path: str, inside: Mapping[str, Any]) -> Layout | None:
    """The files, in sub-folders or together; None if it is another layout.

    Raises
    ------
    SourceError
        An array has no table, or a table no array.
    """
    if not is_layout((name, not info.is_file) for name, info in inside.items()):
        return None
    arrays = _numbered(system, path, inside, "img_emb", _ARRAY)
    tables = _numbered(system, path, inside, "metadata", _TABLE)
    odd = sorted(arrays.keys() ^ tables.keys())
    if odd:
        has, lacks = ("img_emb", "metadata") if odd[0] in arrays else ("metadata", "img_emb")
        raise SourceError(f"{path}: {has}_{odd[0]} has no {lacks}_{odd[0]} ({len(odd)} such file(s)).")
    if not arrays:
        raise SourceError(f"{path} has no img_emb_*.npy.")
    return Layout(tuple((arrays[number], tables[number]) for number in sorted(arrays)))


def _numbered(
    system: Any, path: str, inside: Mapping[str, Any], folder: str, pattern: re.Pattern[str]
) -> dict[int, str]:
    if folder in inside and not inside[folder].is_file:
        path = f"{path}/{folder}"
        inside = {one.base_name: one for one in system.get_file_info(need_pyarrow("fs").FileSelector(path))}
    return {int(found[1]): f"{path}/{name}" for name in inside if (found := pattern.fullmatch(name))}


def read(system: Any, layout: Layout, place: Any, label: str) -> Embeddings:
    """All of it."""
    arrays: list[NDArray[np.float32]] = []
    labels: list[str] = []
    paths: list[str] = []
    labelled, whole = True, True
    for array_path, table_path in layout.pairs:
        where = shown_in(place, array_path)
        array = _array(system, array_path, where)
        table = need_pyarrow("parquet").ParquetFile(system.open_input_file(table_path))
        if table.metadata.num_rows != len(array):
            raise SourceError(f"{where} has {len(array)} rows, {shown_in(place, table_path)} has "
                              f"{table.metadata.num_rows}.")  # fmt: skip
        names = table.schema_arrow.names
        path = next((name for name in _PATHS if name in names), None)
        content = table.read(columns=[name for name in (label, path) if name in names])
        if label in names:
            more, numbers = labels_of(content.column(label), shown_in(place, table_path))
            labels += more
            whole &= numbers
        labelled &= label in names
        base = where.rpartition("/")[2]
        paths += [f"{base}[{row}]" for row in range(len(array))] if path is None else (
            "" if one is None else str(one) for one in content.column(path).to_pylist()
        )  # fmt: skip
        arrays.append(array)
    if len({array.shape[1] for array in arrays}) > 1:
        raise SourceError(f"{spelled(place)}: its arrays have {sorted({a.shape[1] for a in arrays})} columns.")
    X = np.concatenate(arrays)
    check_finite_rows(X, spelled(place))
    classes, names_ = named_classes(labels if labelled else None, whole, spelled(place))
    found = np.array(labels, np.str_) if labelled else None
    return Embeddings(X[:, None], found, paths, classes, names_, reused=len(X))


def _array(system: Any, path: str, where: str) -> NDArray[np.float32]:
    """(n, D); the header is checked against the file's size before memory is taken."""
    with system.open_input_file(path) as file:
        try:
            shape, fortran, dtype = read_header(file)
        except Exception as error:  # Numpy raises anything on malformed content.
            raise SourceError(f"{where} is no array of numpy's ({shown(str(error))}).") from None
        if dtype.hasobject or dtype.kind != "f" or len(shape) != 2 or 0 in shape or fortran:
            raise SourceError(f"{where} has {shown(str(dtype))} of shape {shape}, expected (n, D) real numbers.")
        size = shape[0] * shape[1] * dtype.itemsize
        if file.size() - file.tell() != size:
            raise SourceError(f"{where} is truncated, or larger than its header says.")
        array: NDArray[Any] = np.frombuffer(file.read(size), dtype).reshape(shape)
    return array.astype(np.float32)
