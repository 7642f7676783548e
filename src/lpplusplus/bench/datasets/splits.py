"""A data set divided into training, validation and test images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
