"""A zip file of images, read in memory. Nothing is unpacked to disk, so no name in it decides where anything goes."""

from __future__ import annotations

import re
import weakref
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ..._core.files import open_regular
from ..errors import SourceError, shown
from .arrays import FREELY_UNPACKED, MOST_PACKED
from .folders import ListedTree, PartName, from_tree
from .image_set import ImageSet, Item, StoredFile

if TYPE_CHECKING:
    from ...encoders.pixels.decoding import Limits

MOST_MEMBERS = 200_000
DEEPEST = 32
"""Largest depth of folders in folders."""
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods whose decoders stop at a given size."""


@dataclass(frozen=True, eq=False)
class ZippedFile(StoredFile):
    """A file in an archive."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    path: PurePath
    """`photos.zip/cat/1.jpg`."""

    def read_bytes(self, limits: Limits) -> bytes:
        """Its content, or an `ImageError`. For threads: an archive is read by one at a time."""
        from ...encoders.pixels.decoding import ImageError

        self.check_size(self.info.file_size, limits)
        try:
            with self.archive.open(self.info) as file:
                return file.read(self.info.file_size + 1)
        except Exception as error:  # zipfile and zlib raise anything on malformed content.
            raise ImageError(self.path, f"is damaged in the archive ({shown(str(error))}).") from error


def from_zip(
    path: str | PathLike[str], *, labels: bool = True, allow_empty: bool = False, part: PartName | None = None
) -> ImageSet:
    """Images in a zip file, as `from_folder` reads them from a folder; a single folder around everything is skipped.

    Refused as a whole: encrypted archives, names that lead out of the archive, more than `MOST_MEMBERS` files, and
    contents that are many times larger than the archive. Zip files inside are not opened.
    """
    path = Path(path)
    try:
        file = open_regular(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error
    try:
        archive = zipfile.ZipFile(file)
        weakref.finalize(archive, file.close)
        members = archive.infolist()
    except Exception as error:  # zipfile raises anything on malformed content.
        file.close()
        raise SourceError(f"{path} is damaged, or no zip file ({shown(str(error))}): make it again.") from error
    _check(path, members)
    tree = ListedTree(path, _listing(path, archive, members))
    return from_tree(path, tree, labels=labels, allow_empty=allow_empty, part=part, wrapped=True)


def _check(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse what cannot be an archive of photos, before anything is unpacked."""
    if len(members) > MOST_MEMBERS:
        raise SourceError(f"{path} has {len(members):,} files, more than {MOST_MEMBERS:,}: unzip it, name the folder.")
    total, packed = sum(member.file_size for member in members), path.stat().st_size
    if total > max(FREELY_UNPACKED, MOST_PACKED * packed):
        raise SourceError(
            f"{path} has {packed:,} bytes, but would take {total:,} unpacked: that is no archive of photos. If it is, "
            f"unzip it and name the folder."
        )
    for member in members:
        parts = _parts(member)
        if ".." in parts or re.match(r"[/\\]|[A-Za-z]:", member.filename):
            raise SourceError(f"{path} has the name {shown(member.filename)}, which leads out of it: make it again.")
        if len(parts) > DEEPEST:
            raise SourceError(f"{path} has more than {DEEPEST} folders in folders, at {shown(member.filename)}.")
        if member.flag_bits & 1:
            raise SourceError(f"{path} is encrypted ({shown(member.filename)}): unzip it, and name the folder.")
        if member.compress_type not in _KINDS:
            raise SourceError(
                f"{path} is packed in a way that is not read here ({shown(member.filename)}): make it with plain zip."
            )


def _parts(member: zipfile.ZipInfo) -> list[str]:
    """Names of folders and file; some programs write "\\" between them."""
    return [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]


def _listing(
    path: Path, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[tuple[Path, Item | None]]:
    for member in members:
        parts = _parts(member)
        if parts and "__MACOSX" not in (parts[0], parts[-1]):  # What macOS adds: icons that end in .jpg.
            place = path.joinpath(*parts)
            yield place, None if member.is_dir() else ZippedFile(archive, member, place)
