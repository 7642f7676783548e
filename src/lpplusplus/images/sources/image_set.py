"""A list of images with their labels, in memory or in a CSV or JSONL file; and some of them.

An image is a file, a file elsewhere, or in memory.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core.files import open_regular
from ..errors import SourceError, shown
from .class_names import check_label, check_names, listed, prompt_names

if TYPE_CHECKING:
    from PIL import Image

    from ...encoders.pixels.decoding import ImageError, Limits

MANIFESTS = (".csv", ".jsonl")
"""Endings of names of manifests."""
LONGEST_LINE = 2**20
"""Most characters of a line, which has a path and a label."""


class StoredFile(ABC):
    """A file somewhere: in an archive, in a bucket, in a table."""

    path: PurePath | str
    """What messages call it; there may be no such file here."""

    def as_posix(self) -> str:
        """What it is called, with "/"."""
        return self.path if isinstance(self.path, str) else self.path.as_posix()

    def check_size(self, size: int, limits: Limits) -> None:
        """Refuse a file that is larger than allowed, before it is read."""
        from ...encoders.pixels.decoding import ImageError

        if size > limits.max_bytes:
            raise ImageError(self.path, f"has {size:,} bytes, more than {limits.max_bytes:,} allowed.")

    @abstractmethod
    def read_bytes(self, limits: Limits) -> bytes:
        """Its content, or an `ImageError`; several threads may ask at once."""


def content_of(item: Path | StoredFile, limits: Limits | None = None) -> bytes:
    """The bytes of an image file, wherever it is; or an `ImageError`."""
    from ...encoders.pixels.decoding import DEFAULT_LIMITS, read_bytes

    limits = limits or DEFAULT_LIMITS
    return read_bytes(item, limits) if isinstance(item, Path) else item.read_bytes(limits)


Item: TypeAlias = "Path | StoredFile | Image.Image"


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images in a fixed order, not yet decoded.

    Attributes
    ----------
    items
        Files, files elsewhere such as in an archive, or Pillow images.
    labels
        Label of each image as a string; None where there are no labels, as for prediction.
    classes
        All labels in order. There may be classes without an image, known by their name only.
    names
        What each class is called in prompts, in the order of `classes`: see `prompt_names`, or what a file of class
        names says.
    source
        Where the images came from, for messages.
    ignored
        Number of hidden files and files of other kinds.
    problems
        Folders that could not be read and links to folders; `embed` treats them as bad images.
    """

    items: list[Item]
    labels: NDArray[np.str_] | None = None
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    source: str = "the list of images"
    ignored: int = 0
    problems: tuple[ImageError, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def paths(self) -> list[str]:
        """What each image is called in messages and in a feature store: its path with "/", or "<image 3>"."""
        return [
            item.as_posix() if isinstance(item, Path | StoredFile) else f"<image {position}>"
            for position, item in enumerate(self.items)
        ]

    def subset(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> ImageSet:
        """Some of the images, in the order of `indices`; all classes stay."""
        labels = None if self.labels is None else self.labels[np.asarray(indices, dtype=np.intp)]
        return replace(self, items=[self.items[index] for index in indices], labels=labels)


def labelled(
    items: list[Item],
    labels: Sequence[str],
    source: str,
    *,
    classes: Sequence[str] | None = None,
    ignored: int = 0,
    problems: tuple[ImageError, ...] = (),
) -> ImageSet:
    """An `ImageSet` with labels; by default its classes are in the order of code points, the same on every machine."""
    order = tuple(sorted(set(labels)) if classes is None else classes)
    names = prompt_names(order)
    check_names(names, source)
    return ImageSet(items, np.array(labels, np.str_), order, tuple(names.values()), source, ignored, problems)


def from_list(items: Iterable[str | PathLike[str] | Image.Image], labels: Iterable[Any] | None = None) -> ImageSet:
    """Paths or Pillow images, with or without a label each.

    Examples
    --------
    >>> images = from_list(["a.jpg", "b.jpg"], ["great_tit", "robin"])
    >>> images.classes, images.names
    (('great_tit', 'robin'), ('great tit', 'robin'))
    """
    if isinstance(items, str | bytes | os.PathLike):
        raise SourceError(f"expected a list of images, not the single {items!r}: use [{items!r}].")
    if not isinstance(items, Iterable):
        raise SourceError(f"expected a list of paths or Pillow images, not a single {type(items).__name__}: use [it].")
    kept = [_item(item, position) for position, item in enumerate(items)]
    if labels is None:
        return ImageSet(kept)
    listed = labels if isinstance(labels, np.ndarray) else list(labels)
    given = np.asarray(listed)
    if given.shape != (len(kept),):
        raise SourceError(f"{len(kept)} images need as many labels, but labels have shape {given.shape}.")
    whole = given.dtype.kind in "iu"
    others = [label for label in listed if (isinstance(label, bool) if whole else not isinstance(label, str))]
    if others:
        raise SourceError(f"labels must be all strings or all whole numbers, but one is {shown(others[0])}.")
    # Whole numbers are in their own order: 2 before 10.
    classes = [str(label) for label in np.unique(given).tolist()] if given.dtype.kind in "iu" else None
    return labelled(kept, [str(label) for label in given.tolist()], "the list of images", classes=classes)


def _item(item: Any, position: int) -> Item:
    if isinstance(item, str | os.PathLike):
        return Path(item)
    from PIL import Image

    if isinstance(item, Image.Image):
        return item
    raise SourceError(f"item {position} is a {type(item).__name__}, expected a path or a Pillow image.")


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


def sample_half(labels: ArrayLike, most: int, seed: int = 0) -> NDArray[np.intp]:
    """Choose half of each class's images, the larger half of an odd number, but at most `most`.

    >>> [len(sample_half(list("aaaaaabbbc"), most)) for most in (2, 9)]
    [5, 6]
    """
    array: NDArray[Any] = np.asarray(labels)
    chosen = []
    for label in np.unique(array):
        rows = np.flatnonzero(array == label)
        chosen.append(rows[sample_shots(array[rows], min(most, (len(rows) + 1) // 2), seed)])
    return np.sort(np.concatenate(chosen))


def sample_shots(labels: ArrayLike, shots: int, seed: int = 0, *, allow_fewer: bool = False) -> NDArray[np.intp]:
    """Choose `shots` images per class, without replacement.

    The choice depends on the order of the images, on their labels and on `seed`, on nothing else. With one seed,
    choices are nested: the images of 4 shots are among those of 8.

    Parameters
    ----------
    labels
        Label of each image.
    shots
        Number of images per class.
    seed
        Another seed gives another choice.
    allow_fewer
        Take all images of a class that has fewer than `shots`, instead of raising an error that names it.

    Returns
    -------
    (n,) array
        Positions in `labels`, ascending.

    Examples
    --------
    >>> labels = ["cat", "dog", "cat", "dog", "cat"]
    >>> sorted(labels[i] for i in sample_shots(labels, 2, seed=1))
    ['cat', 'cat', 'dog', 'dog']
    """
    if isinstance(shots, bool) or not isinstance(shots, int | np.integer) or shots < 1:
        raise SourceError(f"shots must be a whole number from 1, got {shots!r}.")
    array: NDArray[Any] = np.asarray(labels)
    classes, index, counts = np.unique(array, return_inverse=True, return_counts=True)
    short = [f"{label!s} ({count})" for label, count in zip(classes, counts, strict=True) if count < shots]
    if short and not allow_fewer:
        raise SourceError(f"fewer than {shots} images in {listed(short)}: add images or take fewer shots.")
    # Shuffle all, then sort by class, stably: each class keeps its shuffled order, whatever `shots` is.
    shuffled = np.random.default_rng(seed).permutation(len(array))
    grouped = shuffled[np.argsort(index.reshape(-1)[shuffled], kind="stable")]
    rank = np.arange(len(array)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(grouped[rank < shots])
