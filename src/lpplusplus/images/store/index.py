"""The index: what a complete store holds, in one small JSON file with a checksum."""

import hashlib
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._core.files import atomic_write, canonical_json
from ..embeddings import Origin
from ..errors import ForeignStoreError, StoreError, shown
from .shards import Receipt

NAME, FORMAT, VERSION = "index.json", "lpplusplus features", 1
BEFORE = "index.before.json"
"""The index of the last complete list, while the store is being changed."""
LARGEST = 2**26
"""Bytes of an index: enough for a hundred million images."""


@dataclass(frozen=True)
class StoreIndex:
    """Origin, classes with their display names in order (empty without labels), and a receipt per shard."""

    origin: Origin
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labelled: bool
    shards: tuple[Receipt, ...]

    def write(self, folder: Path) -> None:
        """Write it atomically; an equal index that is there is left alone."""
        store = {
            "settings": self.origin.settings(),
            "classes": list(self.classes),
            "names": list(self.names),
            "labelled": self.labelled,
            "shards": [receipt._asdict() for receipt in self.shards],
        }
        whole = {"format": FORMAT, "version": VERSION, "digest": _digest(FORMAT, VERSION, store), "store": store}
        content = json.dumps(whole, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"
        path = folder / NAME
        if not path.exists() or path.read_bytes() != content:
            with atomic_write(path) as file:
                file.write(content)


def read_index(folder: Path, name: str = NAME) -> StoreIndex:
    """Read and check an index.

    Raises
    ------
    StoreError
        It is absent, damaged, foreign, or of a newer format.
    """
    path = folder / name
    try:
        whole = _json(path)
        kind, version, store = whole["format"], whole["version"], whole["store"]
        if whole["digest"] != _digest(kind, version, store):
            raise ValueError("its content does not match its checksum")
        if (kind, version) == (FORMAT, VERSION):
            return _index(store)
    except FileNotFoundError:
        raise StoreError(_absent(folder)) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = textwrap.shorten(str(error), 200, placeholder=" …")
        if not _has_shards(folder):
            raise ForeignStoreError(f"{path} is not the index of a feature store ({what}).") from error
        raise StoreError(f"{path} is damaged ({what}): embed again to rebuild it.") from error
    # Every version forms the digest this way, and it is right: not damage.
    raise ForeignStoreError(
        f"{path} has format {shown(kind)}, version {shown(version)}; this lpplusplus reads version {VERSION}: "
        f"upgrade it."
    )


def is_index(path: Path) -> bool:
    """Whether a file says of itself that it is the index of a feature store."""
    try:
        return bool(_json(path)["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _json(path: Path) -> Any:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return json.loads(path.read_bytes())


def _index(store: dict[str, Any]) -> StoreIndex:
    """From JSON, with every type checked: the checksum guards against accidents, not against strangers."""
    origin = Origin.read(store["settings"])
    shards = []
    for entry in store["shards"]:
        receipt = Receipt(**entry)  # Refuses other keys: nothing but a shard's number decides its file name.
        if not all(type(value) is int and value >= 0 for value in receipt[:3]) or type(receipt.digest) is not str:
            raise ValueError(f"a shard is described as {shown(entry)}")
        shards.append(receipt)
    classes, names = tuple(store["classes"]), tuple(store["names"])
    if len(classes) != len(names) or not all(isinstance(name, str) for name in classes + names):
        raise ValueError("classes and names do not fit together")
    if type(store["labelled"]) is not bool:
        raise ValueError(f"labelled is {shown(store['labelled'])}")
    return StoreIndex(origin, classes, names, store["labelled"], tuple(shards))


def _digest(kind: Any, version: Any, store: Any) -> str:
    return hashlib.sha256(canonical_json([kind, version, store], compact=True).encode()).hexdigest()


def _has_shards(folder: Path) -> bool:
    return any(folder.glob("shard-*.safetensors"))


def _absent(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}: expected a feature store."
    if _has_shards(folder) or (folder / BEFORE).is_file():
        return f"{folder} is incomplete: embedding was interrupted. Run it again; only what is missing is computed."
    return f"{folder} is not a feature store: it has no {NAME}."
