"""A file in a zip archive, read in memory."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import shown

if TYPE_CHECKING:
    from ...encoders.pixels.decoding import Limits


@dataclass(frozen=True, eq=False)
class ZippedFile:
    """A file in an archive."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    path: Path
    """`photos.zip/cat/1.jpg`, for messages: there is no such file."""

    def as_posix(self) -> str:
        """What it is called, with "/"."""
        return self.path.as_posix()

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
