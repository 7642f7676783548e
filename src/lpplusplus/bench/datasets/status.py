"""What is on disk of a data set, what is missing, and how to get it. No image is opened."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ...images.sources import SourceError
from .features import count_features
from .leaks import check_files
from .readers import READERS
from .readers.base import Description, listing
from .splits import ImageSplits

State: TypeAlias = Literal["complete", "different", "incomplete", "missing"]


@dataclass(frozen=True)
class Status:
    """What `Entry.status` found.

    Attributes
    ----------
    state
        "complete": classes and images have the expected numbers. "different": they have other numbers. "incomplete":
        something is missing or wrong. "missing": there is no such folder.
    missing
        Files and folders that are not there, relative to the root of all data sets.
    found, expected
        Numbers of `classes` and of images in `train`, `val` and `test`, as far as known.
    problem
        What is wrong, in a sentence; "" if nothing is.
    advice
        What to do; "" if nothing.
    """

    state: State
    missing: tuple[str, ...]
    found: Mapping[str, int]
    expected: Mapping[str, int]
    problem: str = ""
    advice: str = ""

    @property
    def usable(self) -> bool:
        """Whether the data set can be read."""
        return self.state in ("complete", "different")


def status(entry: Description, root: Path) -> Status:
    """What is on disk of a data set, below the root of all data sets."""
    folder = root / entry.folder
    expected = dict(entry.counts) | ({"classes": entry.classes} if entry.classes else {})

    missing = missing_parts(entry, root)

    def found_to_be(state: State, problem: str, found: Mapping[str, int]) -> Status:
        return Status(state, missing, found, expected, problem, "" if state == "complete" else entry.advice)

    if not folder.is_dir():
        return found_to_be("missing", f"{folder} is not there.", {})
    # A data set of features is usable with one of its files.
    layout = READERS[entry.reader]
    if missing and (layout.read is not None or len(missing) == len(layout.needs(entry))):
        return found_to_be("incomplete", f"{', '.join(missing)} is missing below {root}.", {})
    try:
        found, problem = _counted(entry, root)
    except SourceError as error:
        return found_to_be("incomplete", str(error), {})
    if problem:
        return found_to_be("incomplete", problem, found)
    differing = [
        f"{found.get(what, 0)} {_WORDS[what]} instead of {number}"
        for what, number in expected.items()
        if found.get(what, 0) != number
    ]
    if differing:
        return found_to_be("different", f"It has {', '.join(differing)}.", found)
    return found_to_be("complete", "", found)


def missing_parts(entry: Description, root: Path) -> tuple[str, ...]:
    """Files and folders that the layout needs and that do not exist; if there are alternatives, the first."""
    needs = READERS[entry.reader].needs(entry)
    return tuple(places[0] for places in needs if not any((root / place).exists() for place in places))


def missing_files(splits: ImageSplits) -> list[Path]:
    """Listed images that do not exist, found by listing each folder once."""
    lost: list[Path] = []
    wanted: defaultdict[tuple[Path, str], set[str]] = defaultdict(set)
    for part in splits.parts.values():
        for file in part.files:
            place, _, name = file.rpartition("/")
            wanted[part.root, place].add(name)
    for (root, place), names in wanted.items():
        folder = root / place
        there = set(listing(folder)[1]) if folder.is_dir() else set()
        lost += [folder / name for name in sorted(names - there)]
    return lost


def _counted(entry: Description, root: Path) -> tuple[dict[str, int], str]:
    layout = READERS[entry.reader]
    if layout.read is None:
        files = (root / entry.below(place) for place in entry.options["files"].values())
        counts = [count_features(file) for file in files if file.exists()]
        return counts[0], "" if all(count == counts[0] for count in counts) else "Its files have different numbers."
    splits = layout.read(entry, root)
    check_files(splits)
    parts = {name: len(part) for name, part in splits.parts.items()}
    lost = missing_files(splits) if layout.listed else []
    problem = f"{len(lost)} of {sum(parts.values())} images are missing, such as {lost[0]}." if lost else ""
    return {"classes": len(splits.classes), **parts}, problem


_WORDS = {"classes": "classes", "train": "images to train", "val": "to validate", "test": "to test"}
