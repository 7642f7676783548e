"""A folder of pictures: one sub-folder a class, or all without labels."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from .class_names import SourceError, listed
from .image_set import ImageSet, Item, labelled

if TYPE_CHECKING:
    from ..pixels.decoding import ImageError

EXTENSIONS = frozenset((".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif"))
"""How names of pictures end, in any case; whether they are pictures is for `pixels.decoding` to find out."""


def from_folder(root: str | PathLike[str], *, labels: bool = True, allow_empty: bool = False) -> ImageSet:
    """Pictures below a folder, in an order that is the same on every machine.

    Hidden files and files with other endings are counted (`ignored`), links are followed, and a folder that links lead
    to twice is reported (`problems`) and read once.

    Parameters
    ----------
    root
        `root/<class>/…/picture.jpg`; the label is the name of the folder directly below `root`.
    labels
        False for pictures without labels: all below `root`, in sub-folders or not.
    allow_empty
        Keep classes whose folder has no pictures; they are known by their name only.
    """
    root = Path(root)
    if not root.is_dir():
        raise SourceError(f"{root} is {'not a folder' if root.exists() else 'not there'}: expected a folder of images.")
    if not labels:
        walk = _Walk(root)
        if not walk.files and not walk.problems:
            raise SourceError(f"{root} has no images ({_kinds()}).")
        return ImageSet(list(walk.files), None, (), (), str(root), walk.ignored, tuple(walk.problems))
    return _by_class(root, allow_empty)


def _by_class(root: Path, allow_empty: bool) -> ImageSet:
    folders, files, ignored, problems = _entries(root)
    if files:
        beside = "beside class folders" if folders else "without class folders"
        raise SourceError(
            f"{root} has images directly in it, {beside} (such as {files[0].name!r}): "
            f"put each into the folder of its class, {root / '<class>' / files[0].name}."
        )
    if problems:
        raise SourceError(str(problems[0]))
    if not folders:
        raise SourceError(f"{root} has no class folders: expected {root / '<class>' / '*.jpg'}.")
    items: list[Item] = []
    names: list[str] = []
    empty = []
    for folder in folders:
        walk = _Walk(folder)
        items += walk.files
        names += [folder.name] * len(walk.files)
        ignored += walk.ignored
        problems += walk.problems
        if not walk.files and not walk.problems:
            empty.append(folder.name)
    if empty and not allow_empty:
        raise SourceError(f"{root} has class folders without images: {listed(empty)}. Add images, remove them, or "
                          f"keep them as known by their names (--allow-empty, allow_empty=True).")  # fmt: skip
    classes = [folder.name for folder in folders]
    return labelled(items, names, str(root), classes=classes, ignored=ignored, problems=tuple(problems))


class _Walk:
    """All pictures below a folder, depth first, names in the order of their code points."""

    def __init__(self, top: Path) -> None:
        self.files: list[Path] = []
        self.ignored = 0
        self.problems: list[ImageError] = []
        self._seen: set[tuple[int, int]] = set()
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if self._is_new(folder):
                folders, files, ignored, problems = _entries(folder)
                self.files += files
                self.ignored += ignored
                self.problems += problems
                waiting += reversed(folders)

    def _is_new(self, folder: Path) -> bool:
        from ..pixels.decoding import ImageError

        try:
            status = folder.stat()
        except OSError as error:
            self.problems.append(ImageError(folder, f"cannot be read ({error.strerror or error})."))
            return False
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen:
            self.problems.append(ImageError(folder, "links to a folder that is being read already: a circle of links."))
            return False
        self._seen.add(identity)
        return True


def _entries(folder: Path) -> tuple[list[Path], list[Path], int, list[ImageError]]:
    """Sub-folders, pictures, number of other things, and what went wrong."""
    from ..pixels.decoding import ImageError

    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        return [], [], 0, [ImageError(folder, f"cannot be read ({error.strerror or error}).")]
    folders, files, ignored = [], [], 0
    for entry in entries:
        if entry.name.startswith("."):
            ignored += 1
        elif _is_folder(entry):
            folders.append(folder / entry.name)
        elif os.path.splitext(entry.name)[1].lower() in EXTENSIONS:
            files.append(folder / entry.name)
        else:
            ignored += 1
    return folders, files, ignored, []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # A link that leads to itself: a bad picture if it is named like one.
        return False


def _kinds() -> str:
    return ", ".join(sorted(EXTENSIONS))
