"""The catalog of data sets: entries of `catalog.toml`, and of a user's own file with the same keys.

An entry's status is what is on disk of it, what is missing, and how to get it; no image is opened for that.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from ...images.drawings import write_demo
from ...images.sources import SourceError
from ..checking import check
from .description import Description, listing
from .features import FeatureSplits, count_features, read_feature_file
from .readers import READERS, feature_path
from .splits import DatasetError, ImageSplits, check_files, check_rows

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Entry(Description):
    """One entry of a catalog, and what can be read of it."""

    @property
    def has_images(self) -> bool:
        """Whether there are images, rather than embeddings only."""
        return READERS[self.reader].read is not None

    def splits(self, root: str | PathLike[str], *, check_files_exist: bool = True) -> ImageSplits:
        """Read the lists of images and their labels; no image is opened.

        Parameters
        ----------
        root
            Folder of all data sets.
        check_files_exist
            Raise if a listed file does not exist.

        Raises
        ------
        OverlapError
            If a file is in two splits.
        DatasetError
            If something is missing or not as it should be.
        """
        layout = READERS[self.reader]
        if layout.read is None:
            folder = Path(root) / self.folder
            raise DatasetError(f"{self.name} has embeddings in {folder}, not images: ask for its features.")
        missing = missing_parts(self, Path(root))
        if missing:
            raise DatasetError(f"{self.title} is not complete: {Path(root) / missing[0]} is missing. {self.advice}")
        splits = layout.read(self, Path(root))
        check_files(splits)
        lost = missing_files(splits) if check_files_exist and layout.listed else []
        if lost:
            raise DatasetError(
                f"{self.title}: {len(lost)} images are listed but not there, such as {lost[0]}. {self.advice}"
            )
        return splits

    def features(
        self,
        root: str | PathLike[str],
        *,
        encoder: str | None = None,
        prompt: str | None = None,
        allow_duplicates: bool = False,
    ) -> FeatureSplits:
        """Read published embeddings.

        Parameters
        ----------
        root
            Folder of all data sets.
        encoder
            Whose embeddings; by default the first that the entry lists.
        prompt
            As in `read_feature_file`; by default the entry's own.
        allow_duplicates
            Accept embeddings that are in two splits, or twice in a pool.
        """
        if self.has_images:
            raise DatasetError(f"{self.title} has images, not features: embed its splits.")
        path = feature_path(self, Path(root), encoder)
        if not path.exists():
            raise DatasetError(f"{path} is missing. {self.advice}")
        features = read_feature_file(path, name=self.name, prompt=prompt or self.options.get("prompt"))
        if not allow_duplicates:
            check_rows({name: part.X for name, part in features.parts.items()}, self.name, shared=features.shared)
        return features

    def status(self, root: str | PathLike[str]) -> Status:
        """What is on disk and what is missing; fast, since no image is opened."""
        root, layout = Path(root), READERS[self.reader]
        expected = dict(self.counts) | ({"classes": self.classes} if self.classes else {})
        missing = missing_parts(self, root)
        state: State = "incomplete"
        problem, found = "", dict[str, int]()
        if not (root / self.folder).is_dir():
            state, problem = "missing", f"{root / self.folder} is not there."
        elif missing and (layout.read is not None or len(missing) == len(layout.needs(self))):
            # A data set of features is usable with one of its files.
            problem = f"{', '.join(missing)} is missing below {root}."
        else:
            try:
                found, problem = _counted(self, root)
            except SourceError as error:
                problem = str(error)
        if not problem:
            differing = [f"{found.get(what, 0)} {_WORDS[what]} instead of {number}"
                         for what, number in expected.items() if found.get(what, 0) != number]  # fmt: skip
            state = "different" if differing else "complete"
            problem = f"It has {', '.join(differing)}." if differing else ""
        return Status(state, missing, found, expected, problem, "" if state == "complete" else self.advice)


def catalog(*files: str | PathLike[str]) -> dict[str, Entry]:
    """The package's data sets and those of `files`, by name.

    Examples
    --------
    >>> sets = catalog()
    >>> sets["dtd"].templates, sets["dtd"].classes
    (('{} texture.',), 47)
    >>> len([s for s in sets.values() if s.group == "paper"]), len([s for s in sets.values() if s.group == "shift"])
    (11, 4)
    """
    own = resources.files(__package__) / "catalog.toml"
    sets = _parse(own.read_text(encoding="utf-8"), "the package's catalog.toml")
    for file in files:
        try:
            more = _parse(Path(file).read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise DatasetError(f"{file} cannot be read as a catalog ({error}).") from error
        twice = sorted(more.keys() & sets.keys())
        if twice:
            raise DatasetError(f"{file}: there is a data set {twice[0]!r} already; choose another name.")
        sets |= more
    return with_parents(sets)


def with_parents(sets: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries; those without templates get the templates of their parents."""
    entries = {}
    for name, entry in sets.items():
        if entry.parent and entry.parent not in sets:
            raise DatasetError(f"{entry.name}: its parent {entry.parent!r} is not a data set of this catalog.")
        parent = sets.get(entry.parent, entry)
        entries[name] = replace(entry, templates=entry.templates or parent.templates)
    return entries


def find(name: str, sets: Mapping[str, Entry] | None = None) -> Entry:
    """An entry by its name or its title. Upper case, "-", "_", "." and spaces do not matter.

    Examples
    --------
    >>> find("Stanford Cars").name
    'stanford_cars'
    """
    sets = catalog() if sets is None else sets
    if name in sets:
        return sets[name]
    known = {_plain(spelling): one for one in sets.values() for spelling in (one.title, one.name)}
    if _plain(name) in known:
        return known[_plain(name)]
    close = difflib.get_close_matches(_plain(name), known, 1)
    hint = f"did you mean {known[close[0]].name!r}?" if close else f"there are {', '.join(sets)}."
    raise DatasetError(f"there is no data set {name!r}: {hint}")


def _plain(name: str) -> str:
    return re.sub(r"[-_ .]", "", name).lower()


def _parse(text: str, origin: str) -> dict[str, Entry]:
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DatasetError(f"{origin} is not TOML ({error}).") from error
    return {name: parse_entry(name, table, f"{origin}, [{name}]") for name, table in tables.items()}


def parse_entry(name: str, table: Any, where: str) -> Entry:
    """Check one table of a catalog; `where` says in messages where it is from."""
    if not isinstance(table, dict) or not NAME.fullmatch(name):
        raise DatasetError(f"{where}: expected a table with a name of letters, digits, '_', '-' and '.'.")
    reader = table.get("reader")
    if not isinstance(reader, str) or reader not in READERS:
        raise DatasetError(f"{where}: reader is {reader!r}, expected one of {', '.join(READERS)}.")
    layout = READERS[reader]
    allowed = COMMON | dict(layout.keys)
    values = {}
    for key, value in table.items():
        if key not in allowed:
            raise DatasetError(f"{where}: there is no key {key!r}; {reader} has {', '.join(allowed)}.")
        values[key] = check(value, allowed[key], f"{where}, {key}", DatasetError)
    has_texts = layout.read is None or "parent" in table
    for key in ("folder", *([] if has_texts else ["templates"]), *layout.required):
        if key not in table:
            raise DatasetError(f"{where}: the key {key!r} is missing.")
    options = {key: values.pop(key) for key in table if key in layout.keys}
    entry = Entry(**{"title": name, "templates": (), **values, "name": name, "options": options})
    layout.check(entry)
    return entry


COMMON = {name: kind for name, kind in get_type_hints(Description, include_extras=True).items()
          if name not in ("name", "options")}  # fmt: skip
"""Keys that every entry may have, each with its kind; a reader adds its own keys."""


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


IMAGES = {"train": 40, "val": 24, "test": 30}
"""Images per class in each split."""

DEMO = Entry(
    "demo",
    title="demo",
    folder="demo-pictures",
    reader="folder-per-class",
    templates=("a picture of a {}.",),
    options={split: split for split in IMAGES},
)


def demo_splits(root: Path, tell: Callable[[str], None]) -> ImageSplits:
    """The demonstration's splits below `root`, drawn unless they exist; `tell` is called with messages."""
    for seed, (split, count) in enumerate(IMAGES.items(), 11):
        folder = root / DEMO.below(split)
        complete = folder.with_suffix(".complete")
        if not complete.exists():
            tell(f"{DEMO.name}: drawing {count} images per class for {split}")
            write_demo(folder, count, seed=seed)
            complete.touch()
    return DEMO.splits(root)
