"""One writer at a time. The operating system holds the lock, so it ends with the process, however that ends."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import StoreError


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder/.lock`, or raise if another process does. On a file system without locks there is no protection."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(handle):
            raise StoreError(f"{folder} is being written by another process: wait for it, or choose another folder.")
        yield
    finally:
        os.close(handle)  # This also unlocks. The file stays: removing it could remove the next writer's lock.


def _lock(handle: int) -> bool:
    """Take the lock; whether nobody else has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EDEADLK, errno.EWOULDBLOCK)
    return True
