"""A folder for each class: `<class>/*.jpg`, once, or below a folder for each split."""

from pathlib import Path

import numpy as np

from ....images.sources import ImageSet, from_folder
from ..splits import PARTS, DatasetError, ImageSplits, Part
from .base import Description, Reader, safe_path


def read(entry: Description, root: Path) -> ImageSplits:
    """All images below the class folders, which must be the same in every split; one pool if there are no splits."""
    folders = {name: root / entry.below(place) for name, place in _folders(entry).items()}
    found = {name: from_folder(folder, allow_empty=name == "val") for name, folder in folders.items()}
    classes = found["train"].classes
    for name, images in found.items():
        if images.problems:
            raise DatasetError(str(images.problems[0]))
        if images.classes != classes:
            odd = sorted(set(classes) ^ set(images.classes))
            raise DatasetError(f"{folders[name]} and {folders['train']} have different classes (such as {odd[0]!r}): "
                               f"each split needs a folder for every class.")  # fmt: skip
    parts = {name: _part(folders[name], images) for name, images in found.items()}
    return ImageSplits(entry.name, classes, entry.renamed(classes), entry.templates, **parts)


def _part(folder: Path, images: ImageSet) -> Part:
    positions = {label: position for position, label in enumerate(images.classes)}
    files = tuple(item.relative_to(folder).as_posix() for item in images.items if isinstance(item, Path))
    labels = [] if images.labels is None else [positions[label] for label in images.labels.tolist()]
    return Part(folder, files, np.array(labels, np.intp))


def _folders(entry: Description) -> dict[str, str]:
    options = entry.options
    given: dict[str, str] = {name: options[name] for name in PARTS if name in options}
    if not given:
        return {"train": options.get("images", ".")}
    if "images" in options or "train" not in given or "test" not in given:
        raise DatasetError(f"{entry.name}: give images, the folder of one pool, or train, test and perhaps val.")
    return given


def _needs(entry: Description) -> list[tuple[str, ...]]:
    return [(entry.below(place),) for place in _folders(entry).values()]


READER = Reader({"images": safe_path, **dict.fromkeys(PARTS, safe_path)}, (), _needs, read)
"""Keys: `images`, the folder of one pool; or `train`, `test` and perhaps `val`."""
