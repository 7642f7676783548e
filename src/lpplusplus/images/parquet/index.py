"""The index of a data set of Parquet files that we wrote, and how files get there."""

import json
from dataclasses import dataclass
from typing import Any

from ..._core.files import atomic_write
from ..embeddings import Origin
from ..errors import StoreError, shown
from .addresses import need_pyarrow
from .columns import read_origin

NAME, FORMAT, VERSION = "_index.json", "lpplusplus parquet", 1
"""Readers of Parquet data sets ignore names that begin with an underscore."""
LARGEST = 2**26


@dataclass(frozen=True)
class ParquetIndex:
    """What a complete data set holds.

    Attributes
    ----------
    origin
        What made the embeddings.
    classes, names
        Labels in order, and what prompts call them; empty without labels.
    labelled
        Whether rows have labels.
    rows
        Number of rows of each part.
    """

    origin: Origin
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labelled: bool
    rows: tuple[int, ...]

    def write(self, system: Any, folder: str) -> None:
        """Write it, when all parts are there."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "origin": self.origin.settings(),
            "classes": list(self.classes),
            "names": list(self.names),
            "labelled": self.labelled,
            "rows": list(self.rows),
        }
        put(system, f"{folder}/{NAME}", json.dumps(content, sort_keys=True, indent=1).encode() + b"\n")


def part_name(number: int) -> str:
    """File name of a part; nothing but the number decides it."""
    return f"part-{number:06}.parquet"


def read_index(content: bytes, where: str) -> ParquetIndex:
    """Read and check an index."""
    try:
        if len(content) > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        whole = json.loads(content)
        if (whole["format"], whole["version"]) != (FORMAT, VERSION):
            kind, version = shown(whole["format"]), shown(whole["version"])
            raise StoreError(f"{where} has format {kind}, version {version}; this reads {VERSION}: upgrade lpplusplus.")
        classes, names, rows = (tuple(whole[key]) for key in ("classes", "names", "rows"))
        if len(classes) != len(names) or not all(isinstance(name, str) for name in classes + names):
            raise ValueError("classes and names do not fit together")
        if not all(type(n) is int and n >= 0 for n in rows) or type(whole["labelled"]) is not bool:
            raise ValueError("numbers of rows are not whole numbers")
        return ParquetIndex(read_origin(whole["origin"], where), classes, names, whole["labelled"], rows)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{where} is damaged ({shown(str(error))}): embed again to rebuild it.") from error


def put(system: Any, path: str, content: Any) -> None:
    """Write a file that appears complete or not at all; object stores guarantee this by themselves."""
    if isinstance(system, need_pyarrow("fs").LocalFileSystem):
        with atomic_write(path) as file:
            file.write(content)
        return
    with system.open_output_stream(path) as stream:
        stream.write(content)
