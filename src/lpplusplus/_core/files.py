"""Files that are complete or absent, and JSON with exactly one text for each value."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

_BLOCK = 2**20
"""Bytes that are compared at once."""


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that gets its name only when it is complete; an interrupted write leaves nothing behind."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    name = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _nameless(target.parent) or open(name, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not os.fstat(file.fileno()).st_nlink:
                os.link(f"/proc/self/fd/{file.fileno()}", name, src_dir_fd=file.fileno())  # linkat follows the link.
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # It does not exist, or the disk has become read-only: `error` says more.
            os.unlink(name)
        ours = (name, str(name))
        if isinstance(error, OSError) and error.errno and (error.filename in (None, *ours) or error.filename2 in ours):
            # The error of a full disk names no file, and users do not know `name`.
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def _nameless(folder: Path) -> IO[bytes] | None:
    """A new file without a name, which is gone if this process is killed; None if the system does not support it."""
    if sys.platform != "linux" or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except OSError:  # Not supported; other problems show when a file with a name is made.
        return None


def open_regular(path: str | PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading; OSError for anything else. Never waits, as opening a named pipe would."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return file


def canonical_json(value: Any, *, compact: bool = False) -> str:
    """The one JSON text of a value, for digests; `compact` leaves out spaces, as embedding stores do.

    >>> canonical_json({"b": 1, "a": [2, None]}), canonical_json({"b": 1, "a": [2, None]}, compact=True)
    ('{"a": [2, null], "b": 1}', '{"a":[2,null],"b":1}')
    """
    separators = (",", ":") if compact else None
    return json.dumps(value, sort_keys=True, separators=separators, allow_nan=False)


def seal(text: str, kind: str, comment: str = "<!-- {} -->") -> str:
    """A page or program with a last line that says its kind and its digest, so that `sealed` knows it.

    >>> sealed(seal("<p>", "map").encode(), "map"), sealed(seal("<p>", "map").encode() + b"my note", "map")
    (True, False)
    """
    mark = comment.format(f"lpplusplus {kind}, sha256 of the above: {hashlib.sha256(text.encode()).hexdigest()}")
    return f"{text}\n{mark}\n"


def sealed(content: bytes, kind: str) -> bool:
    """Whether this is a page or program of that kind, and nobody has changed it since it was written."""
    text, _, mark = content.removesuffix(b"\n").rpartition(b"\n")
    digest = re.fullmatch(rb"(?:# |<!-- )lpplusplus %s, sha256 of the above: (\w{64})(?: -->)?" % kind.encode(), mark)
    return digest is not None and digest[1] == hashlib.sha256(text).hexdigest().encode()


def same_content(one: str | PathLike[str], other: str | PathLike[str]) -> bool:
    """Whether two regular files have the same bytes; False if one of them is not there, or is something else.

    >>> same_content(__file__, __file__), same_content(__file__, "no such file")
    (True, False)
    """
    try:
        first, second = (os.stat(path) for path in (one, other))
        if not (stat.S_ISREG(first.st_mode) and stat.S_ISREG(second.st_mode) and first.st_size == second.st_size):
            return False
        with open_regular(one) as file, open_regular(other) as beside:
            while block := file.read(_BLOCK):
                if block != beside.read(_BLOCK):
                    return False
            return not beside.read(1)
    except FileNotFoundError:
        return False


def copy_file(source: str | PathLike[str], target: str | PathLike[str], *, sync: bool = False) -> None:
    """Copy a file, with its times, to a name that is free; the name is there only when the copy is complete.

    With `sync` the copy is on the disk and compared with the original before it gets its name.
    """
    source, target = Path(source), Path(target)
    # The same name each time: if this process is killed, the next one writes over what it left.
    scratch = target.with_name(f".lpp-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}.tmp")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        shutil.copyfile(source, scratch)
        if sync:
            with open(scratch, "r+b") as file:
                os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # Not every file system keeps all of it.
            shutil.copystat(source, scratch)
        if sync and not same_content(source, scratch):
            raise OSError(errno.EIO, "the copy is not like the original", str(target))
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.rename(scratch, target)
        if sync:
            _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise


def move_file(source: str | PathLike[str], target: str | PathLike[str]) -> None:
    """Move a file or folder to a name that is free; a file also to another file system.

    There it is copied, synced, compared, and only then removed at its old place.
    """
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV or not stat.S_ISREG(os.lstat(source).st_mode):
            raise
        copy_file(source, target, sync=True)
        os.unlink(source)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last; systems that cannot open folders see to it themselves."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
