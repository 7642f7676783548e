"""ImageNet and the sets that test a classifier of ImageNet: folders named by WordNet identifiers, and their names.

`classnames.txt` has a line such as "n01440764 tench" for each class, in the order of the identifiers.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....sources import EXTENSIONS
from ..splits import DataSetError, Part, Splits
from .base import Reader, lines, listing

if TYPE_CHECKING:
    from ..catalog import DataSet

NAMES = "classnames.txt"
IDENTIFIER = re.compile(r"n\d{8}")


def read_names(path: Path) -> dict[str, str]:
    """Class name of each identifier. Two classes may have one name: in CLIP's list of ImageNet, two pairs do."""
    names: dict[str, str] = {}
    for number, line in lines(path):
        identifier, _, name = line.partition(" ")
        if not IDENTIFIER.fullmatch(identifier) or not name.strip() or identifier in names:
            raise DataSetError(f"{path}, line {number}: expected a new identifier and a name, such as 'n01440764 "
                               f"tench', found {line!r}.")  # fmt: skip
        names[identifier] = name.strip()
    if len(names) < 2:
        raise DataSetError(f"{path} names {len(names)} classes, expected two or more.")
    return names


def read_imagenet(dataset: DataSet, root: Path) -> Splits:
    """ImageNet: all classes of the list, train from `train`, and its validation images as the test split."""
    folder = root / dataset.folder
    names = read_names(folder / NAMES)
    classes = tuple(sorted(names))
    folders = [folder / dataset.options[part] for part in ("train", "test")]
    train, test = (_part(where, dict.fromkeys(classes)) for where in folders)
    return _splits(dataset, classes, names, train=train, test=test)


def read_shift(dataset: DataSet, root: Path) -> Splits:
    """A test split whose classes are those that have a folder, all of ImageNet's or some."""
    names = read_names(next(file for place in _name_files(dataset) if (file := root / place).is_file()))
    where = root / dataset.folder / dataset.options["images"]
    found, _ = listing(where)
    if dataset.options.get("numbered", False):
        every = sorted(names)
        numbers = [str(number) for number in range(len(every))]
        if sorted(found) != sorted(numbers):
            raise DataSetError(f"{where} has {len(found)} folders, expected 0 to {len(every) - 1}, one for each class "
                               f"of {NAMES}.")  # fmt: skip
        folders = dict(zip(every, numbers, strict=True))
    else:
        folders = {name: name for name in found if IDENTIFIER.fullmatch(name)}
    unknown = sorted(folders.keys() - names.keys())
    if unknown or len(folders) < 2:
        what = f"folder {unknown[0]}, which {NAMES} lacks" if unknown else "no folders of classes such as n01440764"
        raise DataSetError(f"{where} has {what}.")
    return _splits(dataset, tuple(folders), names, test=_part(where, dict(folders)))


def _splits(dataset: DataSet, classes: tuple[str, ...], names: dict[str, str], **parts: Part) -> Splits:
    shown = dataset.renamed(tuple(names[identifier] for identifier in classes))
    return Splits(dataset.name, classes, shown, dataset.templates, **parts)


def _part(where: Path, folders: dict[str, str] | dict[str, None]) -> Part:
    """Images of each class's folder; None for a folder called as the class."""
    present, loose = listing(where)
    if loose and not present:
        raise DataSetError(f"{where} has images (such as {loose[0]!r}) but no folders: sort them into one for each "
                           f"class, such as n01440764.")  # fmt: skip
    files: list[str] = []
    counts = []
    for identifier, folder in folders.items():
        name = folder or identifier
        if name not in present:
            raise DataSetError(f"{where} has no folder {name} for class {identifier}.")
        images = [f"{name}/{file}" for file in listing(where / name)[1] if _is_image(file)]
        files += images
        counts.append(len(images))
    return Part(where, tuple(files), np.repeat(np.arange(len(counts), dtype=np.intp), counts))


def _is_image(file: str) -> bool:
    return os.path.splitext(file)[1].lower() in EXTENSIONS


def _name_files(dataset: DataSet) -> tuple[str, ...]:
    """CoOp has a copy in each set's folder; the one of ImageNet does as well."""
    return (dataset.below(NAMES), *([f"{dataset.parent}/{NAMES}"] if dataset.parent else []))


def _needs_imagenet(dataset: DataSet) -> list[tuple[str, ...]]:
    return [(dataset.below(place),) for place in (dataset.options["train"], dataset.options["test"], NAMES)]


def _needs_shift(dataset: DataSet) -> list[tuple[str, ...]]:
    return [(dataset.below(dataset.options["images"]),), _name_files(dataset)]


IMAGENET = Reader({"train": str, "test": str}, ("train", "test"), _needs_imagenet, read_imagenet)
"""Keys: `train` and `test`, folders of identifiers."""

IMAGENET_SHIFT = Reader({"images": str, "numbered": bool}, ("images",), _needs_shift, read_shift)
"""Keys: `images`, the folder of identifiers; `numbered`, if folders are called 0, 1, … instead."""
