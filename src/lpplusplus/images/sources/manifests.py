"""Images and labels listed in a CSV or JSONL file."""

import csv
import io
import itertools
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from ..._core.files import open_regular
from ..errors import SourceError, shown
from .class_names import check_label
from .image_set import ImageSet, Item, labelled

MANIFESTS = (".csv", ".jsonl")
"""Endings of names of manifests."""
LONGEST_LINE = 2**20
"""Most characters of a line, which has a path and a label."""


def from_manifest(path: str | PathLike[str], *, labels: bool = True) -> ImageSet:
    """Images listed in a file, with paths relative to it.

    A CSV file has a header with the columns `path` and `label`; other columns are ignored. Cells are separated by
    commas or semicolons. A JSONL file has an object with these two keys on each line. Both are UTF-8, with or without a
    byte-order mark. White space around a path or label does not belong to it. An error names the line.

    Parameters
    ----------
    path
        A file named `*.csv` or `*.jsonl`.
    labels
        False if labels are not needed; they are then ignored.
    """
    path = Path(path)
    if path.suffix.lower() not in MANIFESTS:
        raise SourceError(f"{path}: a manifest ends in .csv or .jsonl.")
    items: list[Item] = []
    found: list[str] = []
    told: dict[Path, tuple[str, int]] = {}
    for line, place, label in _rows(path, labels):
        where = f"{path}, line {line}"
        item = path.parent / place
        _check_file(item, where)
        items.append(item)
        if labels:
            check_label(label, where)
            before, at = told.setdefault(item, (label, line))
            if before != label:
                raise SourceError(
                    f"{where}: {shown(place)} is {shown(label)} here but {shown(before)} in line {at}: keep one."
                )
            found.append(label)
    if not items:
        raise SourceError(f"{path} lists no images.")
    return labelled(items, found, str(path)) if labels else ImageSet(items, source=str(path))


def _rows(path: Path, labels: bool) -> Iterator[tuple[int, str, str]]:
    """Line number, path and label of each entry; without labels the path stands for the label."""
    read = _csv_rows if path.suffix.lower() == ".csv" else _jsonl_rows
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            yield from read(_lines(file, path), path, labels)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 ({error}): save it as UTF-8.") from error


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    for number in itertools.count(1):
        line = file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise SourceError(f"{path}, line {number} has more than {LONGEST_LINE:,} characters: this is no manifest.")
        if not line:
            return
        yield line


def _csv_rows(lines: Iterator[str], path: Path, labels: bool) -> Iterator[tuple[int, str, str]]:
    first = next(lines, "")
    separator = ";" if ";" in first and "," not in first else ","  # As spreadsheets write where 1.5 is written 1,5.
    reader = csv.reader(itertools.chain([first], lines), strict=True, skipinitialspace=True, delimiter=separator)
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
            header = _header(row, needed, where)
            continue
        if len(row) != len(header):
            raise SourceError(
                f"{where}: {len(row)} cells under {len(header)} columns; quote a cell that has a {separator} in it."
            )
        cells = [row[header.index(name)].strip() for name in needed]
        for name, cell in zip(needed, cells, strict=True):
            if not cell:
                raise SourceError(f"{where}: the {name} is empty.")
        yield reader.line_num, cells[0], cells[-1]
    if header is None:
        raise SourceError(f"{path} is empty: expected a header with {' and '.join(needed)}.")


def _header(row: list[str], needed: tuple[str, ...], where: str) -> list[str]:
    header = [cell.strip() for cell in row]
    if any(header.count(name) != 1 for name in needed):
        columns = " and ".join(f"a column {name}" for name in needed)
        raise SourceError(f"{where}: expected a header with {columns}, found {shown(header)}.")
    return header


def _jsonl_rows(lines: Iterator[str], path: Path, labels: bool) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, start=1):
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
        raise SourceError(f"{where}: the {name} must be a string, not {shown(value)}.")
    if not value.strip():
        raise SourceError(f"{where}: the {name} is empty.")
    return value.strip()


def _check_file(item: Path, where: str) -> None:
    try:
        if item.is_file() or item.is_symlink():  # `pixels.decoding` checks where a link leads.
            return
        folder = item.is_dir()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SourceError(f"{where}: {shown(str(item))} is not a usable path ({why}).") from error
    what = "is a folder" if folder else "does not exist"
    raise SourceError(f"{where}: {item} {what}; paths are relative to the folder of the list.")
