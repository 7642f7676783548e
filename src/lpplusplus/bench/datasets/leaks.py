"""Leaks: images that are used both for training and for testing. A data set that has one is refused."""

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .splits import DatasetError, ImageSplits, Part

MOST_TOLD = 10
"""Pairs that a message names."""


class OverlapError(DatasetError):
    """An image is in two splits, or twice in a split from which more than one thing is drawn."""


def check_files(data: ImageSplits) -> None:
    """Raise `OverlapError` for a file in two splits; two paths to one file through linked folders count as the same.

    A split from which more than one thing is drawn must not list a file twice either.
    """
    files = {name: _real_paths(part) for name, part in data.parts.items()}
    _refuse_common(files, {name: part.files for name, part in data.parts.items()}, data.name, data.shared)


def check_rows(
    rows: Mapping[str, NDArray[Any]],
    name: str = "these features",
    *,
    shared: str | None = None,
    shown: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Raise `OverlapError` for an embedding, or hash, that is in two splits: one image under two names.

    Parameters
    ----------
    rows
        (n, …) array of each split.
    name
        Name of the data, for messages.
    shared
        A split that must not have a row twice either.
    shown
        What messages call each row, such as its file; by default its number.
    """
    # Digests, since rows may be large: rows for PLOT have all places of an image.
    keys = {part: [sha256(row).digest() for row in np.ascontiguousarray(array)] for part, array in rows.items()}
    if shown is None:
        shown = {part: [f"row {position}" for position in range(len(array))] for part, array in rows.items()}
    _refuse_common(keys, shown, name, shared)


def _real_paths(part: Part) -> list[str]:
    """The path of each file, with links between folders resolved."""
    folders: dict[str, str] = {}
    found = []
    for file in part.files:
        folder, _, name = file.rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(part.root / folder)
        found.append(os.path.normcase(f"{folders[folder]}/{name}"))
    return found


def check_contents(data: ImageSplits, used: Mapping[str, NDArray[np.intp]], shift: ImageSplits | None = None) -> None:
    """Raise `OverlapError` if two of the used images have the same bytes; before anything is embedded.

    Only files of equal size are read. With a shift, its test images take the place of `data`'s.
    """
    files = {name: [data.part(name).root / data.part(name).files[row] for row in rows] for name, rows in used.items()}
    if shift is not None:
        files["test"] = [path for path, _ in shift.part("test")]
    sizes = {name: [path.stat().st_size for path in paths] for name, paths in files.items()}
    many = Counter(size for part in sizes.values() for size in part)
    keys = {
        name: [
            sha256(path.read_bytes()).digest() if many[size] > 1 else path
            for path, size in zip(paths, sizes[name], strict=True)
        ]
        for name, paths in files.items()
    }
    _refuse_common(keys, {name: [*map(str, paths)] for name, paths in files.items()}, data.name, data.shared)


def _refuse_common(
    keys: Mapping[str, Sequence[Hashable]], shown: Mapping[str, Sequence[str]], name: str, shared: str | None
) -> None:
    """In one pass over all rows: each is compared with the first that has its key."""
    first: dict[Hashable, tuple[str, int]] = {}
    pairs: dict[tuple[str, str], list[str]] = {}
    for part, known in keys.items():
        for position, key in enumerate(known):
            before, at = first.setdefault(key, (part, position))
            if before != part:
                told = f"{shown[before][at]} of {before} = {shown[part][position]} of {part}"
                pairs.setdefault((before, part), []).append(told)
            elif at != position and part == shared:
                pairs.setdefault((part, part), []).append(f"{shown[part][at]} and {shown[part][position]}")
    said = []
    for (one, other), found in pairs.items():
        listed = "; ".join(found[:MOST_TOLD]) + (f"; and {len(found) - MOST_TOLD} more" * (len(found) > MOST_TOLD))
        if one == other:
            said.append(
                f"{one} has the same image twice, {listed}, and support and test could get one each: remove one"
            )
        else:
            number = f"{len(found)} image{'s' * (len(found) > 1)}"
            said.append(f"{one} and {other} have {number} in common, such as {listed}: remove one of the two")
    if said:
        raise OverlapError(f"{name}: {'. '.join(said)}.")
