"""Embeddings as Parquet tables, and back: columns, the metadata of a part, and writing."""

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.files import atomic_write, canonical_json
from ...encoders.class_text import display_name
from ..embeddings import Embeddings
from ..errors import SourceError, StoreError, shown
from ..sources.class_names import check_length
from ..store.feature_store import PARQUET, ShardIndex
from ..store.shards import Receipt, list_digest
from .addresses import need_pyarrow, open_place, spelled

NAME = "_index.json"
"""Readers of Parquet data sets ignore names that begin with an underscore."""
KEY, VERSION = b"lpplusplus", 1
EMBEDDING, LABEL, PATH, HASH = "embedding", "label", "path", "hash"


def to_table(found: Embeddings, about: Mapping[str, Any]) -> Any:
    """A pyarrow table; `about` goes into the metadata of its schema, with the origin."""
    import pyarrow as pa

    assert found.origin is not None
    X = np.ascontiguousarray(found.X, np.float32).reshape(len(found), -1)
    values = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    columns = {EMBEDDING: values}
    if found.labels is not None:
        columns[LABEL] = pa.array([str(label) for label in found.labels.tolist()], pa.string())
    columns[PATH] = pa.array([text(path) for path in found.paths], pa.string())
    if found.hashes is not None:
        columns[HASH] = pa.array([digest.tobytes() for digest in found.hashes], pa.binary(found.hashes.shape[1]))
    head = {"version": VERSION, "origin": found.origin.settings(), **about}
    return pa.table(columns).replace_schema_metadata({KEY: canonical_json(head, compact=True).encode()})


def text(path: str) -> str:
    """A path as valid UTF-8: bytes that are no text are written as Python escapes."""
    return path.encode("utf-8", "backslashreplace").decode()


def head_of(schema: Any, where: str) -> dict[str, Any] | None:
    """The metadata of a part that we wrote; None for a file of another program.

    Raises
    ------
    StoreError
        It is of a newer format, or damaged.
    """
    raw = (schema.metadata or {}).get(KEY)
    if raw is None:
        return None
    try:
        head = json.loads(raw)
        version = head["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{where}: what it says of itself cannot be read ({shown(str(error))}).") from error
    if version != VERSION:
        raise StoreError(f"{where} has version {shown(version)}; this lpplusplus reads {VERSION}: upgrade it.")
    return dict(head)


def width_of(file: Any, where: str) -> int:
    """Numbers per embedding of a Parquet file; 0 without rows.

    Raises
    ------
    SourceError
        There is no column of embeddings.
    """
    import pyarrow as pa

    schema = file.schema_arrow
    if EMBEDDING not in schema.names:
        raise SourceError(f"{where} has the columns {shown(list(schema.names))}, expected {EMBEDDING!r}.")
    kind = schema.field(EMBEDDING).type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not pa.types.is_floating(kind.value_type):
        raise SourceError(f"{where}: {EMBEDDING!r} is {shown(str(kind))}, expected lists of real numbers.")
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next(file.iter_batches(1, columns=[EMBEDDING]), None)
    return 0 if first is None else rows_of(first.column(0), None, where, 0).shape[1]


def rows_of(column: Any, width: int | None, where: str, first: int) -> NDArray[np.float32]:
    """(n, width) of a chunk of the column of embeddings; `first` is the number of its first row, for messages."""
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise SourceError(f"{where}: row {row} has no embedding ({column.null_count} such row(s)): remove them.")
    values = column.flatten()
    if values.null_count:
        raise SourceError(f"{where}: an embedding has empty places: write NaN-free numbers.")
    width = len(column[0]) if width is None else width
    if not hasattr(column.type, "list_size"):
        lengths = np.diff(column.offsets.to_numpy())
        if (lengths != width).any():
            row = first + int((lengths != width).argmax())
            raise SourceError(f"{where}: row {row} has {int(lengths[row - first])} numbers, others have {width}.")
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float32).reshape(len(column), width)


def labels_of(column: Any, where: str) -> tuple[list[str], bool]:
    """Labels as texts, and whether they are whole numbers."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    whole = pa.types.is_integer(kind)
    if not (whole or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise SourceError(f"{where}: {LABEL!r} is {shown(str(kind))}, expected texts or whole numbers.")
    if column.null_count:
        raise SourceError(f"{where}: {column.null_count} row(s) have no label: remove them, or the column.")
    return [str(label) for label in column.to_pylist()], whole


def named_classes(labels: Iterable[str] | None, whole: bool, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes in order, and their names in prompts; whole numbers are sorted as numbers: 2 before 10."""
    found = set(labels or ())
    for label in found:
        check_length(label, where)
    classes = sorted(found, key=int) if whole else sorted(found)
    return tuple(classes), tuple(display_name(label) for label in classes)


def write_parquet(embeddings: Embeddings, place: str | PathLike[str], *, rows_per_part: int = 65_536) -> None:
    """Write embeddings as a new data set of Parquet files, for other tools or another machine.

    Parameters
    ----------
    embeddings
        What `embed` or `FeatureStore.load` returned; the origin must be known.
    place
        Path or address of a folder that is empty or does not exist.
    rows_per_part
        Rows of each file.
    """
    origin = embeddings.origin
    if origin is None:
        raise SourceError("these embeddings do not say which encoder made them: they stay in a file of arrays.")
    system, folder = open_place(place)
    refuse_files(system, folder, spelled(place))
    try:
        system.create_dir(folder, recursive=True)
        receipts = []
        for number, first in enumerate(range(0, len(embeddings), rows_per_part)):
            part = embeddings.subset(slice(first, first + rows_per_part))
            labels = None if part.labels is None else part.labels.tolist()
            table = to_table(part, {"part": number, "listed": list_digest(part.paths, labels)})
            receipts.append(Receipt(write_part(system, folder, number, table)))
        about = embeddings.classes, embeddings.names, embeddings.labels is not None
        write_index(system, folder, ShardIndex(origin, *about, tuple(receipts)))
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"{spelled(place)} cannot be written ({why}).") from None


def refuse_files(
    system: Any, folder: str, where: str, ours: Mapping[str, object] | None = None, hidden: bool = False
) -> None:
    """Refuse a folder that has other files than `ours`; with `hidden`, names that begin with a dot are allowed."""
    fs = need_pyarrow("fs")
    if system.get_file_info(folder).type == fs.FileType.File:
        raise StoreError(f"{where} is a file: choose a new name.")
    inside = {info.base_name for info in system.get_file_info(fs.FileSelector(folder, allow_not_found=True))}
    others = sorted(name for name in inside - set(ours or ()) if not (hidden and name.startswith(".")))
    if others:
        raise StoreError(f"{where} has other files, such as {others[0]}: choose a new or empty folder.")


def part_name(number: int) -> str:
    """File name of a part; nothing but the number decides it."""
    return f"part-{number:06}.parquet"


def write_part(system: Any, folder: str, number: int, table: Any) -> int:
    """Write a table as a part; the same table gives the same file. Returns the number of its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    dictionary = [LABEL] if LABEL in table.column_names else False
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionary, write_statistics=False)
    _put(system, f"{folder}/{part_name(number)}", sink.getvalue())
    return int(table.num_rows)


def write_index(system: Any, folder: str, index: ShardIndex) -> None:
    """Write the index, when all parts are there."""
    _put(system, f"{folder}/{NAME}", index.content(PARQUET))


def _put(system: Any, path: str, content: Any) -> None:
    """Write a file that appears complete or not at all; object stores guarantee this by themselves."""
    if isinstance(system, need_pyarrow("fs").LocalFileSystem):
        with atomic_write(path) as file:
            file.write(content)
        return
    with system.open_output_stream(path) as stream:
        stream.write(content)
