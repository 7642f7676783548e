"""Names that every file system takes, and paths that do not lead out of a folder."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .errors import SourceError, shown
from .sources.folders import UNSORTED, readable

LONGEST_NAME = 100
"""Most characters of a class or file name."""
MOST_BYTES = 240
"""Most bytes of a name, with room for a number behind it: file systems allow 255, and a character may have four."""
_FORBIDDEN = re.compile(r'[/\\:*?"<>|]')
"""Characters that some file systems do not allow in a name."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows reserves."""


class FolderError(SourceError):
    """A folder cannot be opened, or not be changed that way; the message says what to do."""


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
        raise FolderError(f"{problem}.")
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


def numbered(wanted: str, taken: Callable[[str], bool]) -> str:
    """A free path, with a number behind the name if necessary."""
    stem, suffix = os.path.splitext(wanted)
    free, number = wanted, 2
    while taken(free):
        free, number = f"{stem}-{number}{suffix}", number + 1
    return free


def is_text(name: str) -> bool:
    """Whether a name can be shown and sent; on disk it may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def place_in(root: Path, relative: str, folder: str = "folder", *, may_be_link: bool = False) -> Path:
    """A path below `root`, which messages call a `folder`; refused if it leads out of it, or through a link.

    `may_be_link` allows the file itself to be one.
    """
    parts = relative.split("/")
    bad = any(part in ("", ".", "..") or "\\" in part or "\0" in part or part[1:] == ":" for part in parts)
    if bad or not is_text(relative):
        raise FolderError(f"{shown(relative)} is not a path in this {folder}.")
    path = root
    for number, part in enumerate(parts, 1):
        path = path / part
        try:
            link = path.is_symlink() and not (may_be_link and number == len(parts))
        except OSError as error:  # No file system has such a long name.
            raise FolderError(f"{shown(relative)} is not a path in this {folder} ({error.strerror}).") from error
        if link:
            raise FolderError(f"{shown(relative)} leads through a link.")
    return path


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
    """Raise if one of our own files in somebody's folder is a link, or no regular file."""
    for path in paths:
        if path.is_symlink() or not (path.is_dir() or path.is_file() or not path.exists()):
            raise FolderError(f"{path} is a link or no regular file, which we never make there: remove it.")
