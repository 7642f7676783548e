"""One shard: a safetensors file that can be checked on its own."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ..._core.files import atomic_write, canonical_json, open_regular
from ..errors import DamagedShardError, ForeignStoreError, StoreError, shown

KEY, VERSION = "lpplusplus.features", 1
HASH_BYTES = 32
LARGEST_HEADER = 2**16
"""Most bytes of a header: ours have a few hundred, since paths and labels are among the arrays."""
_UNSEALED = "0" * 64
"""Stands for the digest while it is computed, so that the digest covers every byte of the file but itself.

Every version of the format must do so: then a file of another version is newer if its digest is right, else damaged.
"""


class Receipt(NamedTuple):
    """What the index keeps of a file; of a Parquet file, the number of rows only."""

    rows: int
    bytes: int = 0
    crc32: int = 0
    digest: str = ""


@dataclass(frozen=True, eq=False)
class Shard:
    """Embeddings of consecutive images of a list, without the images that could not be read.

    Attributes
    ----------
    key
        `Origin.key` of what made them.
    listed
        Digest of the paths and labels of all images in this part of the list, read or not; see `list_digest`.
    embeddings
        (n, V, D) float32.
    hashes
        (n, 32) SHA-256 of each file's bytes.
    positions
        (n,) position of each image in this part of the list.
    paths, labels
        n strings each; `labels` is None without labels.
    """

    key: str
    listed: str
    embeddings: NDArray[np.float32]
    hashes: NDArray[np.uint8]
    positions: NDArray[np.int32]
    paths: list[str]
    labels: list[str] | None


def shard_name(number: int) -> str:
    """File name of a shard; nothing but the number decides it."""
    return f"shard-{number:06}.safetensors"


def list_digest(paths: Sequence[str], labels: Sequence[str] | None) -> str:
    """Digest of the part of a list that a shard holds."""
    text = canonical_json([list(paths), None if labels is None else list(labels)], compact=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_shard(path: Path, shard: Shard) -> Receipt:
    """Write a shard atomically; equal shards make equal files."""
    arrays: dict[str, NDArray[Any]] = {
        "embeddings": np.ascontiguousarray(shard.embeddings, np.float32),
        "hashes": np.ascontiguousarray(shard.hashes, np.uint8),
        "positions": np.ascontiguousarray(shard.positions, np.int32),
        "paths": _blob(shard.paths),
    }
    if shard.labels is not None:
        arrays["labels"] = _blob(shard.labels)
    head = {"version": VERSION, "key": shard.key, "listed": shard.listed, "digest": _UNSEALED}
    header = canonical_json(head, compact=True)
    content = safetensors.numpy.save(arrays, {KEY: header})
    digest = hashlib.sha256(content).hexdigest()
    content = content.replace(_UNSEALED.encode(), digest.encode(), 1)
    with atomic_write(path) as file:
        file.write(content)
    return Receipt(len(shard.embeddings), len(content), zlib.crc32(content), digest)


def read_shard(path: Path) -> tuple[Shard, Receipt]:
    """Read a whole shard and check it against its own SHA-256.

    Raises
    ------
    DamagedShardError
        It is not what `write_shard` wrote.
    ForeignStoreError
        It is of a newer format.
    """
    content = _content(path)
    seal = str(_head(content, path)[0].get("digest"))
    unsealed = content.replace(seal.encode(errors="replace"), _UNSEALED.encode(), 1)
    if hashlib.sha256(unsealed).hexdigest() != seal:
        raise _damaged(path, "its content does not match its checksum")
    shard = _parsed_shard(content, path)
    return shard, Receipt(len(shard.embeddings), len(content), zlib.crc32(content), seal)


def parse_shard(path: Path, receipt: Receipt | None = None) -> Shard:
    """Read a whole shard, checked against what the index has of it."""
    content = _content(path)
    if receipt and (len(content), zlib.crc32(content)) != (receipt.bytes, receipt.crc32):
        raise _damaged(path, "it does not match its checksum")
    return _parsed_shard(content, path)


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        kind = StoreError if isinstance(error, PermissionError) else DamagedShardError
        raise kind(f"{path} cannot be read ({error.strerror or error}): embed again to rebuild it.") from error


def _parsed_shard(content: bytes, path: Path) -> Shard:
    """The shard in a file's bytes, if its parts fit together."""
    head, _ = _head(content, path)
    if head.get("version") != VERSION:
        raise ForeignStoreError(
            f"{path} has format version {shown(head.get('version'))}, this lpplusplus reads {VERSION}: upgrade it."
        )
    try:
        arrays = safetensors.numpy.load(content)
        X, hashes, positions = arrays["embeddings"], arrays["hashes"], arrays["positions"]
        paths = _strings(arrays["paths"], len(X))
        labels = _strings(arrays["labels"], len(X)) if "labels" in arrays else None
        if X.ndim != 3 or hashes.shape != (len(X), HASH_BYTES) or positions.shape != (len(X),):
            raise ValueError("its arrays do not fit together")
        if (X.dtype, hashes.dtype, positions.dtype) != (np.float32, np.uint8, np.int32):
            raise ValueError("its arrays hold other kinds of numbers")
        return Shard(head["key"], head["listed"], X, hashes, positions, paths, labels)
    except Exception as error:  # Readers of malformed content raise anything.
        raise _damaged(path, str(error)) from error


def map_embeddings(path: Path) -> NDArray[np.float32]:
    """Embeddings of a shard as a read-only memory map; the header is checked, the numbers are not."""
    try:
        with open_regular(path) as file:
            beginning = file.read(8 + LARGEST_HEADER)
        entry = _head(beginning, path)[1]["embeddings"]
        with safetensors.safe_open(path, framework="numpy") as checked:  # Every size, against that of the file.
            shape = tuple(checked.get_slice("embeddings").get_shape())
        if entry["dtype"] != "F32" or len(shape) != 3:
            raise ValueError("it has no embeddings")
        if 0 in shape:
            return np.empty(shape, np.float32)
        start = 8 + int.from_bytes(beginning[:8], "little") + entry["data_offsets"][0]
        return np.memmap(path, np.float32, "r", start, shape)
    except StoreError:
        raise
    except Exception as error:  # Readers of malformed content raise anything.
        raise _damaged(path, str(error)) from error


def _head(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our metadata, and the entries of the arrays."""
    try:
        length = int.from_bytes(content[:8], "little")
        if length > LARGEST_HEADER or len(content) < 8 + length:
            raise ValueError("its header is cut off")
        entries = json.loads(content[8 : 8 + length])
        head = json.loads(entries.pop("__metadata__")[KEY])
        if not isinstance(head, dict):
            raise ValueError("its metadata is of another kind")
    except Exception as error:  # Readers of malformed content raise anything.
        raise _damaged(path, str(error)) from error
    return head, entries


def _damaged(path: Path, why: str) -> DamagedShardError:
    return DamagedShardError(f"{path} is damaged or not a shard of a feature store ({why}): embed again to rebuild it.")


def _blob(strings: Sequence[str]) -> NDArray[np.uint8]:
    """Strings in one array, with a null between each two. Surrogates stand for bytes of paths that are not UTF-8."""
    for string in strings:
        if "\0" in string:
            raise StoreError(f"{shown(string)} has a null character and cannot be stored.")
    return np.frombuffer("\0".join(strings).encode(errors="surrogatepass"), np.uint8)


def _strings(blob: NDArray[np.uint8], rows: int) -> list[str]:
    if rows == 0:
        return []
    strings = blob.tobytes().decode(errors="surrogatepass").split("\0")
    if len(strings) != rows:
        raise ValueError(f"{len(strings)} strings for {rows} rows")
    return strings
