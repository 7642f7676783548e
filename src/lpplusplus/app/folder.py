"""A project's folder as it is on disk: its photos by class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..images.safe_paths import is_text
from ..images.sources.folders import UNSORTED, readable


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
    def labelled(self) -> list[Photo]:
        """The photos that have a class, class by class."""
        return [photo for photos in self.classes.values() for photo in photos]

    def where(self) -> dict[str, Photo]:
        """Every photo by its path."""
        return {photo.path: photo for photo in (*self.labelled, *self.unsorted)}


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


def _walk(folder: Path, prefix: str) -> Iterator[Photo]:
    """All photos below a folder, depth first, as `Tree.walk` has them."""
    waiting = [(folder, prefix)]  # Not by calling itself: folders may be deeper than Python allows.
    while waiting:
        folder, prefix = waiting.pop()
        folders, photos = _read(folder, prefix)
        yield from photos
        waiting += [(folder / name, f"{prefix}{name}/") for name in reversed(folders)]
