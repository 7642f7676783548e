"""Images of a part: files in any file system, members of a tar archive, rows of a table."""

import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..encoders.pixels.decoding import ImageError, Limits, read_bytes
from ..images.errors import SourceError, shown
from ..images.parquet.addresses import need_pyarrow
from ..images.sources.stored_file import StoredFile

ATTEMPTS = 4
"""Attempts to read a file: services fail now and then."""
MOST_MEMBERS = 1_000_000
"""Most members of a tar archive."""


@dataclass(frozen=True, eq=False)
class PlacedFile(StoredFile):
    """A file in a pyarrow file system."""

    system: Any
    place: str
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if isinstance(self.system, need_pyarrow("fs").LocalFileSystem):
            try:
                return read_bytes(self.place, limits)
            except ImageError as error:
                raise ImageError(self.path, error.reason) from None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.system.open_input_file(self.place) as file:
                    if file.size() > limits.max_bytes:
                        raise ImageError(
                            self.path, f"has {file.size():,} bytes, more than {limits.max_bytes:,} allowed."
                        )
                    content: bytes = file.read()
                    return content
            except FileNotFoundError:
                raise ImageError(self.path, "does not exist.") from None
            except OSError:  # The service fails, not the image: the run stops, and can be started again later.
                if attempt == ATTEMPTS:
                    raise
                time.sleep(0.2 * 4**attempt)
        raise AssertionError


@dataclass(frozen=True, eq=False)
class TableBytes(StoredFile):
    """Bytes from a table; None if the row has none."""

    content: bytes | None
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if self.content is None:
            raise ImageError(self.path, "has no content.")
        return self.content


@dataclass(frozen=True, eq=False)
class TarMember(StoredFile):
    """A member of a tar archive, which is never unpacked."""

    archive: Any
    offset: int
    size: int
    path: str

    def read_bytes(self, limits: Limits) -> bytes:
        if self.size > limits.max_bytes:
            raise ImageError(self.path, f"has {self.size:,} bytes, more than {limits.max_bytes:,} allowed.")
        content: bytes = self.archive.read_at(self.size, self.offset)
        if len(content) != self.size:
            raise ImageError(self.path, "is cut off: its archive is truncated.")
        return content


def tar_members(archive: Any, where: str) -> Iterator[TarMember]:
    """The files of a tar archive in their order, without folders, links and devices."""
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for _ in range(MOST_MEMBERS):
                member = tar.next()
                if member is None:
                    return
                if member.isreg():
                    yield TarMember(archive, member.offset_data, member.size, f"{where}/{member.name}")
                tar.members = []  # type: ignore[attr-defined]  # Else every header stays in memory.
            raise SourceError(f"{where} has more than {MOST_MEMBERS:,} members: make smaller shards.")
    except tarfile.TarError as error:
        raise SourceError(f"{where} is damaged, or no tar archive ({shown(str(error))}).") from None
