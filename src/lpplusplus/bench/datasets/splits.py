"""A data set divided into training, validation and test images; and leaks, images in two splits, which are refused."""

import os
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...images.sources import ImageSet, SourceError

PARTS = ("train", "val", "test")


class DatasetError(SourceError):
    """Something of a data set is missing or wrong; the message says where, and what to do."""


@dataclass(frozen=True, eq=False)
class Part:
    """Files of one split, in a fixed order.

    Attributes
    ----------
    root
        Folder that the files are in.
    files
        Path of each file below `root`, with "/".
    labels
        (n,) position of each image's class in `Splits.classes`.
    """

    root: Path
    files: tuple[str, ...]
    labels: NDArray[np.intp]

    def __post_init__(self) -> None:
        if self.labels.shape != (len(self.files),):
            raise ValueError(f"{len(self.files)} files and labels of shape {self.labels.shape} do not fit together")
        self.labels.flags.writeable = False

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[tuple[Path, int]]:
        """Each image's path and label."""
        return ((self.root / file, int(label)) for file, label in zip(self.files, self.labels, strict=True))


P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class Splits(Generic[P]):
    """A data set in splits: files of images, or embeddings.

    Attributes
    ----------
    name
        What the catalog calls the data set.
    classes
        Labels of the classes, all different (ImageNet: "n01440764").
    classnames
        Names of the classes for prompts, in the same order. They may repeat: ImageNet's list has two names twice.
    templates
        Prompts, with {} for the class name; empty for embeddings, whose text is embedded already.
    train, val, test
        Each has `labels`, positions in `classes`; None if the data set has no such split. Without `test`, `train` is
        one pool from which support, validation and test are drawn. Without `val`, validation images are drawn from
        `train`.
    """

    name: str
    classes: tuple[str, ...]
    classnames: tuple[str, ...]
    templates: tuple[str, ...]
    train: P | None = None
    val: P | None = None
    test: P | None = None

    def __post_init__(self) -> None:
        if len(self.classes) != len(self.classnames) or len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must be different, with a class name each")

    @property
    def pool(self) -> bool:
        """Whether all images are one pool, `train`, instead of splits."""
        return self.test is None

    @property
    def shared(self) -> str | None:
        """The split from which more than one thing is drawn: a pool, or `train` where there is no `val`."""
        return "train" if self.val is None or self.test is None else None

    @property
    def parts(self) -> dict[str, P]:
        """The existing splits, by name."""
        return {name: part for name in PARTS if (part := getattr(self, name)) is not None}

    def part(self, name: str) -> P:
        """A split by its name; raise if there is none."""
        if name not in self.parts:
            raise DatasetError(f"{self.name} has no split {name!r}.")
        return self.parts[name]


class ImageSplits(Splits[Part]):
    """A data set of images."""

    def images(self, name: str, rows: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> ImageSet:
        """A split, or some of its rows, as `lpplusplus.images.embedder.embed` takes it."""
        part = self.part(name)
        positions = range(len(part)) if rows is None else np.asarray(rows, np.intp)
        labels = np.array(self.classes, np.str_)[part.labels[np.asarray(positions, np.intp)]]
        items = [part.root / part.files[position] for position in positions]
        return ImageSet([*items], labels, self.classes, self.classnames, f"{self.name}, {name}")

    def columns_of(self, parent: Splits[Any]) -> NDArray[np.intp]:
        """Positions of these classes in `parent`: ImageNet-A has 200 of ImageNet's 1000.

        Raises
        ------
        DatasetError
            If `parent` lacks one.
        """
        positions = {label: position for position, label in enumerate(parent.classes)}
        unknown = [label for label in self.classes if label not in positions]
        if unknown:
            raise DatasetError(f"{self.name} has class {unknown[0]!r}, which {parent.name} does not have.")
        return np.array([positions[label] for label in self.classes], np.intp)


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
    _refuse_common(keys, shown or {}, name, shared)


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

    def called(part: str, row: int) -> str:
        return shown[part][row] if shown.get(part) else f"row {row}"

    first: dict[Hashable, tuple[str, int]] = {}
    pairs: dict[tuple[str, str], list[str]] = {}
    for part, known in keys.items():
        for position, key in enumerate(known):
            before, at = first.setdefault(key, (part, position))
            if before != part:
                told = f"{called(before, at)} of {before} = {called(part, position)} of {part}"
                pairs.setdefault((before, part), []).append(told)
            elif at != position and part == shared:
                pairs.setdefault((part, part), []).append(f"{called(part, at)} and {called(part, position)}")
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
