"""ImageNet: folders named by WordNet identifiers, and the names of the classes.

`classnames.txt` has a line such as "n01440764 tench" for each class, in the order of the identifiers.
"""

import re
from pathlib import Path

import numpy as np

from ....images.sources.folders import EXTENSIONS
from ..splits import DatasetError, ImageSplits, Part
from .base import Description, Reader, lines, listing, safe_path

NAMES = "classnames.txt"
IDENTIFIER = re.compile(r"n\d{8}")


def read_names(path: Path) -> dict[str, str]:
    """Class name of each identifier. Two classes may have one name: in CLIP's list of ImageNet, two pairs do."""
    names: dict[str, str] = {}
    for number, line in lines(path):
        identifier, _, name = line.partition(" ")
        if not IDENTIFIER.fullmatch(identifier) or not name.strip() or identifier in names:
            raise DatasetError(f"{path}, line {number}: expected a new identifier and a name, such as 'n01440764 "
                               f"tench', found {line!r}.")  # fmt: skip
        names[identifier] = name.strip()
    if len(names) < 2:
        raise DatasetError(f"{path} names {len(names)} classes, expected two or more.")
    return names


def read(entry: Description, root: Path) -> ImageSplits:
    """All classes of the list, with ImageNet's validation images as the test split."""
    folder = root / entry.folder
    names = read_names(folder / NAMES)
    classes = tuple(sorted(names))
    folders = [folder / entry.options[part] for part in ("train", "test")]
    train, test = (images_of(where, {name: name for name in classes}) for where in folders)
    return splits_of(entry, classes, names, train=train, test=test)


def splits_of(entry: Description, classes: tuple[str, ...], names: dict[str, str], **parts: Part) -> ImageSplits:
    """The splits of a data set whose classes are identifiers."""
    shown = entry.renamed(tuple(names[identifier] for identifier in classes))
    return ImageSplits(entry.name, classes, shown, entry.templates, **parts)


def images_of(where: Path, folders: dict[str, str]) -> Part:
    """The images of each class, given the name of its folder."""
    present, loose = listing(where)
    if loose and not present:
        raise DatasetError(f"{where} has images (such as {loose[0]!r}) but no folders: sort them into one for each "
                           f"class, such as n01440764.")  # fmt: skip
    files: list[str] = []
    counts = []
    for identifier, name in folders.items():
        if name not in present:
            raise DatasetError(f"{where} has no folder {name} for class {identifier}.")
        images = [f"{name}/{file}" for file in listing(where / name)[1] if Path(file).suffix.lower() in EXTENSIONS]
        files += images
        counts.append(len(images))
    return Part(where, tuple(files), np.repeat(np.arange(len(counts), dtype=np.intp), counts))


def _needs(entry: Description) -> list[tuple[str, ...]]:
    return [(entry.below(place),) for place in (entry.options["train"], entry.options["test"], NAMES)]


READER = Reader({"train": safe_path, "test": safe_path}, ("train", "test"), _needs, read)
"""Keys: `train` and `test`, folders of identifiers."""
