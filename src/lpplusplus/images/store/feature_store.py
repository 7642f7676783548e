"""A complete feature store, for reading, and its index. A data set of Parquet files has the same, spelled otherwise."""

import hashlib
import json
import math
import os
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.files import canonical_json, open_regular
from ..embeddings import Embeddings, Origin, share_of
from ..errors import DamagedShardError, ForeignStoreError, StoreError, shown
from .shards import Receipt, Shard, map_embeddings, parse_shard, read_shard, shard_name

STORE, PARQUET, VERSION = "lpplusplus features", "lpplusplus parquet", 1
"""What an index says that it is of."""
LARGEST = 2**26
"""Bytes of an index: enough for a hundred million images."""
NAME, NEXT = "index.json", "next"
BEFORE = "index.before.json"
"""What version 0.1 called the index of a store while it changed it."""


@dataclass(frozen=True)
class ShardIndex:
    """Origin, classes with their display names in order (empty without labels), and a receipt for each file.

    It is written last.
    """

    origin: Origin
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labelled: bool
    shards: tuple[Receipt, ...]

    def content(self, kind: str) -> bytes:
        """The file of an index of that kind."""
        held = {"classes": list(self.classes), "names": list(self.names), "labelled": self.labelled}
        origin = self.origin.settings()
        if kind == PARQUET:
            whole: dict[str, Any] = {**held, "origin": origin, "rows": [receipt.rows for receipt in self.shards]}
        else:
            store = {**held, "settings": origin, "shards": [receipt._asdict() for receipt in self.shards]}
            whole = {"digest": digest_of(kind, VERSION, store), "store": store}
        whole |= {"format": kind, "version": VERSION}
        return json.dumps(whole, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def read_index(content: bytes, kind: str, where: str) -> ShardIndex:
    """Read an index with every type checked: its checksum guards against accidents, not against strangers.

    Raises
    ------
    StoreError
        It is damaged; `ForeignStoreError` if it is of a newer format.
    """
    try:
        whole = parsed(content)
        said, version = whole["format"], whole["version"]
        held = whole["store"] if kind == STORE else whole
        # Every version forms the digest this way; if it is right, another format is not damage.
        if kind == STORE and whole["digest"] != digest_of(said, version, held):
            raise ValueError("its content does not match its checksum")
        if (said, version) != (kind, VERSION):
            raise ForeignStoreError(
                f"{where} has format {shown(said)}, version {shown(version)}; this lpplusplus reads version {VERSION}: "
                f"upgrade it."
            )
        if kind == PARQUET:
            held = held | {"settings": held["origin"], "shards": [{"rows": rows} for rows in held["rows"]]}
        return _index(held)
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = textwrap.shorten(str(error), 200, placeholder=" …")
        raise StoreError(f"{where} is damaged ({what}): embed again to rebuild it.") from error


def _index(held: dict[str, Any]) -> ShardIndex:
    shards = tuple(Receipt(**entry) for entry in held["shards"])  # Refuses other keys: none decides a file's name.
    classes, names, labelled = tuple(held["classes"]), tuple(held["names"]), held["labelled"]
    if len(classes) != len(names) or not all(isinstance(name, str) for name in classes + names):
        raise ValueError("classes and names do not fit together")
    if not all(type(digest) is str and all(type(n) is int and n >= 0 for n in sizes) for *sizes, digest in shards):
        raise ValueError("sizes are not whole numbers")
    if type(labelled) is not bool:
        raise ValueError(f"labelled is {shown(labelled)}")
    return ShardIndex(Origin.read(held["settings"]), classes, names, labelled, shards)


def parsed(content: bytes) -> Any:
    """JSON of a size that an index may have."""
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return json.loads(content)


def index_bytes(path: Path) -> bytes:
    """What is in the file of an index."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        return file.read(min(size, LARGEST) + 1)  # Python takes memory for all that is asked for.


def is_index(path: Path) -> bool:
    """Whether a file says of itself that it is the index of a feature store."""
    try:
        return bool(parsed(index_bytes(path))["format"] == STORE)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def digest_of(kind: Any, version: Any, store: Any) -> str:
    """The checksum of what an index says."""
    return hashlib.sha256(canonical_json([kind, version, store], compact=True).encode()).hexdigest()


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
        receipt = self._receipts[number]
        shard = parse_shard(self._file(number), receipt if verify else None)
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
        content = index_bytes(folder / NAME)
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


def _absent(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}: expected a feature store."
    if is_store(folder) or any(folder.glob("shard-*.safetensors")):
        return f"{folder} is incomplete: embedding was interrupted. Run it again; only what is missing is computed."
    return f"{folder} is not a feature store: it has no {NAME}."
