"""FGVC Aircraft's own lists: a file of class names, and for each split lines such as "1025794 707-320"."""

from pathlib import Path

import numpy as np

from ..splits import PARTS, DatasetError, ImageSplits, Part
from .base import Description, Reader, lines, safe_path, table, text


def read(entry: Description, root: Path) -> ImageSplits:
    """Read and check the lists, without looking for the images."""
    folder = root / entry.folder
    path = folder / entry.options["names"]
    labels = {name: label for label, (_, name) in enumerate(lines(path))}
    if len(labels) < 2 or len(labels) < len(lines(path)):
        raise DatasetError(f"{path} must have two class names or more, one per line and all different.")
    parts = {name: _part(entry, folder, file, labels) for name, file in entry.options["lists"].items()}
    classes = tuple(labels)
    return ImageSplits(entry.name, classes, entry.renamed(classes), entry.templates, **parts)


def _part(entry: Description, folder: Path, file: str, known: dict[str, int]) -> Part:
    files, labels = [], []
    for number, line in lines(folder / file):
        image, _, name = line.partition(" ")
        where = f"{folder / file}, line {number}"
        if name not in known:
            raise DatasetError(f"{where}: {name!r} is not in {entry.options['names']}.")
        files.append(safe_path(image, where) + entry.options.get("suffix", ""))
        labels.append(known[name])
    if not files:
        raise DatasetError(f"{folder / file} lists no images.")
    return Part(folder / entry.options.get("images", "."), tuple(files), np.array(labels, np.intp))


def _needs(entry: Description) -> list[tuple[str, ...]]:
    options = entry.options
    if not {"train", "test"} <= options["lists"].keys() <= set(PARTS):
        raise DatasetError(f"{entry.name}: lists must name the files of train, test and, if there is one, val.")
    files = [options.get("images", "."), options["names"], *options["lists"].values()]
    return [(entry.below(file),) for file in files]


READER = Reader(
    {"images": safe_path, "suffix": text, "names": safe_path, "lists": table(safe_path)},
    ("names", "lists"),
    _needs,
    read,
    listed=True,
)
"""Keys: `names`, the file of class names; `lists`, a file for each split; `images`, their folder; `suffix` of names."""
