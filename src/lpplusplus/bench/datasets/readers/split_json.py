"""CoOp's split files: {"train": [["banded/banded_0133.jpg", 0, "banded"], …], "val": …, "test": …}."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..splits import PARTS, DatasetError, ImageSplits, Part
from .base import Description, Reader, read_text, safe_path


def read(entry: Description, root: Path) -> ImageSplits:
    """Read and check the split file, without looking for the images."""
    folder = root / entry.folder
    path = folder / entry.options["split"]
    images = folder / entry.options.get("images", ".")
    names: dict[int, str] = {}
    parts = {part: _part(entries, images, names, f"{path}, {part}") for part, entries in _entries(path).items()}
    if sorted(names) != list(range(len(names))):
        raise DatasetError(f"{path}: labels {sorted(names)[:5]} … are not 0 to {len(names) - 1}.")
    original = tuple(names[label] for label in range(len(names)))
    if len(set(original)) < len(original):
        twice = next(name for name in original if original.count(name) > 1)
        raise DatasetError(f"{path}: two labels are both called {twice!r}.")
    return ImageSplits(entry.name, original, entry.renamed(original), entry.templates, **parts)


def _entries(path: Path) -> dict[str, list[Any]]:
    try:
        whole = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path} is not JSON ({error}): download it again.") from error
    if not isinstance(whole, dict) or not {"train", "test"} <= whole.keys() <= set(PARTS):
        found = sorted(whole) if isinstance(whole, dict) else type(whole).__name__
        raise DatasetError(f"{path} has {found}, expected the lists 'train', 'val' and 'test'.")
    for part, entries in whole.items():
        if not isinstance(entries, list) or not entries:
            raise DatasetError(f"{path}: {part!r} must be a list of [path, label, class name], and not empty.")
    return whole


def _part(entries: list[Any], images: Path, names: dict[int, str], where: str) -> Part:
    files, labels = [], []
    for number, item in enumerate(entries):
        if not isinstance(item, list) or len(item) != 3:
            raise DatasetError(f"{where}, entry {number}: expected [path, label, class name], found {item!r}.")
        file, label, name = item
        if type(label) is not int or not 0 <= label < 2**31 or not isinstance(name, str) or not name.strip():
            raise DatasetError(f"{where}, entry {number}: expected a label from 0 and a class name, found {item!r}.")
        if names.setdefault(label, name) != name:
            raise DatasetError(f"{where}, entry {number}: label {label} is {name!r} here, {names[label]!r} before.")
        files.append(safe_path(file, f"{where}, entry {number}"))
        labels.append(label)
    return Part(images, tuple(files), np.array(labels, np.intp))


def _needs(entry: Description) -> list[tuple[str, ...]]:
    images = entry.options.get("images", ".")
    return [(entry.below(images),), (entry.below(entry.options["split"]),)]


READER = Reader({"images": safe_path, "split": safe_path}, ("split",), _needs, read, listed=True)
"""Keys: `split`, the file; `images`, the folder that its paths are relative to."""
