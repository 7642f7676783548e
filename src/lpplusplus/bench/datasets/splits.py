"""A data set's images, divided into what may be learned from and what is only for the test."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...sources import ImageSet, SourceError

if TYPE_CHECKING:
    from .features import FeatureSet

PartName: TypeAlias = Literal["train", "val", "test"]
PARTS: tuple[PartName, ...] = ("train", "val", "test")


class DataSetError(SourceError):
    """A data set is not as it should be; the message says where and what to do."""


class OverlapError(DataSetError):
    """The same image is in two splits: what is learned from would be tested on."""


@dataclass(frozen=True, eq=False)
class Part:
    """Images of one split, in a fixed order.

    Attributes
    ----------
    root
        Folder that the files are below.
    files
        Path of each below `root`, with "/".
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


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set of images.

    Attributes
    ----------
    name
        What the catalog calls the data set.
    classes
        What its files call each class, all different (ImageNet: "n01440764").
    classnames
        What a prompt calls each, in the same order. ImageNet's list has two names twice.
    templates
        Prompts, with {} for the class name.
    train, val, test
        Images, or None where the data set has no such split. Without `test`, `train` is one pool from which support,
        validation and test are drawn; without `val`, validation images are drawn from `train`.
    """

    name: str
    classes: tuple[str, ...]
    classnames: tuple[str, ...]
    templates: tuple[str, ...]
    train: Part | None = None
    val: Part | None = None
    test: Part | None = None

    def __post_init__(self) -> None:
        if len(self.classes) != len(self.classnames) or len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must be different, with a class name each")

    @property
    def pool(self) -> bool:
        """Whether there is one pool of images instead of a test split."""
        return self.test is None

    def part(self, name: PartName) -> Part:
        """A split by its name; raise if there is none."""
        part: Part | None = getattr(self, name)
        if part is None:
            raise DataSetError(f"{self.name} has no split {name!r}.")
        return part

    def images(self, name: PartName, rows: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> ImageSet:
        """A split, or some of its rows, as `lpplusplus.embedding.embed` takes it."""
        part = self.part(name)
        positions = range(len(part)) if rows is None else np.asarray(rows, np.intp)
        labels = np.array(self.classes, np.str_)[part.labels[np.asarray(positions, np.intp)]]
        items = [part.root / part.files[position] for position in positions]
        return ImageSet([*items], labels, self.classes, self.classnames, f"{self.name}, {name}")

    def columns_of(self, parent: Splits) -> NDArray[np.intp]:
        """Where `parent` has each of these classes: a classifier of ImageNet answers ImageNet-A with 200 of its 1000.

        Raises
        ------
        DataSetError
            If `parent` lacks one.
        """
        places = {label: position for position, label in enumerate(parent.classes)}
        unknown = [label for label in self.classes if label not in places]
        if unknown:
            raise DataSetError(f"{self.name} has class {unknown[0]!r}, which {parent.name} does not have.")
        return np.array([places[label] for label in self.classes], np.intp)


def check_disjoint(data: Splits | FeatureSet, rows: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Refuse a data set in which an image of one split is in another, too.

    Images are the same if their paths are, links between folders resolved, and, where `rows` are given, if their
    embeddings are equal to the last bit: a copy under another name. A split from which more than one thing is drawn (a
    pool, or `train` where there is no `val`) must not list an image twice either.

    Parameters
    ----------
    data
        What a reader found.
    rows
        Embeddings by split, (n, …) each; those of a `FeatureSet` are known without.

    Raises
    ------
    OverlapError
        Naming both splits and the image.
    """
    parts = {name: getattr(data, name) for name in PARTS if getattr(data, name) is not None}
    shared = shared_part(data)
    if isinstance(data, Splits):
        names: dict[str, list[str]] = {name: _identities(part) for name, part in parts.items()}
        _refuse_common(names, {name: part.files for name, part in parts.items()}, data.name, shared)
    else:
        rows = {name: part.X for name, part in parts.items()} if rows is None else rows
    if rows is not None:
        check_rows(rows, data.name, shared=shared)


def check_rows(
    rows: Mapping[str, NDArray[Any]],
    name: str = "these features",
    *,
    shared: str | None = None,
    shown: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Refuse embeddings, or hashes, of which two sets (support, validation, test, …) have one in common.

    Parameters
    ----------
    rows
        (n, …) arrays by the name of their set.
    name
        Of the data, for messages.
    shared
        A set that must not hold a row twice either.
    shown
        What messages call each row, such as its file; its number unless told.
    """
    # Digests, since rows may be large: those of PLOT have all places of an image.
    keys = {part: [sha256(row).digest() for row in np.ascontiguousarray(array)] for part, array in rows.items()}
    if shown is None:
        shown = {part: [f"row {position}" for position in range(len(array))] for part, array in rows.items()}
    _refuse_common(keys, shown, name, shared)


def shared_part(data: Splits | FeatureSet) -> PartName | None:
    """The split from which more than one thing is drawn: a pool, or `train` where there is no `val`."""
    return "train" if data.val is None or data.test is None else None


def _identities(part: Part) -> list[str]:
    """Paths that are equal for one file, also where two folders are one through a link."""
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
    places = {part: {key: position for position, key in enumerate(known)} for part, known in keys.items()}
    if shared is not None and len(places.get(shared, ())) < len(keys.get(shared, ())):
        first: dict[Hashable, int] = {}
        for position, key in enumerate(keys[shared]):
            if first.setdefault(key, position) != position:
                raise OverlapError(
                    f"{name}: {shared} has the same image twice, {shown[shared][first[key]]} and "
                    f"{shown[shared][position]}, and support and test could get one each: remove one."
                )
    for one, other in combinations(places, 2):
        common = places[one].keys() & places[other].keys()
        if common:
            at = min(places[one][key] for key in common)
            key = keys[one][at]
            raise OverlapError(
                f"{name}: {one} and {other} have {len(common)} image{'s' * (len(common) > 1)} in common, such as "
                f"{shown[one][at]} of {one} = {shown[other][places[other][key]]} of {other}: remove one of the two."
            )
