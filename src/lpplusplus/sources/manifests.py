"""Pictures and labels listed in a CSV or JSONL file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from .class_names import SourceError, check_label
from .image_set import ImageSet, Item, labelled


def from_manifest(path: str | PathLike[str], *, labels: bool = True) -> ImageSet:
    """Pictures listed in a file, paths relative to it.

    CSV has a header with the columns `path` and `label` (and others, which are passed over); JSONL has an object with
    these two keys on each line. UTF-8, with or without a byte-order mark; white space around a path or label does not
    belong to it. Every mistake is reported with its line.

    Parameters
    ----------
    path
        A file named `*.csv` or `*.jsonl`.
    labels
        False where labels are not needed; they are then passed over.
    """
    path = Path(path)
    rows = {".csv": _csv_rows, ".jsonl": _jsonl_rows}.get(path.suffix.lower())
    if rows is None:
        raise SourceError(f"{path}: a manifest ends in .csv or .jsonl.")
    items: list[Item] = []
    found: list[str] = []
    told: dict[Path, tuple[str, int]] = {}
    for line, place, label in _readable(path, rows, labels):
        where = f"{path}, line {line}"
        item = path.parent / place
        _check_file(item, where)
        items.append(item)
        if labels:
            check_label(label, where)
            before, at = told.setdefault(item, (label, line))
            if before != label:
                raise SourceError(f"{where}: {place!r} is {label!r} here but {before!r} in line {at}: keep one.")
            found.append(label)
    if not items:
        raise SourceError(f"{path} lists no images.")
    return labelled(items, found, str(path)) if labels else ImageSet(items, origin=str(path))


def _readable(path: Path, rows: Any, labels: bool) -> Iterator[tuple[int, str, str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from rows(file, path, labels)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 ({error}): save it as UTF-8.") from error


def _csv_rows(file: TextIO, path: Path, labels: bool) -> Iterator[tuple[int, str, str]]:
    reader = csv.reader(file, strict=True, skipinitialspace=True)
    needed = ("path", "label") if labels else ("path",)
    header: list[str] | None = None
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise SourceError(f"{path}, line {reader.line_num}: not CSV ({error}).") from error
        if row is None:
            break
        if not any(cell.strip() for cell in row):
            continue
        where = f"{path}, line {reader.line_num}"
        if header is None:
            header = [cell.strip() for cell in row]
            for name in needed:
                if header.count(name) != 1:
                    raise SourceError(f"{where}: expected a header with one column {name!r}, found {header}.")
            continue
        if len(row) != len(header):
            raise SourceError(f"{where}: {len(row)} cells under {len(header)} columns; quote a cell that has a comma.")
        cells = [row[header.index(name)].strip() for name in needed]
        for name, cell in zip(needed, cells, strict=True):
            if not cell:
                raise SourceError(f"{where}: the {name} is empty.")
        yield reader.line_num, cells[0], cells[-1]
    if header is None:
        raise SourceError(f"{path} is empty: expected a header with {' and '.join(needed)}.")


def _jsonl_rows(file: TextIO, path: Path, labels: bool) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{where}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise SourceError(f"{where}: expected an object with path and label, found a {type(row).__name__}.")
        cells = [_text(row, name, where) for name in (("path", "label") if labels else ("path",))]
        yield number, cells[0], cells[-1]


def _text(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if name == "label" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        raise SourceError(f"{where}: the {name} is missing or empty.")
    if not isinstance(value, str):
        raise SourceError(f"{where}: the {name} must be a string, not {value!r}.")
    if not value.strip():
        raise SourceError(f"{where}: the {name} is empty.")
    return value.strip()


def _check_file(item: Path, where: str) -> None:
    try:
        if item.is_file() or item.is_symlink():  # What a link leads to is for the reader of pictures to judge.
            return
        folder = item.is_dir()
    except (OSError, ValueError) as error:
        raise SourceError(f"{where}: {str(item)!r} is not a usable path ({error}).") from error
    raise SourceError(f"{where}: {item} {'is a folder' if folder else 'does not exist'}; paths are relative to the "
                      f"manifest.")  # fmt: skip
