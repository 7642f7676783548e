"""What of a data set is on disk, what is missing, and what to do about it. No image is opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...sources import SourceError
from .features import count_features
from .readers import READERS
from .readers.base import listing
from .splits import PARTS, Splits

if TYPE_CHECKING:
    from .catalog import DataSet

State: TypeAlias = Literal["complete", "different", "incomplete", "missing"]


@dataclass(frozen=True)
class Status:
    """What `DataSet.status` found.

    Attributes
    ----------
    name, title, group, folder
        Which data set, and where it is looked for.
    state
        "complete", with the numbers of classes and images that there should be; "different", if the numbers are not
        those; "incomplete", if something is missing or wrong; "missing", if there is no such folder.
    missing
        Files and folders that are not there, relative to the root of all data sets.
    found, expected
        Numbers of `classes` and of images in `train`, `val` and `test`, as far as known.
    problem
        What is wrong, in a sentence; empty if nothing is.
    advice
        What to do; empty if nothing.
    """

    name: str
    title: str
    group: str
    folder: Path
    state: State
    missing: tuple[str, ...]
    found: Mapping[str, int]
    expected: Mapping[str, int]
    problem: str = ""
    advice: str = ""

    @property
    def usable(self) -> bool:
        """Whether it can be read, with the expected numbers or with others."""
        return self.state in ("complete", "different")


def status(dataset: DataSet, root: Path) -> Status:
    """What is there of a data set below the root of all data sets."""
    folder = root / dataset.folder
    expected = dict(dataset.counts) | ({"classes": dataset.classes} if dataset.classes else {})

    def found_to_be(state: State, problem: str, found: Mapping[str, int], missing: tuple[str, ...] = ()) -> Status:
        advice = "" if state == "complete" else dataset.advice
        return Status(dataset.name, dataset.title, dataset.group, folder, state, missing, found, expected, problem,
                      advice)  # fmt: skip

    missing = missing_parts(dataset, root)
    if not folder.is_dir():
        return found_to_be("missing", f"{folder} is not there.", {}, missing)
    absent = missing if dataset.has_images else tuple(place for place in missing if len(missing) == _needed(dataset))
    if absent:
        return found_to_be("incomplete", f"{', '.join(absent)} is missing below {root}.", {}, missing)
    try:
        found, problem = _counted(dataset, root)
    except SourceError as error:
        return found_to_be("incomplete", str(error), {}, missing)
    if problem:
        return found_to_be("incomplete", problem, found, missing)
    differing = [
        f"{found.get(what, 0)} {_WORDS[what]} instead of {number}"
        for what, number in expected.items()
        if found.get(what, 0) != number
    ]
    if differing:
        return found_to_be("different", f"It has {', '.join(differing)}.", found, missing)
    return found_to_be("complete", "", found, missing)


def missing_parts(dataset: DataSet, root: Path) -> tuple[str, ...]:
    """Files and folders that the layout needs and that are not there; of alternatives, the first."""
    needs = READERS[dataset.reader].needs(dataset)
    return tuple(places[0] for places in needs if not any((root / place).exists() for place in places))


def missing_files(splits: Splits) -> list[Path]:
    """Listed images that are not there, found by listing each folder once."""
    lost: list[Path] = []
    wanted: defaultdict[tuple[Path, str], set[str]] = defaultdict(set)
    for part in (splits.train, splits.val, splits.test):
        if part is not None:
            for file in part.files:
                place, _, name = file.rpartition("/")
                wanted[part.root, place].add(name)
    for (root, place), names in wanted.items():
        folder = root / place
        there = set(listing(folder)[1]) if folder.is_dir() else set()
        lost += [folder / name for name in sorted(names - there)]
    return lost


def _counted(dataset: DataSet, root: Path) -> tuple[dict[str, int], str]:
    if not dataset.has_images:
        files = (root / dataset.below(place) for place in dataset.options["files"].values())
        counts = [count_features(file) for file in files if file.is_file()]
        return counts[0], "" if all(count == counts[0] for count in counts) else "Its files have different numbers."
    splits = dataset.splits(root, check_files=False)
    parts: dict[str, int] = {name: len(part) for name in PARTS if (part := getattr(splits, name)) is not None}
    lost = missing_files(splits) if READERS[dataset.reader].listed else []
    problem = f"{len(lost)} of {sum(parts.values())} images are missing, such as {lost[0]}." if lost else ""
    return {"classes": len(splits.classes), **parts}, problem


def _needed(dataset: DataSet) -> int:
    return len(READERS[dataset.reader].needs(dataset))


_WORDS = {"classes": "classes", "train": "images to train", "val": "to validate", "test": "to test"}
