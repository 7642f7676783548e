"""A folder of images: one sub-folder per class, or images without labels."""

from __future__ import annotations

import os
import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SourceError
from .class_names import listed
from .image_set import ImageSet, Item, labelled

if TYPE_CHECKING:
    from ...encoders.pixels.decoding import ImageError

_EXTRA = {".heic": "HEIF", ".heif": "HEIF", ".hif": "HEIF", ".avif": "AVIF"}
"""Endings of images that need the extra `heif`."""
EXTENSIONS = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif", *_EXTRA)
)
"""How names of images end, in any case. Whether they are images is for `pixels.decoding` to find out."""


def from_folder(root: str | PathLike[str], *, labels: bool = True, allow_empty: bool = False) -> ImageSet:
    """Images below a folder, in an order that is the same on every machine.

    Hidden files and files with other endings are counted (`ignored`). So are HEIC and AVIF images if the packages that
    read them are not installed; a warning says how many. Links are followed; a folder that is reached twice is read
    once and reported (`problems`).

    Parameters
    ----------
    root
        `root/<class>/…/image.jpg`; the label is the name of the folder directly below `root`.
    labels
        False for images without labels: all below `root`, in sub-folders or not.
    allow_empty
        Keep classes whose folder has no images; they are known by their name only.
    """
    root = Path(root)
    if not root.is_dir():
        raise SourceError(f"{root} is {'not a folder' if root.exists() else 'not there'}: expected a folder of images.")
    if labels:
        return _by_class(root, allow_empty)
    below = _Tree()
    below.walk(root)
    if not below.files and not below.problems:
        raise SourceError(f"{root} has no images ({', '.join(sorted(EXTENSIONS))}).{below.hint()}")
    below.warn(root)
    return ImageSet(below.files, source=str(root), ignored=below.ignored, problems=tuple(below.problems))


def _by_class(root: Path, allow_empty: bool) -> ImageSet:
    below = _Tree()
    folders = below.read(root)
    if below.files:
        beside = "beside class folders" if folders else "without class folders"
        name = os.path.basename(str(below.files[0]))
        raise SourceError(
            f"{root} has images directly in it, {beside} (such as {name!r}): "
            f"put each into the folder of its class, {root / '<class>' / name}."
        )
    if below.problems:
        raise SourceError(str(below.problems[0]))
    if not folders:
        raise SourceError(f"{root} has no class folders: expected {root / '<class>' / '*.jpg'}.")
    labels: list[str] = []
    empty = []
    for folder in folders:
        problems = len(below.problems)
        below.walk(folder)
        new = len(below.files) - len(labels)
        labels += [folder.name] * new
        if not new and len(below.problems) == problems:
            empty.append(repr(folder.name))
    if empty and not allow_empty:
        raise SourceError(
            f"{root} has class folders without images: {listed(empty)}. Add images, remove the folders, or keep these "
            f"classes as known by their names (--allow-empty, allow_empty=True).{below.hint()}"
        )
    below.warn(root)
    classes = [folder.name for folder in folders]
    return labelled(
        below.files, labels, str(root), classes=classes, ignored=below.ignored, problems=tuple(below.problems)
    )


class _Tree:
    """What is in some folders: images in order, the number of other files, and what went wrong."""

    def __init__(self) -> None:
        self.files: list[Item] = []
        self.ignored = 0
        self.not_readable: list[Path] = []
        self.problems: list[ImageError] = []

    def walk(self, top: Path) -> None:
        """Read a folder and all below it, depth first."""
        waiting, seen = [top], set()
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
            except OSError as error:
                self._problem(folder, f"cannot be read ({error.strerror or error}).")
                continue
            if (status.st_dev, status.st_ino) in seen:
                self._problem(folder, "links to a folder that is being read already: a circle of links.")
                continue
            seen.add((status.st_dev, status.st_ino))
            waiting += reversed(self.read(folder))

    def read(self, folder: Path) -> list[Path]:
        """Read one folder and return its sub-folders; names are in the order of their code points."""
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            self._problem(folder, f"cannot be read ({error.strerror or error}).")
            return []
        folders = []
        for entry in entries:
            path, suffix = folder / entry.name, os.path.splitext(entry.name)[1].lower()
            hidden = entry.name.startswith(".")
            if not hidden and _is_folder(entry):
                folders.append(path)
            elif not hidden and suffix in EXTENSIONS and _can_be_read(suffix):
                self.files.append(path)
            else:
                self.ignored += 1
                if not hidden and suffix in EXTENSIONS:
                    self.not_readable.append(path)
        return folders

    def hint(self) -> str:
        """What to say of images that need another package, if there are any."""
        if not self.not_readable:
            return ""
        from ...encoders.pixels.decoding import HOW_TO_READ_MORE

        count, first = len(self.not_readable), self.not_readable[0]
        return f" {count} HEIC or AVIF image(s) are left out, {first} first. {HOW_TO_READ_MORE}"

    def warn(self, root: Path) -> None:
        """Warn of them."""
        if self.not_readable:
            warnings.warn(f"{root}:{self.hint()}", stacklevel=4)

    def _problem(self, folder: Path, what: str) -> None:
        from ...encoders.pixels.decoding import ImageError  # Needs Pillow, which other sources do not.

        self.problems.append(ImageError(folder, what))


def _can_be_read(suffix: str) -> bool:
    if suffix not in _EXTRA:
        return True
    from ...encoders.pixels.decoding import extra_formats

    return _EXTRA[suffix] in extra_formats()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # A link that leads to itself: a bad image if it is named like one.
        return False
