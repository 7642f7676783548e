"""A complete feature store, for reading."""

import io
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embeddings import Embeddings, share_of
from ..errors import DamagedShardError, StoreError
from .index import BEFORE, NAME, is_index, read_index
from .shards import Shard, assemble, map_embeddings, parse, read_header, read_shard, shard_name


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
        index = read_index(self.path)
        self.origin = index.origin
        self.classes, self.names, self.labelled = index.classes, index.names, index.labelled
        self._receipts = index.shards
        for number, receipt in enumerate(self._receipts):
            file = self._file(number)
            try:
                size = os.path.getsize(file)
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
            shard = self._shard(number, X[rows], verify)
            hashes[rows] = shard.hashes
            return shard.paths, shard.labels

        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            parts = list(pool.map(read, shards))
        paths = [path for part, _ in parts for path in part]
        labels = [label for _, part in parts for label in part or ()]
        found = np.array(labels, np.str_) if self.labelled else None
        return Embeddings(X, found, paths, self.classes, self.names, self.origin, hashes=hashes, reused=len(X))

    def maps(self, *, verify: bool = False) -> list[NDArray[np.float32]]:
        """Embeddings as read-only memory maps, (n_k, V, D) for shard k; nothing is read until it is used.

        With `verify`, everything is read once, to check it.
        """
        if verify:
            for number, receipt in enumerate(self._receipts):
                self._shard(number, np.empty((receipt.rows, *self.origin.shape), np.float32), verify=True)
        maps = []
        for number, receipt in enumerate(self._receipts):
            part = map_embeddings(self._file(number))
            if part.shape != (receipt.rows, *self.origin.shape):
                raise self._damaged(number, f"has embeddings of shape {part.shape}")
            maps.append(part)
        return maps

    def verify(self) -> list[str]:
        """Names of the shards that are damaged, by their SHA-256; an empty list if none is."""
        damaged = []
        for number, receipt in enumerate(self._receipts):
            try:
                shard, found = read_shard(self._file(number))
                if found != receipt or shard.key != self.origin.key:
                    damaged.append(shard_name(number))
            except StoreError:
                damaged.append(shard_name(number))
        return damaged

    def _shard(self, number: int, out: NDArray[np.float32], verify: bool) -> Shard:
        """Read a shard, its embeddings straight into `out`, so that a large store is not copied once more."""
        receipt, file = self._receipts[number], self._file(number)
        with self._open(number) as opened:
            beginning = read_header(opened)
            try:
                head, tensors = parse(beginning, receipt.bytes, file)
            except StoreError as error:
                if zlib.crc32(beginning + opened.read()) == receipt.crc32:
                    raise
                raise self._damaged(number, "does not match its checksum") from error
            place = tensors.get("embeddings")
            if place is None or (place.dtype, place.shape) != (out.dtype, out.shape):
                raise self._damaged(number, "does not belong to this store")
            before = beginning + opened.read(place.start - len(beginning))
            got = opened.readinto(out.data.cast("B")) if out.size else 0
            after = opened.read()
        if len(before) + got + len(after) != receipt.bytes or got != out.nbytes:
            raise self._damaged(number, "is truncated")
        if verify and zlib.crc32(after, zlib.crc32(out.data, zlib.crc32(before))) != receipt.crc32:
            raise self._damaged(number, "does not match its checksum")
        arrays: dict[str, NDArray[Any]] = {"embeddings": out}
        for name, tensor in tensors.items():
            if name != "embeddings":
                part, base = (before, 0) if tensor.start < place.start else (after, place.start + out.nbytes)
                if tensor.start < base or tensor.start - base + tensor.nbytes > len(part):
                    raise self._damaged(number, "has arrays that overlap")
                arrays[name] = tensor._replace(start=tensor.start - base).of(part)
        shard = assemble(head, arrays, file)
        if shard.key != self.origin.key or (shard.labels is not None) != self.labelled:
            raise self._damaged(number, "does not belong to this store")
        return shard

    def _open(self, number: int) -> io.FileIO:
        try:
            return io.FileIO(self._file(number))
        except OSError as error:
            raise self._damaged(number, f"cannot be read ({error.strerror or error})") from error

    def _file(self, number: int) -> Path:
        return self.path / shard_name(number)

    def _damaged(self, number: int, what: str) -> DamagedShardError:
        return DamagedShardError(f"{self._file(number)} {what}: embed again into {self.path} to rebuild it.")


def is_store(path: str | PathLike[str]) -> bool:
    """Whether a folder looks like a feature store, complete or not."""
    folder = Path(path)
    return any((folder / name).is_file() for name in (BEFORE, shard_name(0))) or is_index(folder / NAME)
