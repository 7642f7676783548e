"""Writing a feature store, so that the process may be killed at any moment; the package's docstring has the steps."""

import contextlib
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..embeddings import Origin
from ..errors import DamagedShardError, ForeignStoreError, StoreError
from .index import BEFORE, NAME, StoreIndex, read_index
from .lock import exclusive
from .shards import Receipt, Shard, is_shard, read_shard, shard_name, write_shard

ROWS_PER_SHARD = 512
"""Images per shard: some seconds of work for a real encoder, and 2000 files for a million images."""

_SHARD = re.compile(r"shard-(\d{6,})\.safetensors")
_TEMPORARY = re.compile(r"\.(index\.json|shard-\d{6,}\.safetensors)\..*\.tmp")
_REPLACED = re.compile(r"[0-9a-f]{64}\.safetensors")
_EVERYWHERE = -1
"""Level of embeddings that every shard may reuse; see `StoreWriter`."""


@dataclass
class _Found:
    """A sound shard on disk, without its embeddings, which are read when needed; `path` changes if it is set aside."""

    path: Path
    shard: Shard
    receipt: Receipt


class StoreWriter:
    """Brings a store in line with a list of images; a context manager that holds the store's lock.

    Shard k may reuse embeddings from `replaced/` and from shards up to k, but not from later shards: these must not
    change which images are computed together for shard k, since the last bits of an embedding may depend on its batch.

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
        self.path = Path(path)
        self.origin = origin
        self.listed = list(listed)
        self._aside = self.path / "replaced"
        self._stack = contextlib.ExitStack()
        self._by_hash: dict[bytes, tuple[int, _Found, int]] = {}
        self._current: dict[int, _Found] = {}
        self._cache: OrderedDict[int, NDArray[np.float32]] = OrderedDict()
        self._replaced: list[_Found] = []
        self._previous: set[str] = set()  # Digests of the shards of the last complete list.

    def __enter__(self) -> "StoreWriter":
        with self._stack, self._writing():
            self._check_folder()
            self.path.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(exclusive(self.path))
            self._check_version()
            self._remove_temporary()
            self._scan()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def has(self, number: int, digest: bytes) -> bool:
        """Whether shard `number` can reuse the embedding of an image with this hash. Thread-safe."""
        known = self._by_hash.get(digest)
        return known is not None and known[0] <= number

    def row(self, number: int, digest: bytes) -> NDArray[np.float32]:
        """The embedding that shard `number` can reuse, (V, D)."""
        level, found, row = self._by_hash[digest]
        assert level <= number
        embedding: NDArray[np.float32] = self._embeddings(found)[row]
        return embedding

    def matches(self, number: int, hashes: NDArray[np.uint8], positions: NDArray[np.int32]) -> bool:
        """Whether shard `number` is there already, with just these images."""
        found = self._current.get(number)
        return (
            found is not None
            and np.array_equal(found.shard.hashes, hashes)
            and np.array_equal(found.shard.positions, positions)
        )

    def put(self, number: int, shard: Shard) -> None:
        """Write shard `number`; a shard of that number is set aside first."""
        path = self.path / shard_name(number)
        with self._writing():
            self._remove_index()
            if number in self._current:
                self._set_aside(self._current.pop(number))
            receipt = write_shard(path, shard)
        self._adopt(number, _Found(path, _without_embeddings(shard), receipt))

    def finish(self, classes: Sequence[str], names: Sequence[str], labelled: bool) -> int:
        """Write the index, when all shards are there, and remove what was set aside.

        What was set aside stays if the store held a different list of images (see the package's docstring): somebody
        may have named the wrong store. Returns how many images stay set aside.
        """
        receipts = tuple(self._current[number].receipt for number in range(len(self.listed)))
        with self._writing():
            StoreIndex(self.origin, tuple(classes), tuple(names), labelled, receipts).write(self.path)
            left = self._settle(self._previous, list(self._current.values()))
            (self.path / BEFORE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Not there, or not empty.
            self._aside.rmdir()
        return left

    def _settle(self, previous: set[str], now: Sequence[_Found]) -> int:
        """Clear `replaced/`, and return how many images are left there.

        Shards of the list `previous` are removed if `now` is much the same list. Shards of older lists are removed if
        `now` has all their images. Only content decides, so that interruptions on the way do not matter.
        """
        here = _images(now)
        together = [found for found in self._replaced if found.receipt.digest in previous]
        before = _images([*together, *(found for found in now if found.receipt.digest in previous)])
        same_list = 2 * len(before & here) >= min(len(before), len(here)) > 0
        kept = []
        for found in self._replaced:
            gone = same_list if found.receipt.digest in previous else _images([found]) <= here
            if gone:
                found.path.unlink(missing_ok=True)
            else:
                kept.append(found)
        self._replaced = kept
        return 0 if same_list else len(_images(together))

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
        shards = [name for name in names if _SHARD.fullmatch(name)]
        ours = (
            {NAME, BEFORE, ".lock"} & names
            or any(_TEMPORARY.fullmatch(name) for name in names)
            or (shards and all(is_shard(self.path / name) for name in shards))
        )
        if names and not ours:
            raise StoreError(f"{self.path} has other files and is not a feature store: choose a new or empty folder.")
        if self._aside.is_symlink():
            raise StoreError(f"{self._aside} is a link, which no feature store has: remove it.")

    def _check_version(self) -> None:
        """Refuse to write over a newer format; a damaged or absent index is written anew."""
        try:
            read_index(self.path)
        except ForeignStoreError:
            raise
        except StoreError:
            pass

    def _remove_temporary(self) -> None:
        for entry in self.path.iterdir():
            if _TEMPORARY.fullmatch(entry.name):
                entry.unlink()

    def _remove_index(self) -> None:
        """Rename the index, unless one is renamed already: it says what the store held before the change."""
        index, before = self.path / NAME, self.path / BEFORE
        with contextlib.suppress(FileNotFoundError):
            index.unlink() if before.exists() else index.replace(before)

    def _digests(self, name: str) -> set[str] | None:
        """Digests of the shards that an index has; None if it is absent or damaged."""
        try:
            return {receipt.digest for receipt in read_index(self.path, name).shards}
        except StoreError:
            return None

    def _scan(self) -> None:
        """Check every shard; keep what fits the list, set aside what is sound, remove what is damaged."""
        complete, before, indexed = self._digests(NAME), self._digests(BEFORE), (self.path / NAME).exists()
        self._replaced = [found for path in _sorted(self._aside, _REPLACED) if (found := self._sound(path))]
        in_place = [found for path in _sorted(self.path, _SHARD) if (found := self._sound(path))]
        if complete is not None and before is not None:  # Killed between the new index and the clearing of `replaced/`.
            self._settle(before, [found for found in in_place if found.receipt.digest in complete])
            (self.path / BEFORE).unlink()
            before = None
        held = in_place if indexed else [*in_place, *self._replaced]  # Without an index, no list was ever complete.
        self._previous = before or complete or {found.receipt.digest for found in held}
        for found in self._replaced:
            self._adopt(_EVERYWHERE, found)
        stale = []
        for found in in_place:
            number = int(found.path.stem.removeprefix("shard-"))
            fits = found.path.name == shard_name(number) and number < len(self.listed)
            if fits and found.shard.key == self.origin.key and found.shard.listed == self.listed[number]:
                self._adopt(number, found)
            else:
                stale.append(found)
        for found in stale:
            self._remove_index()
            self._set_aside(found)
            self._adopt(_EVERYWHERE, found)

    def _sound(self, path: Path) -> _Found | None:
        try:
            shard, receipt = read_shard(path)
        except DamagedShardError:
            self._remove_index()
            path.unlink()
            return None
        return _Found(path, _without_embeddings(shard), receipt)

    def _set_aside(self, found: _Found) -> None:
        self._aside.mkdir(exist_ok=True)
        target = self._aside / f"{found.receipt.digest}.safetensors"
        found.path.replace(target)
        found.path = target
        self._replaced.append(found)

    def _adopt(self, level: int, found: _Found) -> None:
        if found.shard.key == self.origin.key:
            for row, digest in enumerate(map(bytes, found.shard.hashes)):
                known = self._by_hash.get(digest)
                # Of several equal images the same one is used always, however often a run was interrupted.
                rank = (level, found.receipt.digest)
                if known is None or rank < (known[0], known[1].receipt.digest):
                    self._by_hash[digest] = (level, found, row)
        if level != _EVERYWHERE:
            self._current[level] = found

    def _embeddings(self, found: _Found) -> NDArray[np.float32]:
        """The embeddings of a shard. The last four shards are kept in memory: images of one shard are used together."""
        key = id(found)
        if key not in self._cache:
            self._cache[key] = read_shard(found.path)[0].embeddings
            if len(self._cache) > 4:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]


def _images(shards: Sequence[_Found]) -> set[bytes]:
    return {bytes(digest) for found in shards for digest in found.shard.hashes}


def _without_embeddings(shard: Shard) -> Shard:
    return Shard(shard.key, shard.listed, shard.embeddings[:0].copy(), shard.hashes.copy(), shard.positions.copy(), [],
                 None)  # fmt: skip


def _sorted(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
