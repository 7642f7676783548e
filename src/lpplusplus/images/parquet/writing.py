"""Embeddings to Parquet files."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from ..embeddings import Embeddings
from ..errors import SourceError, StoreError
from ..store.shards import list_digest
from .addresses import need_pyarrow, open_place, spelled
from .columns import LABEL, to_table
from .index import ParquetIndex, part_name, put


def write_parquet(found: Embeddings, place: str | PathLike[str], *, rows_per_part: int = 65_536) -> None:
    """Write embeddings as a new data set of Parquet files, for other tools or another machine.

    Parameters
    ----------
    found
        What `embed` or `FeatureStore.load` returned; the origin must be known.
    place
        Path or address of a folder that is empty or does not exist.
    rows_per_part
        Rows of each file.
    """
    if found.origin is None:
        raise SourceError("these embeddings do not say which encoder made them: they stay in a file of arrays.")
    system, folder = open_place(place)
    refuse_files(system, folder, spelled(place))
    try:
        system.create_dir(folder, recursive=True)
        rows = []
        for number, first in enumerate(range(0, len(found), rows_per_part)):
            part = found.subset(slice(first, first + rows_per_part))
            labels = None if part.labels is None else part.labels.tolist()
            table = to_table(part, {"part": number, "listed": list_digest(part.paths, labels)})
            rows.append(write_part(system, folder, number, table))
        index = ParquetIndex(found.origin, found.classes, found.names, found.labels is not None, tuple(rows))
        index.write(system, folder)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"{spelled(place)} cannot be written ({why}).") from None


def refuse_files(
    system: Any, folder: str, where: str, ours: Mapping[str, object] | None = None, hidden: bool = False
) -> None:
    """Refuse a folder that has other files than `ours`; with `hidden`, names that begin with a dot are allowed."""
    fs = need_pyarrow("fs")
    selector = fs.FileSelector(folder, allow_not_found=True)
    if system.get_file_info(folder).type == fs.FileType.File:
        raise StoreError(f"{where} is a file: choose a new name.")
    found = {one.base_name for one in system.get_file_info(selector)} - set(ours or ())
    others = sorted(name for name in found if not (hidden and name.startswith(".")))
    if others:
        raise StoreError(f"{where} has other files, such as {others[0]}: choose a new or empty folder.")


def write_part(system: Any, folder: str, number: int, table: Any) -> int:
    """Write a table as a part; the same table gives the same file. Returns the number of its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    dictionary = [LABEL] if LABEL in table.column_names else False
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, write_statistics=False)
    put(system, f"{folder}/{part_name(number)}", sink.getvalue())
    return int(table.num_rows)
