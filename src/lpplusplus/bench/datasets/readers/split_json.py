"""CoOp's split files: {"train": [["banded/banded_0133.jpg", 0, "banded"], …], "val": …, "test": …}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..splits import PARTS, DataSetError, Part, Splits
from .base import Reader, read_text, safe_path

if TYPE_CHECKING:
    from ..catalog import DataSet


def read(dataset: DataSet, root: Path) -> Splits:
    """Parse and check the split file; whether the images are there is not asked here."""
    folder = root / dataset.folder
    path = folder / dataset.options["split"]
    images = folder / dataset.options.get("images", ".")
    names: dict[int, str] = {}
    parts = {part: _part(entries, images, names, f"{path}, {part}") for part, entries in _entries(path).items()}
    if sorted(names) != list(range(len(names))):
        raise DataSetError(f"{path}: labels {sorted(names)[:5]} … are not 0 to {len(names) - 1}.")
    original = tuple(names[label] for label in range(len(names)))
    if len(set(original)) < len(original):
        twice = next(name for name in original if original.count(name) > 1)
        raise DataSetError(f"{path}: two labels are both called {twice!r}.")
    return Splits(dataset.name, original, dataset.renamed(original), dataset.templates, **parts)


def _entries(path: Path) -> dict[str, list[Any]]:
    try:
        whole = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataSetError):
            raise
        raise DataSetError(f"{path} is not JSON ({error}): download it again.") from error
    if not isinstance(whole, dict) or not {"train", "test"} <= whole.keys() <= set(PARTS):
        found = sorted(whole) if isinstance(whole, dict) else type(whole).__name__
        raise DataSetError(f"{path} has {found}, expected the lists 'train', 'val' and 'test'.")
    for part, entries in whole.items():
        if not isinstance(entries, list) or not entries:
            raise DataSetError(f"{path}: {part!r} must be a list of [path, label, class name], and not empty.")
    return whole


def _part(entries: list[Any], images: Path, names: dict[int, str], where: str) -> Part:
    files, labels = [], []
    for number, entry in enumerate(entries):
        if not isinstance(entry, list) or len(entry) != 3:
            raise DataSetError(f"{where}, entry {number}: expected [path, label, class name], found {entry!r}.")
        file, label, name = entry
        if type(label) is not int or label < 0 or not isinstance(name, str) or not name.strip():
            raise DataSetError(f"{where}, entry {number}: expected a label from 0 and a class name, found {entry!r}.")
        if names.setdefault(label, name) != name:
            raise DataSetError(f"{where}, entry {number}: label {label} is {name!r} here, {names[label]!r} before.")
        files.append(safe_path(file, f"{where}, entry {number}"))
        labels.append(label)
    return Part(images, tuple(files), np.array(labels, np.intp))


def _needs(dataset: DataSet) -> list[tuple[str, ...]]:
    images = dataset.options.get("images", ".")
    return [(dataset.below(images),), (dataset.below(dataset.options["split"]),)]


SPLIT_JSON = Reader({"images": str, "split": str}, ("split",), _needs, read, listed=True)
"""Keys: `split`, the file; `images`, the folder its paths are relative to."""
