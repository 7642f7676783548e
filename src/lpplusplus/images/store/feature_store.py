"""A complete feature store, for reading."""

import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..._core.files import open_regular
from ..embeddings import Embeddings, share_of
from ..errors import DamagedShardError, StoreError
from .index import LARGEST, STORE, ShardIndex, parsed, read_index
from .shards import Shard, map_embeddings, parse_shard, read_content, read_shard, shard_name

NAME, NEXT = "index.json", "next"
BEFORE = "index.before.json"
"""What version 0.1 called the index of a store while it changed it."""


class FeatureStore:
    """A feature store that `embed` wrote: embeddings on disk, to train on many times.

    Opening checks the index and the size of every file. `load` checks every byte against a CRC-32 as it reads; `maps`
    does so only on request; `verify` checks the SHA-256 of each shard.

    Parameters
    ----------
    path
        Its folder.

    Attributes
    ----------
    origin : Origin
        What made the embeddings.
    classes, names : tuple of str
        Labels in order, and what prompts call them; empty without labels.
    labelled : bool
        Whether it has labels.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        index = stored_index(self.path)
        self.origin = index.origin
        self.classes, self.names, self.labelled = index.classes, index.names, index.labelled
        self._receipts = index.shards
        for number, receipt in enumerate(self._receipts):
            try:
                size = os.path.getsize(self._file(number))
            except OSError as error:
                raise self._damaged(number, f"is missing ({error.strerror or error})") from error
            if size != receipt.bytes:
                raise self._damaged(number, f"has {size} bytes instead of {receipt.bytes}")
            if size < receipt.rows * (4 * math.prod(self.origin.shape) + 32):  # Each row has a hash of 32 bytes.
                raise self._damaged(number, f"is too small for {receipt.rows} embeddings of shape {self.origin.shape}")

    def __len__(self) -> int:
        return sum(receipt.rows for receipt in self._receipts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, V, D)."""
        return (len(self), *self.origin.shape)

    @property
    def shards(self) -> int:
        """Number of its files."""
        return len(self._receipts)

    def load(self, *, verify: bool = True, share: tuple[int, int] | None = None) -> Embeddings:
        """All embeddings in memory; each shard is checked against its CRC-32 by default.

        With `share` = (k, n), part k of n of its shards only.
        """
        shards = share_of(range(self.shards), share)
        ends = np.cumsum([0, *(receipt.rows for receipt in self._receipts)])
        first, end = ends[shards.start], ends[shards.stop]
        X = np.empty((end - first, *self.origin.shape), np.float32)
        hashes = np.empty((len(X), 32), np.uint8)

        def read(number: int) -> tuple[list[str], list[str] | None]:
            rows = slice(ends[number] - first, ends[number + 1] - first)
            shard = self._shard(number, verify)
            X[rows], hashes[rows] = shard.embeddings, shard.hashes
            return shard.paths, shard.labels

        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            parts = list(pool.map(read, shards))
        paths = [path for part, _ in parts for path in part]
        labels = [label for _, part in parts for label in part or ()]
        told = np.array(labels, np.str_) if self.labelled else None
        return Embeddings(X, told, paths, self.classes, self.names, self.origin, hashes=hashes, reused=len(X))

    def maps(self, *, verify: bool = False) -> list[NDArray[np.float32]]:
        """Embeddings as read-only memory maps, (n_k, V, D) for shard k; nothing is read until it is used.

        With `verify`, everything is read once, to check it.
        """
        maps = []
        for number, receipt in enumerate(self._receipts):
            if verify:
                self._shard(number, verify=True)
            part = map_embeddings(self._file(number))
            if part.shape != (receipt.rows, *self.origin.shape):
                raise self._damaged(number, f"has embeddings of shape {part.shape}")
            maps.append(part)
        return maps

    def verify(self) -> list[str]:
        """Names of the shards that are damaged, by their SHA-256; an empty list if none is."""
        damaged = []
        for number, expected in enumerate(self._receipts):
            try:
                shard, receipt = read_shard(self._file(number))
                sound = receipt == expected and shard.key == self.origin.key
            except StoreError:
                sound = False
            if not sound:
                damaged.append(shard_name(number))
        return damaged

    def _shard(self, number: int, verify: bool) -> Shard:
        receipt, path = self._receipts[number], self._file(number)
        content = read_content(path)
        if verify and (len(content), zlib.crc32(content)) != (receipt.bytes, receipt.crc32):
            raise self._damaged(number, "does not match its checksum")
        shard = parse_shard(content, path)
        fits = shard.embeddings.shape == (receipt.rows, *self.origin.shape) and shard.key == self.origin.key
        if not fits or (shard.labels is not None) != self.labelled:
            raise self._damaged(number, "does not belong to this store")
        return shard

    def _file(self, number: int) -> Path:
        return self.path / shard_name(number)

    def _damaged(self, number: int, what: str) -> DamagedShardError:
        return DamagedShardError(f"{self._file(number)} {what}: embed again into {self.path} to rebuild it.")


def stored_index(folder: Path) -> ShardIndex:
    """The index of a complete store; StoreError if it is absent, damaged, or of a newer format."""
    try:
        content = _read(folder / NAME)
    except FileNotFoundError:
        raise StoreError(_absent(folder)) from None
    except OSError as error:
        raise StoreError(f"{folder} cannot be read as a feature store ({error.strerror or error}).") from error
    return read_index(content, STORE, str(folder / NAME))


def is_store(path: str | PathLike[str]) -> bool:
    """Whether a folder looks like a feature store, complete or not."""
    folder = Path(path)
    return any((folder / name).is_file() for name in (BEFORE, shard_name(0), f"{NEXT}/{shard_name(0)}")) or is_index(
        folder / NAME
    )


def is_index(path: Path) -> bool:
    """Whether a file says of itself that it is the index of a feature store."""
    try:
        return bool(parsed(_read(path))["format"] == STORE)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _read(path: Path) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        return file.read(min(size, LARGEST) + 1)  # Python takes memory for all that is asked for.


def _absent(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}: expected a feature store."
    if is_store(folder) or any(folder.glob("shard-*.safetensors")):
        return f"{folder} is incomplete: embedding was interrupted. Run it again; only what is missing is computed."
    return f"{folder} is not a feature store: it has no {NAME}."
