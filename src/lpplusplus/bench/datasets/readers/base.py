"""What a reader is, and what all readers need: checks of catalog values, and files below a folder, nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, TypeAlias

from ..splits import DatasetError, ImageSplits

if TYPE_CHECKING:
    from ..catalog import Entry

Check: TypeAlias = Callable[[Any, str], object]
"""Raises `DatasetError` for a value that a key of a catalog entry cannot have; the text says where the value is."""


@dataclass(frozen=True)
class Reader:
    """One layout of folders and files.

    Attributes
    ----------
    keys
        Keys of a catalog entry that this layout adds to the common ones, each with the check of its value.
    required
        Keys that an entry of this layout must have.
    needs
        Files and folders that must exist, relative to the root of all data sets; of the paths in one tuple, one must.
        Raises `DatasetError` for keys that contradict each other.
    read
        Reads a data set below the root of all data sets; None for a layout of embeddings instead of images.
    listed
        Whether images are named by a list, so that some of them may be missing.
    """

    keys: Mapping[str, Check]
    required: tuple[str, ...]
    needs: Callable[[Entry], list[tuple[str, ...]]]
    read: Callable[[Entry, Path], ImageSplits] | None
    listed: bool = False


def _of_type(kind: type, words: str) -> Check:
    def check(value: Any, where: str) -> None:
        if type(value) is not kind:
            raise DatasetError(f"{where}: expected {words}, found {value!r}.")

    return check


text, flag, whole_number, a_list = (
    _of_type(kind, words)
    for kind, words in ((str, "text"), (bool, "true or false"), (int, "a whole number"), (list, "a list"))
)


def table(check: Check) -> Check:
    """Check of a table whose values pass `check`."""
    is_table = _of_type(dict, "a table")

    def check_all(value: Any, where: str) -> None:
        is_table(value, where)
        for item in value.values():
            check(item, where)

    return check_all


def safe_path(text: Any, where: str) -> str:
    """A path from a file that others wrote, without "." and double "/"; refused if it could lead out of its folder.

    Raises
    ------
    DatasetError
        For an absolute path, or one with "..", a Windows drive, a backslash or a null character.

    Examples
    --------
    >>> safe_path("banded/banded_0133.jpg", "split.json")
    'banded/banded_0133.jpg'
    """
    if not isinstance(text, str) or not text:
        raise DatasetError(f"{where}: {text!r} is not a path.")
    odd = "\0" in text or "\\" in text or text.startswith("/") or bool(PureWindowsPath(text).anchor)
    if odd or ".." in text.split("/"):
        raise DatasetError(f"{where}: {text!r} is refused: a path must be relative, with '/', and without '..'.")
    return "/".join(piece for piece in text.split("/") if piece not in ("", ".")) or "."


def read_text(path: Path) -> str:
    """A text file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not text in UTF-8 ({error}).") from error


def lines(path: Path) -> list[tuple[int, str]]:
    """Number and text of each line that is not blank, without white space around it."""
    stripped = ((number, line.strip()) for number, line in enumerate(read_text(path).split("\n"), start=1))
    return [(number, line) for number, line in stripped if line]


def listing(folder: Path) -> tuple[list[str], list[str]]:
    """Sorted names of the folders and of the files in a folder, without hidden ones; no file is opened."""
    folders: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    (folders if entry.is_dir() else files).append(entry.name)
    except OSError as error:
        raise DatasetError(f"{folder} cannot be read ({error.strerror or error}).") from error
    return sorted(folders), sorted(files)
