"""FGVC Aircraft's own lists: a file of class names, and for each split lines such as "1025794 707-320"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..splits import PARTS, DataSetError, Part, Splits
from .base import Reader, lines, safe_path

if TYPE_CHECKING:
    from ..catalog import DataSet


def read(dataset: DataSet, root: Path) -> Splits:
    """Parse and check the lists; whether the images are there is not asked here."""
    folder = root / dataset.folder
    path = folder / dataset.options["names"]
    labels = {name: label for label, (_, name) in enumerate(lines(path))}
    if len(labels) < 2 or len(labels) < len(lines(path)):
        raise DataSetError(f"{path} must have two class names or more, one a line and all different.")
    parts = {name: _part(dataset, folder, file, labels) for name, file in dataset.options["lists"].items()}
    classes = tuple(labels)
    return Splits(dataset.name, classes, dataset.renamed(classes), dataset.templates, **parts)


def _part(dataset: DataSet, folder: Path, file: str, known: dict[str, int]) -> Part:
    files, labels = [], []
    for number, line in lines(folder / file):
        image, _, name = line.partition(" ")
        where = f"{folder / file}, line {number}"
        if name not in known:
            raise DataSetError(f"{where}: {name!r} is not in {dataset.options['names']}.")
        files.append(safe_path(image, where) + dataset.options.get("suffix", ""))
        labels.append(known[name])
    if not files:
        raise DataSetError(f"{folder / file} lists no images.")
    return Part(folder / dataset.options.get("images", "."), tuple(files), np.array(labels, np.intp))


def check(dataset: DataSet) -> None:
    """Raise unless the lists are those of train, test and perhaps val."""
    if not {"train", "test"} <= dataset.options["lists"].keys() <= set(PARTS):
        raise DataSetError(f"{dataset.name}: lists must name the files of train, test and, if there is one, val.")


def _needs(dataset: DataSet) -> list[tuple[str, ...]]:
    check(dataset)
    options = dataset.options
    files = [options.get("images", "."), options["names"], *options["lists"].values()]
    return [(dataset.below(file),) for file in files]


AIRCRAFT_LISTS = Reader(
    {"images": str, "suffix": str, "names": str, "lists": dict}, ("names", "lists"), _needs, read, listed=True
)
"""Keys: `names`, the file of class names; `lists`, a file for each split; `images`, their folder; `suffix` of names."""
