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
    needed = ("path", "label") if labels else ("path",)
    for line, row in _rows(path, needed):
        where = f"{path}, line {line}"
        place, *label = (_text(row, name, where) for name in needed)
        item = path.parent / place
        _check_file(item, where)
        items.append(item)
        found += label
        if labels:
            check_label(label[0], where)
            before, at = told.setdefault(item, (label[0], line))
            if before != label[0]:
                raise SourceError(
                    f"{where}: {shown(place)} is {shown(label[0])} here but {shown(before)} in line {at}: keep one."
                )
    if not items:
        raise SourceError(f"{path} lists no images.")
    return labelled(items, found, str(path)) if labels else ImageSet(items, source=str(path))


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and content of each entry."""
    read = _csv_rows if path.suffix.lower() == ".csv" else _jsonl_rows
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            yield from read(_lines(file, path), path, needed)
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


def _csv_rows(lines: Iterator[str], path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    first = next(lines, "")
    separator = ";" if ";" in first and "," not in first else ","  # As spreadsheets write where 1.5 is written 1,5.
    reader = csv.reader(itertools.chain([first], lines), strict=True, skipinitialspace=True, delimiter=separator)
    header: list[str] = []
    try:
        for row in reader:
            where, cells = f"{path}, line {reader.line_num}", [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not header:
                header = cells
                if any(header.count(name) != 1 for name in needed):
                    columns = " and ".join(f"a column {name}" for name in needed)
                    raise SourceError(f"{where}: expected a header with {columns}, found {shown(header)}.")
            elif len(cells) != len(header):
                raise SourceError(
                    f"{where}: {len(cells)} cells under {len(header)} columns; quote a cell that has a {separator} in "
                    f"it."
                )
            else:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: not CSV ({error}).") from error
    if not header:
        raise SourceError(f"{path} is empty: expected a header with {' and '.join(needed)}.")


def _jsonl_rows(lines: Iterator[str], path: Path, _: object) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise SourceError(
                f"{path}, line {number}: expected an object with path and label, found a {type(row).__name__}."
            )
        yield number, row


def _text(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if name == "label" and type(value) is int:
        value = str(value)
    if value is not None and not isinstance(value, str):
        raise SourceError(f"{where}: the {name} must be a string, not {shown(value)}.")
    if not value or not value.strip():
        raise SourceError(f"{where}: the {name} is {'missing or ' if value is None else ''}empty.")
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
