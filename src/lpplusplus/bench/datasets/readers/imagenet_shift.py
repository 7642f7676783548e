"""Sets that test a classifier of ImageNet: a test split with ImageNet's classes, or some of them."""

from pathlib import Path

from ..splits import DatasetError, ImageSplits
from .base import Description, Reader, flag, listing, safe_path
from .imagenet import IDENTIFIER, NAMES, images_of, read_names, splits_of


def read(entry: Description, root: Path) -> ImageSplits:
    """The classes are those that have a folder."""
    names = read_names(next(file for place in _name_files(entry) if (file := root / place).is_file()))
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


def _name_files(entry: Description) -> tuple[str, ...]:
    """Files with class names. CoOp has a copy in each set's folder; ImageNet's own file serves as well."""
    return (entry.below(NAMES), *([f"{entry.parent}/{NAMES}"] if entry.parent else []))


def _needs(entry: Description) -> list[tuple[str, ...]]:
    return [(entry.below(entry.options["images"]),), _name_files(entry)]


READER = Reader({"images": safe_path, "numbered": flag}, ("images",), _needs, read)
"""Keys: `images`, the folder of identifiers; `numbered`, if folders are called 0, 1, … instead."""
