"""The index: what a complete store holds, in one small JSON file with a checksum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..persistence import atomic_write
from .errors import ForeignStoreError, StoreError
from .settings import Settings, canonical
from .shards import Receipt

NAME, FORMAT, VERSION = "index.json", "lpplusplus features", 1
BEFORE = "index.before.json"
"""The last complete list's index, while another list takes its place."""


@dataclass(frozen=True)
class Index:
    """Settings, classes with their display names in order (empty without labels), and a receipt a shard."""

    settings: Settings
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labelled: bool
    shards: tuple[Receipt, ...]

    def write(self, folder: Path) -> None:
        """Write it atomically; an equal index that is there is left alone."""
        content = self._text().encode()
        path = folder / NAME
        if not path.exists() or path.read_bytes() != content:
            with atomic_write(path) as file:
                file.write(content)

    def _text(self) -> str:
        store = {
            "settings": asdict(self.settings),
            "classes": list(self.classes),
            "names": list(self.names),
            "labelled": self.labelled,
            "shards": [receipt._asdict() for receipt in self.shards],
        }
        whole = {"format": FORMAT, "version": VERSION, "digest": _digest(FORMAT, VERSION, store), "store": store}
        return json.dumps(whole, sort_keys=True, indent=1, allow_nan=False) + "\n"


def read_index(folder: Path, name: str = NAME) -> Index:
    """Read and check an index.

    Raises
    ------
    StoreError
        It is absent, damaged, foreign, or of a newer format.
    """
    path = folder / name
    try:
        whole = json.loads(path.read_bytes())
        kind, version, store = whole["format"], whole["version"], whole["store"]
        if whole["digest"] != _digest(kind, version, store):
            raise ValueError("its content does not match its checksum")
        if (kind, version) == (FORMAT, VERSION):
            return _index(store)
    except FileNotFoundError:
        raise StoreError(_absent(folder)) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if not _has_shards(folder):
            raise ForeignStoreError(f"{path} is not the index of a feature store ({error}).") from error
        raise StoreError(f"{path} is damaged ({error}): embed again to rebuild it.") from error
    # The digest is right, and is formed so in every version: not damage.
    raise ForeignStoreError(
        f"{path} has format {kind!r}, version {version!r}; this lpplusplus reads version {VERSION}: upgrade it."
    )


def is_index(path: Path) -> bool:
    """Whether a file says of itself that it is the index of a feature store."""
    try:
        return bool(json.loads(path.read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _index(store: dict[str, Any]) -> Index:
    """From JSON, with every type checked: the checksum guards against accidents, not against strangers."""
    settings = Settings(**store["settings"])
    kinds = Settings.__annotations__
    for name, value in asdict(settings).items():
        if type(value).__name__ != kinds[name] or (kinds[name] == "int" and value < 0):
            raise ValueError(f"{name} is {value!r}")
    shards = []
    for entry in store["shards"]:
        receipt = Receipt(**entry)  # No other keys: a shard's file is known by its number alone.
        if not all(type(value) is int and value >= 0 for value in receipt[:3]) or type(receipt.digest) is not str:
            raise ValueError(f"a shard is described as {entry!r}")
        shards.append(receipt)
    classes, names = tuple(store["classes"]), tuple(store["names"])
    if len(classes) != len(names) or not all(isinstance(name, str) for name in classes + names):
        raise ValueError("classes and names do not fit together")
    if type(store["labelled"]) is not bool:
        raise ValueError(f"labelled is {store['labelled']!r}")
    return Index(settings, classes, names, store["labelled"], tuple(shards))


def _digest(kind: Any, version: Any, store: Any) -> str:
    return hashlib.sha256(canonical([kind, version, store]).encode()).hexdigest()


def _has_shards(folder: Path) -> bool:
    return any(folder.glob("shard-*.safetensors"))


def _absent(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}: expected a feature store."
    if _has_shards(folder) or (folder / BEFORE).is_file():
        return f"{folder} is incomplete: embedding was interrupted. Run it again; only what is missing is computed."
    return f"{folder} is not a feature store: it has no {NAME}."
