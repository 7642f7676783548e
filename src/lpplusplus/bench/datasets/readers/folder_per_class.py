"""A folder for each class: `<class>/*.jpg`, once, or below a folder for each split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....sources import ImageSet, from_folder
from ..splits import PARTS, DataSetError, Part, Splits
from .base import Reader

if TYPE_CHECKING:
    from ..catalog import DataSet


def read(dataset: DataSet, root: Path) -> Splits:
    """All images below the class folders, which must be the same in every split; one pool if there are no splits."""
    folders = {name: root / dataset.below(place) for name, place in _folders(dataset).items()}
    found = {name: from_folder(folder, allow_empty=name == "val") for name, folder in folders.items()}
    classes = found["train"].classes
    for name, images in found.items():
        if images.problems:
            raise DataSetError(str(images.problems[0]))
        if images.classes != classes:
            odd = sorted(set(classes) ^ set(images.classes))
            raise DataSetError(f"{folders[name]} and {folders['train']} have different classes (such as {odd[0]!r}): "
                               f"each split needs a folder for every class.")  # fmt: skip
    parts = {name: _part(folders[name], images) for name, images in found.items()}
    return Splits(dataset.name, classes, dataset.renamed(classes), dataset.templates, **parts)


def _part(folder: Path, images: ImageSet) -> Part:
    places = {label: position for position, label in enumerate(images.classes)}
    files = tuple(item.relative_to(folder).as_posix() for item in images.items if isinstance(item, Path))
    labels = [] if images.labels is None else [places[label] for label in images.labels.tolist()]
    return Part(folder, files, np.array(labels, np.intp))


def _folders(dataset: DataSet) -> dict[str, str]:
    options = dataset.options
    given: dict[str, str] = {name: options[name] for name in PARTS if name in options}
    if not given:
        return {"train": options.get("images", ".")}
    if "images" in options or "train" not in given or "test" not in given:
        raise DataSetError(f"{dataset.name}: give images, the folder of one pool, or train, test and perhaps val.")
    return given


def _needs(dataset: DataSet) -> list[tuple[str, ...]]:
    return [(dataset.below(place),) for place in _folders(dataset).values()]


FOLDER_PER_CLASS = Reader({"images": str, **dict.fromkeys(PARTS, str)}, (), _needs, read)
"""Keys: `images`, the folder of one pool; or `train`, `test` and perhaps `val`."""
