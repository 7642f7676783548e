"""A project's folder as it is on disk: its photos by class, and names that every file system takes."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..images.errors import shown
from ..images.sources.folders import UNSORTED, readable
from .journal import ProjectError, Taken

LONGEST_NAME = 100
"""Most characters of a class or file name."""
MOST_BYTES = 240
"""Most bytes of a name, with room for a number behind it: file systems allow 255, and a character may have four."""
_FORBIDDEN = re.compile(r'[/\\:*?"<>|]')
"""Characters that some file systems do not allow in a name."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows reserves."""


class Photo(NamedTuple):
    """A file, and what shows, without reading it, whether it has changed."""

    path: str
    """Relative to the project, with "/"."""
    size: int
    mtime: int
    inode: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Stays the same after a move, and changes with the content."""
        return self.size, self.mtime, self.inode

    @property
    def label(self) -> str:
        """Its class, or "unsorted"."""
        return self.path.partition("/")[0] if "/" in self.path else UNSORTED


@dataclass(frozen=True)
class Listing:
    """What is in a project at one moment."""

    classes: Mapping[str, tuple[Photo, ...]]
    unsorted: tuple[Photo, ...]

    @property
    def labelled(self) -> int:
        """Number of photos that have a class."""
        return sum(map(len, self.classes.values()))

    def where(self) -> dict[str, Photo]:
        """Every photo by its path."""
        return {photo.path: photo for photos in (*self.classes.values(), self.unsorted) for photo in photos}


def read_listing(root: Path) -> Listing:
    """All photos of a project, in the order of `lpp train`."""
    names, loose = _read(root, "")
    photos = {name: tuple(_walk(root / name, f"{name}/")) for name in names}
    return Listing(photos, (*loose, *photos.pop(UNSORTED, ())))


def class_names(root: Path) -> list[str]:
    """Names of the classes, in order."""
    return [name for name in _read(root, "")[0] if name != UNSORTED]


def counted(photos: int) -> str:
    """1 photo, 2 photos."""
    return "1 photo" if photos == 1 else f"{photos} photos"


def folder_name(name: str) -> str:
    """The name of a class's folder; refused if some file system has none like it."""
    name = " ".join(unicodedata.normalize("NFC", name).split())
    problem = None
    if not name or not name.isprintable():
        problem = "a class needs a name of letters"
    elif len(name) > LONGEST_NAME:
        problem = f"{shown(name)} is longer than {LONGEST_NAME} characters"
    elif len(os.fsencode(name)) > MOST_BYTES:
        problem = f"{shown(name)} is too long to name a folder: leave out a third of it"
    elif _FORBIDDEN.search(name) or name.startswith(".") or name.endswith(".") or _RESERVED.fullmatch(name):
        problem = f'{shown(name)} cannot name a folder: leave out / \\ : * ? " < > | and dots at the ends'
    elif name.casefold() == UNSORTED:
        problem = f"{shown(name)} is where photos without a class are"
    if problem:
        raise ProjectError(f"{problem}.")
    return name


def safe_name(name: str) -> str:
    """A file name that every file system allows, as close as possible to the given one.

    >>> safe_name("../../etc/pass*wd.JPG"), safe_name(".hidden.png"), safe_name("CON.jpg"), safe_name("")
    ('pass_wd.JPG', 'hidden.png', 'photo-CON.jpg', 'photo.jpg')
    """
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    name = "".join(c if c.isprintable() else "_" for c in _FORBIDDEN.sub("_", name)).strip(" .")
    stem, suffix = os.path.splitext(name)
    if not readable(suffix):
        stem, suffix = name, ".jpg"
    stem = stem.strip(" .")[: LONGEST_NAME - len(suffix)]
    stem = stem.encode("utf-8", "replace")[: MOST_BYTES - len(suffix)].decode("utf-8", "ignore") or "photo"
    return f"photo-{stem}{suffix}" if _RESERVED.fullmatch(stem) else f"{stem}{suffix}"


def numbered(wanted: str, taken: Taken) -> str:
    """A free path, with a number behind the name if necessary."""
    stem, suffix = os.path.splitext(wanted)
    free, number = wanted, 2
    while taken(free):
        free, number = f"{stem}-{number}{suffix}", number + 1
    return free


def insides(folder: Path) -> Iterator[Path]:
    """All that is in `.lpp/`, except what is in removed folders: those are only moved, and may have links of people."""
    waiting = [folder]
    while waiting:
        for path in waiting.pop().iterdir():
            yield path
            if path.is_dir() and not path.is_symlink():
                if path.name == "removed":
                    yield from path.iterdir()
                else:
                    waiting.append(path)


def refuse_links(paths: Iterable[Path]) -> None:
    """Raise if one of the page's own files is a link, or no regular file."""
    for path in paths:
        if path.is_symlink() or not (path.is_dir() or path.is_file() or not path.exists()):
            raise ProjectError(f"{path} is a link or no regular file, which no project has: remove it.")


def _read(folder: Path, prefix: str) -> tuple[list[str], list[Photo]]:
    """Names of the folders, and the photos, that are directly in a folder; nothing if it cannot be read."""
    folders, photos = [], []
    try:
        with os.scandir(folder) as scan:
            for entry in scan:
                if entry.name.startswith(".") or not is_text(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False) and readable(os.path.splitext(entry.name)[1]):
                    with suppress(FileNotFoundError):  # Removed in the meantime.
                        status = entry.stat(follow_symlinks=False)
                        photos.append(Photo(prefix + entry.name, status.st_size, status.st_mtime_ns, status.st_ino))
    except OSError:  # Removed in the meantime, or not readable.
        return [], []
    return sorted(folders), sorted(photos)


def is_text(name: str) -> bool:
    """Whether a name can be shown and sent; on disk it may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _walk(folder: Path, prefix: str) -> Iterator[Photo]:
    """All photos below a folder, depth first, as `Tree.walk` has them."""
    waiting = [(folder, prefix)]  # Not by calling itself: folders may be deeper than Python allows.
    while waiting:
        folder, prefix = waiting.pop()
        folders, photos = _read(folder, prefix)
        yield from photos
        waiting += [(folder / name, f"{prefix}{name}/") for name in reversed(folders)]
