"""Leaks: images that are used both for training and for testing. A data set that has one is refused."""

import os
from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .splits import DatasetError, ImageSplits, Part


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


def _refuse_common(
    keys: Mapping[str, Sequence[Hashable]], shown: Mapping[str, Sequence[str]], name: str, shared: str | None
) -> None:
    positions = {part: {key: position for position, key in enumerate(known)} for part, known in keys.items()}
    if shared is not None and len(positions.get(shared, ())) < len(keys.get(shared, ())):
        first: dict[Hashable, int] = {}
        for position, key in enumerate(keys[shared]):
            if first.setdefault(key, position) != position:
                raise OverlapError(
                    f"{name}: {shared} has the same image twice, {shown[shared][first[key]]} and "
                    f"{shown[shared][position]}, and support and test could get one each: remove one."
                )
    for one, other in combinations(positions, 2):
        common = positions[one].keys() & positions[other].keys()
        if common:
            at = min(positions[one][key] for key in common)
            key = keys[one][at]
            raise OverlapError(
                f"{name}: {one} and {other} have {len(common)} image{'s' * (len(common) > 1)} in common, such as "
                f"{shown[one][at]} of {one} = {shown[other][positions[other][key]]} of {other}: remove one of the two."
            )
