"""Layouts of data sets on disk: what each needs, and how its lists of images are read. A new one is a line below.

`split-json`: CoOp's split files, {"train": [["banded/banded_0133.jpg", 0, "banded"], …], "val": …, "test": …}.
`aircraft-lists`: FGVC Aircraft's own lists, a file of class names, and for each split lines such as "1025794 707-320".
`imagenet`: folders named by WordNet identifiers; `classnames.txt` has a line such as "n01440764 tench" for each class.
`imagenet-shift`: a test split with ImageNet's classes, or some of them.
`folder-per-class`: `<class>/*.jpg`, once, or below a folder for each split.
`feature-file`, `clip-benchmark`: published embeddings, which `features` reads.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...images.sources import ImageSet, from_folder
from ...images.sources.folders import EXTENSIONS
from .description import NAMES, Description, FilePath, Reader, lines, listing, name_files, read_text, safe_path
from .splits import PARTS, DatasetError, ImageSplits, Part

IDENTIFIER = re.compile(r"n\d{8}")


def _read_json(entry: Description, root: Path) -> ImageSplits:
    """Read and check the split file, without looking for the images."""
    folder = root / entry.folder
    path = folder / entry.options["split"]
    images = folder / entry.options.get("images", ".")
    names: dict[int, str] = {}
    parts = {part: _json_part(entries, images, names, f"{path}, {part}") for part, entries in _entries(path).items()}
    if sorted(names) != list(range(len(names))):
        raise DatasetError(f"{path}: labels {sorted(names)[:5]} … are not 0 to {len(names) - 1}.")
    original = tuple(names[label] for label in range(len(names)))
    if len(set(original)) < len(original):
        twice = next(name for name in original if original.count(name) > 1)
        raise DatasetError(f"{path}: two labels are both called {twice!r}.")
    return ImageSplits(entry.name, original, entry.renamed(original), entry.templates, **parts)


def _entries(path: Path) -> dict[str, list[Any]]:
    try:
        whole = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path} is not JSON ({error}): download it again.") from error
    if not isinstance(whole, dict) or not {"train", "test"} <= whole.keys() <= set(PARTS):
        found = sorted(whole) if isinstance(whole, dict) else type(whole).__name__
        raise DatasetError(f"{path} has {found}, expected the lists 'train', 'val' and 'test'.")
    for part, entries in whole.items():
        if not isinstance(entries, list) or not entries:
            raise DatasetError(f"{path}: {part!r} must be a list of [path, label, class name], and not empty.")
    return whole


def _json_part(entries: list[Any], images: Path, names: dict[int, str], where: str) -> Part:
    files, labels = [], []
    for number, item in enumerate(entries):
        if not isinstance(item, list) or len(item) != 3:
            raise DatasetError(f"{where}, entry {number}: expected [path, label, class name], found {item!r}.")
        file, label, name = item
        if type(label) is not int or not 0 <= label < 2**31 or not isinstance(name, str) or not name.strip():
            raise DatasetError(f"{where}, entry {number}: expected a label from 0 and a class name, found {item!r}.")
        if names.setdefault(label, name) != name:
            raise DatasetError(f"{where}, entry {number}: label {label} is {name!r} here, {names[label]!r} before.")
        files.append(safe_path(file, f"{where}, entry {number}"))
        labels.append(label)
    return Part(images, tuple(files), np.array(labels, np.intp))


def _read_aircraft(entry: Description, root: Path) -> ImageSplits:
    """Read and check the lists, without looking for the images."""
    folder = root / entry.folder
    path = folder / entry.options["names"]
    labels = {name: label for label, (_, name) in enumerate(lines(path))}
    if len(labels) < 2 or len(labels) < len(lines(path)):
        raise DatasetError(f"{path} must have two class names or more, one per line and all different.")
    parts = {name: _aircraft_part(entry, folder, file, labels) for name, file in entry.options["lists"].items()}
    classes = tuple(labels)
    return ImageSplits(entry.name, classes, entry.renamed(classes), entry.templates, **parts)


def _aircraft_part(entry: Description, folder: Path, file: str, known: dict[str, int]) -> Part:
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


def _check_lists(lists: Mapping[str, str], where: str) -> None:
    if not {"train", "test"} <= lists.keys() <= set(PARTS):
        raise DatasetError(f"{where} must name the files of train, test and, if there is one, val.")


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


def _read_imagenet(entry: Description, root: Path) -> ImageSplits:
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


def _read_shift(entry: Description, root: Path) -> ImageSplits:
    """The classes are those that have a folder."""
    names = read_names(next(file for place in name_files(entry) if (file := root / place).is_file()))
    where = root / entry.folder / entry.options["images"]
    found, _ = listing(where)
    if entry.options.get("numbered", False):
        every = sorted(names)
        numbers = [str(number) for number in range(len(every))]
        if sorted(found) != sorted(numbers):
            raise DatasetError(f"{where} has {len(found)} folders, expected 0 to {len(every) - 1}, one for each class "
                               f"of {NAMES}.")  # fmt: skip
        folders = dict(zip(every, numbers, strict=True))
    else:
        folders = {name: name for name in found if IDENTIFIER.fullmatch(name)}
    unknown = sorted(folders.keys() - names.keys())
    if unknown or len(folders) < 2:
        what = f"folder {unknown[0]}, which {NAMES} lacks" if unknown else "no folders of classes such as n01440764"
        raise DatasetError(f"{where} has {what}.")
    return splits_of(entry, tuple(folders), names, test=images_of(where, folders))


def _read_folders(entry: Description, root: Path) -> ImageSplits:
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
    parts = {name: _folders_part(folders[name], images) for name, images in found.items()}
    return ImageSplits(entry.name, classes, entry.renamed(classes), entry.templates, **parts)


def _folders_part(folder: Path, images: ImageSet) -> Part:
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


def feature_path(entry: Description, root: Path, encoder: str | None) -> Path:
    """The file of an encoder; by default the first encoder."""
    files = entry.options["files"]
    if encoder is not None and encoder not in files:
        raise DatasetError(f"{entry.name} has features of {', '.join(files)}, not of {encoder!r}.")
    place: str = files[next(iter(files)) if encoder is None else encoder]
    return root / entry.below(place)


def _check_files(files: Mapping[str, str], where: str) -> None:
    if not files:
        raise DatasetError(f"{where} must name a file for each encoder.")


_FEATURES = {"files": Annotated[Mapping[str, FilePath], _check_files], "prompt": str}

READERS: dict[str, Reader] = {
    # `split`, the file; `images`, the folder that its paths are relative to.
    "split-json": Reader({"images": FilePath, "split": FilePath}, ("split",), _read_json, listed=True),
    # `names`, the file of class names; `lists`, a file for each split; `images`, their folder; `suffix` of names.
    "aircraft-lists": Reader(
        {
            "images": FilePath,
            "suffix": str,
            "names": FilePath,
            "lists": Annotated[Mapping[str, FilePath], _check_lists],
        },
        ("names", "lists"),
        _read_aircraft,
        listed=True,
    ),
    # `train` and `test`, folders of identifiers.
    "imagenet": Reader({"train": FilePath, "test": FilePath}, ("train", "test"), _read_imagenet, identified=True),
    # `images`, the folder of identifiers; `numbered`, if folders are called 0, 1, … instead.
    "imagenet-shift": Reader({"images": FilePath, "numbered": bool}, ("images",), _read_shift, identified=True),
    # `images`, the folder of one pool; or `train`, `test` and perhaps `val`.
    "folder-per-class": Reader(dict.fromkeys(("images", *PARTS), FilePath), (), _read_folders, check=_folders),
    # `files`, a file or Parquet data set for each encoder; `prompt`: "average", "all", or the words of one.
    "feature-file": Reader(_FEATURES, ("files",), None),
    # As `feature-file`; each is a folder of the cache of CLIP_benchmark.
    "clip-benchmark": Reader(_FEATURES, ("files",), None, inside="/features_train.pt"),
}
