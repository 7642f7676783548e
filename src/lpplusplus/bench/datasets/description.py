"""What a reader is, and what all readers need: the description of a data set, checks of its values, safe paths."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, TypeAlias

from ...encoders.class_text import check_templates
from .splits import PARTS, DatasetError, ImageSplits


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


FilePath: TypeAlias = Annotated[str, safe_path]
"""What a catalog says of a file or folder, relative to another."""


def _check_templates(value: list[str], where: str) -> None:
    try:
        check_templates(value)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}.") from error


def _check_counts(value: Mapping[str, int], where: str) -> None:
    if set(value) - set(PARTS):
        raise DatasetError(f"{where}: counts are of train, val and test.")


@dataclass(frozen=True)
class Description:
    """The description of a data set in a catalog.

    Attributes
    ----------
    name
        Name of the data set in draws, results and plans.
    title
        Its name in tables.
    folder
        Where it is, below the root of all data sets.
    reader
        Its layout on disk, one of `READERS`.
    templates
        Prompts, with {} for the class name.
    group
        "paper", "shift", "features", or what a user's file says.
    options
        The reader's own keys.
    classes, counts
        Expected numbers of classes, and of images in each split; 0 and empty if not known.
    rename
        Better class names for some that the files have.
    parent
        The data set whose classifiers this one tests. Its templates are the default of this one's.
    get, url
        How to get the data, and where from.
    """

    name: str
    title: str
    folder: FilePath
    reader: str
    templates: Annotated[tuple[str, ...], _check_templates]
    group: str = "own"
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: int = 0
    counts: Annotated[Mapping[str, int], _check_counts] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    get: str = ""
    url: str = ""

    @property
    def advice(self) -> str:
        """How to get the data."""
        return " ".join(part for part in (self.get, self.url and f"See {self.url}") if part)

    @property
    def digest(self) -> str:
        """SHA-256 of all fields, which tells apart two descriptions under one name."""
        values = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        # Results files have this digest, made when the class had another name.
        return hashlib.sha256(f"DataSet({values})".encode()).hexdigest()

    def below(self, place: str) -> str:
        """A path in its folder, relative to the root of all data sets."""
        return safe_path(f"{self.folder}/{place}", self.name)

    def renamed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Class names for prompts: `rename` applied, and spaces for underscores."""
        return tuple(self.rename.get(name, name).replace("_", " ") for name in names)


@dataclass(frozen=True)
class Reader:
    """One layout of folders and files.

    Attributes
    ----------
    keys
        Keys of a catalog entry that this layout adds to the common ones, each with its kind: see `check`.
    required
        Keys that an entry of this layout must have.
    read
        Reads a data set below the root of all data sets; None for a layout of embeddings instead of images.
    listed
        Whether images are named by a list, so that some of them may be missing.
    identified
        Whether a file has the class names of folders that are called by identifiers.
    inside
        A file that must be in each folder that `keys` name.
    check
        Raises `DatasetError` for keys that contradict each other.
    """

    keys: Mapping[str, Any]
    required: tuple[str, ...]
    read: Callable[[Description, Path], ImageSplits] | None
    listed: bool = False
    identified: bool = False
    inside: str = ""
    check: Callable[[Description], object] = lambda entry: None

    def needs(self, entry: Description) -> list[tuple[str, ...]]:
        """Files and folders that must exist below the root of all data sets; a tuple has alternatives."""
        given = {"images": "."} | dict(entry.options) if "images" in self.keys else entry.options
        named = [given[key] for key, kind in self.keys.items() if kind not in (str, bool) and key in given]
        paths = [path for one in named for path in ([one] if isinstance(one, str) else one.values())]
        needed: list[tuple[str, ...]] = [(entry.below(path + self.inside),) for path in paths]
        return [*needed, *([name_files(entry)] if self.identified else [])]


NAMES = "classnames.txt"


def name_files(entry: Description) -> tuple[str, ...]:
    """Files with class names. CoOp has a copy in each set's folder; ImageNet's own file serves as well."""
    return (entry.below(NAMES), *([f"{entry.parent}/{NAMES}"] if entry.parent else []))


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
