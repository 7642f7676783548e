"""Writing a feature store, so that the process may be killed at any moment; the package's docstring has the steps."""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..._core.files import atomic_write
from ..embeddings import Origin
from ..errors import DamagedShardError, ForeignStoreError, StoreError
from .feature_store import BEFORE, NAME, NEXT, STORE, FeatureStore, ShardIndex, is_index, stored_index
from .shards import Receipt, Shard, read_shard, shard_name, write_shard

ROWS_PER_SHARD = 512
"""Images per shard: some seconds of work for a real encoder, and 2000 files for a million images."""
SAMPLE = 8
"""Images that are looked at to learn whether other images have the names of those in the store."""
_SHARD = re.compile(r"shard-\d{6,}\.safetensors")
_TEMPORARY = re.compile(r"\.(index\.json|shard-\d{6,}\.safetensors)\..*\.tmp")


class _Stored:
    """A sound shard on disk: all but its embeddings, which are read when needed."""

    def __init__(self, path: Path, shard: Shard, receipt: Receipt) -> None:
        self.path, self.key, self.listed, self.receipt = path, shard.key, shard.listed, receipt
        self.hashes, self.positions = shard.hashes.copy(), shard.positions.copy()  # Not the embeddings.
        self.rows = {digest: row for row, digest in reversed([*enumerate(map(bytes, shard.hashes))])}


class StoreWriter:
    """Brings a store in line with a list of images, from its first shard to its last; holds the store's lock.

    Shard k may reuse embeddings of shards before it, of what the store had in its own place, and of shards that do not
    fit the list; not of later ones, since these must not change which images are computed together for shard k: the
    last bits of an embedding may depend on its batch.

    Parameters
    ----------
    path
        Folder of the store; made if absent, refused if it holds something else.
    origin
        What makes the embeddings.
    listed
        `list_digest` of each shard of the list.
    """

    def __init__(self, path: str | PathLike[str], origin: Origin, listed: Sequence[str]) -> None:
        self.path, self.origin, self.listed = Path(path), origin, list(listed)
        self._next = self.path / NEXT
        self._stack = contextlib.ExitStack()
        self._known: dict[bytes, tuple[_Stored, int]] = {}
        """Rows that the present shard and all later ones may reuse."""
        self._fitting: dict[int, list[_Stored]] = {}
        """Shards for each place in the list: the one to be used, then what was there before."""
        self._held: list[_Stored] = []
        self._same_names = True
        self._embeddings = lru_cache(4)(lambda stored: read_shard(stored.path)[0].embeddings)

    def __enter__(self) -> "StoreWriter":
        with self._stack, self._writing():
            self._check_folder()
            self.path.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(exclusive(self.path))
            try:
                stored_index(self.path)
            except ForeignStoreError:
                raise
            except StoreError:  # Absent or damaged: it is written anew.
                pass
            self._scan()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def refuse_others(self, count: int, digest: Callable[[int], bytes | None]) -> None:
        """Refuse a store of another encoder or of other images: somebody may have named the wrong one.

        Parameters
        ----------
        count
            Images in the list.
        digest
            The hash of an image, by its position; None if it cannot be read. Not many are asked for, unless the list
            has changed.
        """
        remedy = "name another store, or remove this one first."
        if any(stored.key != self.origin.key for stored in self._held):
            raise StoreError(f"{self.path} holds embeddings by another encoder or with other views: {remedy}")
        before = {image for stored in self._held for image in stored.rows}
        sample = (count * part // SAMPLE for part in range(SAMPLE) if count)
        if self._same_names and (not before or any(digest(position) in before for position in sample)):
            return
        missing, common, position = min(len(before), count) / 2, set[bytes | None](), 0
        while len(common) < missing:
            if position == count:
                raise StoreError(f"{self.path} holds embeddings of other images: {remedy}")
            common |= {digest(position)} & before
            position += 1

    def has(self, number: int, digest: bytes) -> bool:
        """Whether shard `number` can reuse the embedding of an image with this hash. Thread-safe."""
        return self._find(number, digest) is not None

    def row(self, number: int, digest: bytes) -> NDArray[np.float32]:
        """The embedding that shard `number` can reuse, (V, D)."""
        known = self._find(number, digest)
        assert known is not None
        embedding: NDArray[np.float32] = self._embeddings(known[0])[known[1]]
        return embedding

    def matches(self, number: int, hashes: NDArray[np.uint8], positions: NDArray[np.int32]) -> bool:
        """Whether shard `number` is there already, with just these images; it is then kept."""
        for stored in self._fitting.get(number, ()):
            if np.array_equal(stored.hashes, hashes) and np.array_equal(stored.positions, positions):
                self._use(number, stored)
                return True
        return False

    def put(self, number: int, shard: Shard) -> None:
        """Write shard `number`."""
        path = self._next / shard_name(number)
        with self._writing():
            self._next.mkdir(exist_ok=True)
            receipt = write_shard(path, shard)
        self._use(number, _Stored(path, shard, receipt))

    def finish(self, classes: Sequence[str], names: Sequence[str], labelled: bool) -> None:
        """Move the new shards into place and write the index, when all shards are there."""
        chosen = [self._fitting[number][0] for number in range(len(self.listed))]
        receipts = tuple(stored.receipt for stored in chosen)
        index = ShardIndex(self.origin, tuple(classes), tuple(names), labelled, receipts).content(STORE)
        new = [stored for stored in chosen if stored.path.parent == self._next]
        with self._writing():
            beyond = {*_named(self.path, _SHARD)} - {self.path / shard_name(k) for k in range(len(chosen))}
            if new or beyond or not is_index(self.path / NAME) or (self.path / NAME).read_bytes() != index:
                (self.path / NAME).unlink(missing_ok=True)
                for stored in new:
                    stored.path.replace(self.path / stored.path.name)
                for path in beyond:
                    path.unlink()
                with atomic_write(self.path / NAME) as file:
                    file.write(index)
            (self.path / BEFORE).unlink(missing_ok=True)
            for path in _named(self._next, _SHARD):
                path.unlink()
        with contextlib.suppress(OSError):  # Not there, or not empty.
            self._next.rmdir()

    def load(self) -> NDArray[np.float32]:
        """All embeddings of the finished store, (n, V, D)."""
        return FeatureStore(self.path).load().X

    def _find(self, number: int, digest: bytes) -> tuple[_Stored, int] | None:
        if digest in self._known:
            return self._known[digest]
        own = self._fitting.get(number, ())
        return next(((stored, stored.rows[digest]) for stored in own if digest in stored.rows), None)

    def _use(self, number: int, stored: _Stored) -> None:
        others = [other for other in self._fitting.get(number, ()) if other is not stored]
        self._fitting[number] = [stored, *others]
        self._offer([stored, *others])

    def _offer(self, shards: Sequence[_Stored]) -> None:
        for stored in shards:
            for digest, row in stored.rows.items():
                self._known.setdefault(digest, (stored, row))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written ({error.strerror or error}). What is finished is kept for the next run."
            ) from error

    def _check_folder(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is not a folder: choose a new name for the feature store.")
        names = {entry.name for entry in self.path.iterdir()}
        if names and not {BEFORE, ".lock"} & names and not is_index(self.path / NAME):
            raise StoreError(f"{self.path} has other files and is not a feature store: choose a new or empty folder.")
        if self._next.is_symlink():
            raise StoreError(f"{self._next} is a link, which no feature store has: remove it.")

    def _scan(self) -> None:
        """Check every shard; what is damaged is as if it were not there."""
        for folder in (self._next, self.path):
            for path in _named(folder, _TEMPORARY):
                path.unlink()
            self._held += filter(None, map(_sound, _named(folder, _SHARD)))
        mine = [stored for stored in self._held if stored.key == self.origin.key]
        numbers = {shard_name(number): number for number in range(len(self.listed))}
        for stored in mine:
            number = numbers.get(stored.path.name)
            if number is not None and stored.listed == self.listed[number]:
                self._fitting.setdefault(number, []).append(stored)
            else:
                self._same_names = False
                self._offer([stored])
        earlier = filter(None, map(_sound, _named(self.path / "replaced", re.compile(r"[0-9a-f]{64}\.safetensors"))))
        self._offer([stored for stored in earlier if stored.key == self.origin.key])


def _sound(path: Path) -> _Stored | None:
    try:
        return _Stored(path, *read_shard(path))
    except DamagedShardError:
        return None


def _named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name)) if folder.is_dir() else []


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder/.lock`, or raise if another process does. The operating system ends it with the process."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(handle):
            raise StoreError(f"{folder} is being written by another process: wait for it, or choose another folder.")
        yield
    finally:
        os.close(handle)  # This also unlocks. The file stays: removing it could remove the next writer's lock.


def _lock(handle: int) -> bool:
    """Take the lock; whether nobody else has it. On a file system without locks there is no protection."""
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
