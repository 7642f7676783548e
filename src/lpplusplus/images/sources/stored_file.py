"""A file that is not a path of this machine, such as one in a zip archive; read in memory."""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ..errors import shown

if TYPE_CHECKING:
    from ...encoders.pixels.decoding import Limits


class StoredFile(ABC):
    """A file somewhere: in an archive, in a bucket, in a table."""

    path: PurePath | str
    """What messages call it; there may be no such file here."""

    def as_posix(self) -> str:
        """What it is called, with "/"."""
        return self.path if isinstance(self.path, str) else self.path.as_posix()

    @abstractmethod
    def read_bytes(self, limits: Limits) -> bytes:
        """Its content, or an `ImageError`; several threads may ask at once."""


def content_of(item: Path | StoredFile, limits: Limits | None = None) -> bytes:
    """The bytes of an image file, wherever it is; or an `ImageError`."""
    from ...encoders.pixels.decoding import DEFAULT_LIMITS, read_bytes

    limits = limits or DEFAULT_LIMITS
    return read_bytes(item, limits) if isinstance(item, Path) else item.read_bytes(limits)


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

        if self.info.file_size > limits.max_bytes:
            raise ImageError(self.path, f"has {self.info.file_size:,} bytes, more than {limits.max_bytes:,} allowed.")
        try:
            with self.archive.open(self.info) as file:
                return file.read(self.info.file_size + 1)
        except Exception as error:  # zipfile and zlib raise anything on malformed content.
            raise ImageError(self.path, f"is damaged in the archive ({shown(str(error))}).") from error
