"""What `clip-retrieval inference` writes: `img_emb/img_emb_0.npy` … and `metadata/metadata_0.parquet` …

Row r of array k belongs to row r of table k. Its arrays do not say which encoder made them. Labels are a column of the
table.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError, shown
from ..sources.arrays import read_header
from .addresses import need_pyarrow

_ARRAY, _TABLE = re.compile(r"img_emb_(\d+)\.npy"), re.compile(r"metadata_(\d+)\.parquet")


def is_layout(inside: Mapping[str, bool]) -> bool:
    """Whether what is in a folder, with whether each is a folder itself, looks like this layout."""
    return inside.get("img_emb", False) or any(_ARRAY.fullmatch(name) for name, folder in inside.items() if not folder)


def pairs(system: Any, path: str) -> list[tuple[str, str]]:
    """Each table with its array, in sub-folders or together.

    Raises
    ------
    SourceError
        An array has no table, or a table no array.
    """
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
    below = f"{path}/{folder}"
    if system.get_file_info(below).type == fs.FileType.Directory:
        path = below
    files = [info for info in system.get_file_info(fs.FileSelector(path)) if info.is_file]
    return {int(match[1]): info.path for info in files if (match := pattern.fullmatch(info.base_name))}


class ArrayFile:
    """The file of an array; its header is checked against the file's size before memory is taken."""

    def __init__(self, file: Any, where: str) -> None:
        self._file, self.bytes = file, file.size()
        try:
            shape, fortran, self._dtype = read_header(file)
        except Exception as error:  # Numpy raises anything on malformed content.
            raise SourceError(f"{where} is no array of numpy's ({shown(str(error))}).") from None
        if self._dtype.hasobject or self._dtype.kind != "f" or len(shape) != 2 or 0 in shape or fortran:
            kind = shown(str(self._dtype))
            raise SourceError(f"{where} has {kind} of shape {shape}, expected (n, D) real numbers.")
        self.shape = (shape[0], shape[1])
        if self.bytes - file.tell() != shape[0] * shape[1] * self._dtype.itemsize:
            raise SourceError(f"{where} is truncated, or larger than its header says.")

    def read(self) -> NDArray[Any]:
        """(n, D)."""
        return np.frombuffer(self._file.read(), self._dtype).reshape(self.shape)
