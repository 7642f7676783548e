"""One shard: a safetensors file that can be checked on its own."""

import hashlib
import json
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ..._core.files import atomic_write, canonical_json
from ..errors import DamagedShardError, ForeignStoreError, StoreError, shown

KEY, VERSION = "lpplusplus.features", 1
HASH_BYTES = 32
LARGEST_HEADER = 2**16
"""Most bytes of a header: ours have a few hundred, since paths and labels are among the arrays."""
_UNSEALED = "0" * 64
"""Stands for the digest while it is computed, so that the digest covers every byte of the file but itself.

Every version of the format must do so: then a file of another version is newer if its digest is right, else damaged.
"""

_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4"), "U8": np.dtype("u1")}


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


class Receipt(NamedTuple):
    """What the index keeps of a shard."""

    rows: int
    bytes: int
    crc32: int
    digest: str


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
    try:
        content = path.read_bytes()
    except OSError as error:
        kind = StoreError if isinstance(error, PermissionError) else DamagedShardError
        raise kind(f"{path} cannot be read ({error.strerror or error}).") from error
    seal = str(_head(content, len(content), path)[0].get("digest"))
    unsealed = content.replace(seal.encode(errors="replace"), _UNSEALED.encode(), 1)
    if hashlib.sha256(unsealed).hexdigest() != seal:
        raise DamagedShardError(f"{path} is damaged: its content does not match its checksum.")
    head, tensors = parse(content, len(content), path)
    shard = assemble(head, {name: tensor.of(content) for name, tensor in tensors.items()}, path)
    return shard, Receipt(len(shard.embeddings), len(content), zlib.crc32(content), seal)


def assemble(head: dict[str, Any], arrays: dict[str, NDArray[Any]], path: Path) -> Shard:
    """A shard from its parts, if they fit together."""
    try:
        rows = len(arrays["embeddings"])
        labels = _strings(arrays["labels"], rows) if "labels" in arrays else None
        shard = Shard(
            head["key"], head["listed"], arrays["embeddings"], arrays["hashes"], arrays["positions"],
            _strings(arrays["paths"], rows), labels,
        )  # fmt: skip
        fits = shard.embeddings.ndim == 3 and shard.embeddings.dtype == np.float32
        fits = fits and shard.hashes.shape == (rows, HASH_BYTES) and shard.positions.shape == (rows,)
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedShardError(f"{path} is not a shard of a feature store ({error!r}).") from error
    if not fits:
        raise DamagedShardError(f"{path} has arrays that do not fit together.")
    return shard


class Tensor(NamedTuple):
    """Where an array lies in a file, as its header says and its size allows."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        """Its length in the file."""
        return math.prod(self.shape) * self.dtype.itemsize

    def of(self, content: Any) -> NDArray[Any]:
        """The array, as a view into the file's content."""
        return np.frombuffer(content, self.dtype, math.prod(self.shape), self.start).reshape(self.shape)


def parse(content: Any, size: int, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Our metadata and the position of every array, from the beginning of a file of `size` bytes.

    Memory maps need offsets, which the safetensors library does not tell. The format is eight bytes with the length of
    a JSON header, the header, the data. Everything in the header is checked against the size of the file before use.
    """
    head, entries, base = _head(content, size, path)
    if head.get("version") != VERSION:
        raise ForeignStoreError(
            f"{path} has format version {shown(head.get('version'))}, this lpplusplus reads {VERSION}: upgrade it."
        )
    try:
        return head, {name: _tensor(entry, base, size) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedShardError(f"{path} is damaged: {error}.") from error


def is_shard(path: Path) -> bool:
    """Whether a file has the header of a shard, damaged or not."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            _head(read_header(file), size, path)
    except (OSError, DamagedShardError):
        return False
    return True


def read_header(file: IO[bytes]) -> bytes:
    """The beginning of a file, with its whole header unless that is larger than `LARGEST_HEADER`."""
    length = file.read(8)
    return length + file.read(min(int.from_bytes(length, "little"), LARGEST_HEADER))


def _head(content: Any, size: int, path: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Our metadata, the entries of the arrays, and where the data begin."""
    try:
        length = int.from_bytes(content[:8], "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER) or len(content) < 8 + length:
            raise ValueError("its header is cut off")
        entries = json.loads(bytes(content[8 : 8 + length]))
        head = json.loads(entries.pop("__metadata__")[KEY])
        if not isinstance(head, dict):
            raise ValueError("its metadata is of another kind")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedShardError(f"{path} is damaged or not a shard of a feature store ({error}).") from error
    return head, entries, 8 + length


def _tensor(entry: dict[str, Any], base: int, size: int) -> Tensor:
    dtype, shape, (start, stop) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not all(type(value) is int and value >= 0 for value in (*shape, start, stop)):
        raise ValueError("sizes in its header are not whole numbers")
    too_many = len(shape) > 8 or math.prod(filter(None, shape)) > 2**48  # Numpy refuses it even with a size of 0.
    if too_many or stop - start != math.prod(shape) * dtype.itemsize or base + stop > size:
        raise ValueError("its header does not fit its size")
    return Tensor(dtype, tuple(shape), base + start)


def map_embeddings(path: Path) -> NDArray[np.float32]:
    """Embeddings of a shard as a read-only memory map; the header is checked, the numbers are not."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        beginning = read_header(file)
    tensor = parse(beginning, size, path)[1].get("embeddings")
    if tensor is None or tensor.dtype != np.float32 or len(tensor.shape) != 3:
        raise DamagedShardError(f"{path} has no embeddings.")
    if 0 in tensor.shape:
        return np.empty(tensor.shape, np.float32)
    return np.memmap(path, np.float32, "r", tensor.start, tensor.shape)


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
