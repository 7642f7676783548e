"""The index of embeddings in many files, written last: what made them, and what each file holds.

A feature store and a data set of Parquet files have the same one; only its spelling differs.
"""

import hashlib
import json
import textwrap
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._core.files import canonical_json
from ..embeddings import Origin
from ..errors import ForeignStoreError, StoreError, shown

STORE, PARQUET, VERSION = "lpplusplus features", "lpplusplus parquet", 1
"""What an index says that it is of."""
LARGEST = 2**26
"""Bytes of an index: enough for a hundred million images."""


class Receipt(NamedTuple):
    """What the index keeps of a file; of a Parquet file, the number of rows only."""

    rows: int
    bytes: int = 0
    crc32: int = 0
    digest: str = ""


@dataclass(frozen=True)
class ShardIndex:
    """Origin, classes with their display names in order (empty without labels), and a receipt for each file."""

    origin: Origin
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labelled: bool
    shards: tuple[Receipt, ...]

    def content(self, kind: str) -> bytes:
        """The file of an index of that kind."""
        whole: dict[str, Any] = {"format": kind, "version": VERSION}
        held = {"classes": list(self.classes), "names": list(self.names), "labelled": self.labelled}
        origin = self.origin.settings()
        if kind == PARQUET:
            whole |= {**held, "origin": origin, "rows": [receipt.rows for receipt in self.shards]}
        else:
            store = {**held, "settings": origin, "shards": [receipt._asdict() for receipt in self.shards]}
            whole |= {"digest": digest_of(kind, VERSION, store), "store": store}
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
    numbers = (number for receipt in shards for number in receipt[:3])
    if not all(type(n) is int and n >= 0 for n in numbers) or not all(type(one.digest) is str for one in shards):
        raise ValueError("sizes are not whole numbers")
    if type(labelled) is not bool:
        raise ValueError(f"labelled is {shown(labelled)}")
    return ShardIndex(Origin.read(held["settings"]), classes, names, labelled, shards)


def parsed(content: bytes) -> Any:
    """JSON of a size that an index may have."""
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return json.loads(content)


def digest_of(kind: Any, version: Any, store: Any) -> str:
    """The checksum of what an index says."""
    return hashlib.sha256(canonical_json([kind, version, store], compact=True).encode()).hexdigest()
