"""Writing a feature store, so that it may be killed at any moment; the order of steps is in the package's docstring."""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from .errors import DamagedShardError, ForeignStoreError, StoreError
from .index import BEFORE, NAME, Index, read_index
from .lock import exclusive
from .settings import Settings
from .shards import Receipt, Shard, is_shard, read_shard, shard_name, write_shard

ROWS_PER_SHARD = 512
"""Pictures a shard stands for: some seconds of work for a real encoder, and 2000 files for a million."""

_SHARD = re.compile(r"shard-(\d{6,})\.safetensors")
_TEMPORARY = re.compile(r"\.(index\.json|shard-\d{6,}\.safetensors)\..*\.tmp")
_REPLACED = re.compile(r"[0-9a-f]{64}\.safetensors")
_EVERYWHERE = -1


@dataclass
class _Source:
    """A sound shard with this store's key; `path` changes when it is set aside."""

    path: Path
    shard: Shard  # Without embeddings, which are read when they are needed.
    receipt: Receipt


class StoreWriter:
    """Brings a store in line with a list of pictures; a context manager, which holds the store's lock.

    Embeddings that a run may take over for shard k are those set aside in `replaced/`, those of shards up to k, and no
    others: a shard that comes later in the list must not change which pictures are computed together for this one,
    since the last bits of an embedding may depend on its batch.

    Parameters
    ----------
    path
        Folder of the store; made if absent, refused if it holds something else.
    settings
        What makes the embeddings.
    listed
        `list_digest` of each shard of the list.
    """

    def __init__(self, path: str | PathLike[str], settings: Settings, listed: Sequence[str]) -> None:
        self.path = Path(path)
        self.settings = settings
        self.listed = list(listed)
        self._aside = self.path / "replaced"
        self._stack = contextlib.ExitStack()
        self._sources: dict[bytes, tuple[int, _Source, int]] = {}
        self._current: dict[int, _Source] = {}
        self._cache: OrderedDict[int, NDArray[np.float32]] = OrderedDict()
        self._replaced: list[_Source] = []
        self._previous: set[str] = set()  # Digests of the shards of the last complete list.

    def __enter__(self) -> StoreWriter:
        with self._stack, self._writing():
            self._check_folder()
            self.path.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(exclusive(self.path))
            self._check_version()
            self._remove_temporary()
            self._scan()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def has(self, number: int, digest: bytes) -> bool:
        """Whether shard `number` can take over the embedding of a picture with this hash. For any thread."""
        found = self._sources.get(digest)
        return found is not None and found[0] <= number

    def row(self, number: int, digest: bytes) -> NDArray[np.float32]:
        """That embedding, (V, D)."""
        level, source, row = self._sources[digest]
        assert level <= number
        found: NDArray[np.float32] = self._embeddings(source)[row]
        return found

    def matches(self, number: int, hashes: NDArray[np.uint8], positions: NDArray[np.int32]) -> bool:
        """Whether shard `number` is there already, for just these pictures."""
        source = self._current.get(number)
        return (
            source is not None
            and np.array_equal(source.shard.hashes, hashes)
            and np.array_equal(source.shard.positions, positions)
        )

    def put(self, number: int, shard: Shard) -> None:
        """Write shard `number`; what had its name is set aside."""
        path = self.path / shard_name(number)
        with self._writing():
            self._remove_index()
            if number in self._current:
                self._set_aside(self._current.pop(number))
            receipt = write_shard(path, shard)
        self._adopt(number, _Source(path, _without_embeddings(shard), receipt))

    def finish(self, classes: Sequence[str], names: Sequence[str], labelled: bool) -> int:
        """Write the index, then remove what was set aside. Every shard of the list must be there.

        Unless the store held another list, with less than half of its pictures or of these in common: somebody may have
        named the wrong store, and would have to compute it all again. Returns how many pictures are left aside for
        that reason.
        """
        receipts = tuple(self._current[number].receipt for number in range(len(self.listed)))
        with self._writing():
            Index(self.settings, tuple(classes), tuple(names), labelled, receipts).write(self.path)
            left = self._settle(self._previous, list(self._current.values()))
            (self.path / BEFORE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # Not there, or not empty.
            self._aside.rmdir()
        return left

    def _settle(self, previous: set[str], now: Sequence[_Source]) -> int:
        """Remove what was set aside of the list `previous`, unless `now` is another; and the rest if it is in `now`.

        Decided by content alone, so that it does not matter how often the way here was interrupted.
        """
        here = _pictures(now)
        together = [source for source in self._replaced if source.receipt.digest in previous]
        before = _pictures([*together, *(source for source in now if source.receipt.digest in previous)])
        same_list = 2 * len(before & here) >= min(len(before), len(here)) > 0
        kept = []
        for source in self._replaced:
            gone = same_list if source.receipt.digest in previous else _pictures([source]) <= here
            if gone:
                source.path.unlink(missing_ok=True)
            else:
                kept.append(source)
        self._replaced = kept
        return 0 if same_list else len(_pictures(together))

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
        """Remember it, though, unless that is done: until there is another, it says what the store held."""
        index, before = self.path / NAME, self.path / BEFORE
        with contextlib.suppress(FileNotFoundError):
            index.unlink() if before.exists() else index.replace(before)

    def _digests(self, name: str) -> set[str] | None:
        """Of the shards of a complete list; None where that index is absent or damaged."""
        try:
            return {receipt.digest for receipt in read_index(self.path, name).shards}
        except StoreError:
            return None

    def _scan(self) -> None:
        """Check every shard; keep what fits the list, set aside what is sound, remove what is damaged."""
        complete, before, indexed = self._digests(NAME), self._digests(BEFORE), (self.path / NAME).exists()
        self._replaced = [source for path in _sorted(self._aside, _REPLACED) if (source := self._sound(path))]
        in_place = [source for path in _sorted(self.path, _SHARD) if (source := self._sound(path))]
        if complete is not None and before is not None:  # Killed when all was done but for clearing away.
            self._settle(before, [source for source in in_place if source.receipt.digest in complete])
            (self.path / BEFORE).unlink()
            before = None
        held = in_place if indexed else [*in_place, *self._replaced]  # Without an index nothing was ever complete.
        self._previous = before or complete or {source.receipt.digest for source in held}
        for source in self._replaced:
            self._adopt(_EVERYWHERE, source)
        stale = []
        for source in in_place:
            number = int(source.path.stem.removeprefix("shard-"))
            fits = source.path.name == shard_name(number) and number < len(self.listed)
            if fits and source.shard.key == self.settings.key and source.shard.listed == self.listed[number]:
                self._adopt(number, source)
            else:
                stale.append(source)
        for source in stale:
            self._remove_index()
            self._set_aside(source)
            self._adopt(_EVERYWHERE, source)

    def _sound(self, path: Path) -> _Source | None:
        try:
            shard, receipt = read_shard(path)
        except DamagedShardError:
            self._remove_index()
            path.unlink()
            return None
        return _Source(path, _without_embeddings(shard), receipt)

    def _set_aside(self, source: _Source) -> None:
        self._aside.mkdir(exist_ok=True)
        target = self._aside / f"{source.receipt.digest}.safetensors"
        source.path.replace(target)
        source.path = target
        self._replaced.append(source)

    def _adopt(self, level: int, source: _Source) -> None:
        if source.shard.key == self.settings.key:
            for row, digest in enumerate(map(bytes, source.shard.hashes)):
                known = self._sources.get(digest)
                # Of several, always the same one, however often a run was interrupted.
                rank = (level, source.receipt.digest)
                if known is None or rank < (known[0], known[1].receipt.digest):
                    self._sources[digest] = (level, source, row)
        if level != _EVERYWHERE:
            self._current[level] = source

    def _embeddings(self, source: _Source) -> NDArray[np.float32]:
        """Of the last few shards asked for: pictures that stay together are found together."""
        key = id(source)
        if key not in self._cache:
            self._cache[key] = read_shard(source.path)[0].embeddings
            if len(self._cache) > 4:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]


def _pictures(sources: Sequence[_Source]) -> set[bytes]:
    return {bytes(digest) for source in sources for digest in source.shard.hashes}


def _without_embeddings(shard: Shard) -> Shard:
    return Shard(shard.key, shard.listed, shard.embeddings[:0].copy(), shard.hashes.copy(), shard.positions.copy(), [],
                 None)  # fmt: skip


def _sorted(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
