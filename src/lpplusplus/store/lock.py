"""One writer at a time. The system holds the lock, so that it ends with the process, however that ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .errors import StoreError


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder/.lock`, or raise if another process does. Where a file system has no locks, there is none."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(handle):
            raise StoreError(f"{folder} is being written by another process: wait for it, or choose another folder.")
        yield
    finally:
        os.close(handle)  # Also unlocks. The file stays, since removing it could remove the next writer's lock.


if sys.platform == "win32":

    def _lock(handle: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EDEADLK)
        return True

else:

    def _lock(handle: int) -> bool:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True
