"""What a reader is, and what all of them need: files that are where a list from outside says, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, TypeAlias

from ..splits import DataSetError, Splits

if TYPE_CHECKING:
    from ..catalog import DataSet

Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """One layout of folders and files.

    Attributes
    ----------
    keys
        Keys of a catalog entry that this layout has besides the common ones, and the type of each:
        `str`, `bool`, or `dict` for a table of strings.
    required
        Those of them that an entry must have.
    needs
        Files and folders that must be there, relative to the root of all data sets; of those in one tuple, one.
    read
        Reads a data set below the root of all data sets.
    listed
        Whether images are named by a list, so that some of them may not be there.
    """

    keys: Mapping[str, type]
    required: tuple[str, ...]
    needs: Callable[[DataSet], list[tuple[str, ...]]]
    read: Callable[[DataSet, Path], Splits]
    listed: bool = False


def safe_path(text: Any, where: str) -> str:
    """A path from a file that others wrote, if it leads to somewhere below where it starts.

    Raises
    ------
    DataSetError
        For an absolute path, one with "..", a Windows drive, a backslash or a null character.

    Examples
    --------
    >>> safe_path("banded/banded_0133.jpg", "split.json")
    'banded/banded_0133.jpg'
    """
    if not isinstance(text, str) or not text:
        raise DataSetError(f"{where}: {text!r} is not a path.")
    odd = "\0" in text or "\\" in text or text.startswith("/") or bool(PureWindowsPath(text).anchor)
    if odd or ".." in text.split("/"):
        raise DataSetError(f"{where}: {text!r} is refused: a path must be relative, with '/', and without '..'.")
    return "/".join(piece for piece in text.split("/") if piece not in ("", ".")) or "."


def read_text(path: Path) -> str:
    """A text file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataSetError(f"{path} cannot be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise DataSetError(f"{path} is not text in UTF-8 ({error}).") from error


def lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not blank, without white space around them, each with its number."""
    stripped = ((number, line.strip()) for number, line in enumerate(read_text(path).split("\n"), start=1))
    return [(number, line) for number, line in stripped if line]


def listing(folder: Path) -> tuple[list[str], list[str]]:
    """Names of folders and of files in a folder, sorted, without hidden ones; no file is touched."""
    folders: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    (folders if entry.is_dir() else files).append(entry.name)
    except OSError as error:
        raise DataSetError(f"{folder} cannot be read ({error.strerror or error}).") from error
    return sorted(folders), sorted(files)
