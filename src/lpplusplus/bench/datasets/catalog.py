"""Which data sets there are: entries of `catalog.toml`, and of a user's own file with the same keys."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...encoders.prompts import check_templates
from .features import FeatureSet, read_feature_file
from .readers import READERS
from .readers.base import safe_path
from .readers.feature_file import feature_path
from .splits import PARTS, DataSetError, Splits, check_disjoint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from .status import Status

COMMON: dict[str, type] = {
    "title": str, "group": str, "folder": str, "reader": str, "templates": list, "classes": int, "counts": dict,
    "rename": dict, "parent": str, "get": str, "url": str,
}  # fmt: skip
"""Keys that every entry may have; a reader has more."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class DataSet:
    """One entry of a catalog.

    Attributes
    ----------
    name
        Its key: what draws, results and plans call it.
    title
        What tables call it.
    folder
        Where it is, below the root of all data sets.
    reader
        Its layout, one of `READERS`.
    templates
        Prompts, with {} for the class name.
    group
        "paper", "shift", "features", or what a user's file says.
    options
        The reader's own keys.
    classes, counts
        How many classes there should be, and images in each split; 0 and none if not known.
    rename
        Better class names, by those that the files have.
    parent
        The data set whose classifiers this one tests, and whose templates it has unless it names some.
    get, url
        How to get it, in words, and where.
    """

    name: str
    title: str
    folder: str
    reader: str
    templates: tuple[str, ...]
    group: str = "own"
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    get: str = ""
    url: str = ""

    @property
    def has_images(self) -> bool:
        """Whether there are images, rather than embeddings only."""
        return self.reader != "feature-file"

    def splits(self, root: str | PathLike[str], *, check_files: bool = True) -> Splits:
        """Read the lists of images and their labels, below the root of all data sets; no image is opened.

        Parameters
        ----------
        root
            Folder that `folder` is in.
        check_files
            Raise if a listed file is not there.

        Raises
        ------
        OverlapError
            If a file is in two splits.
        DataSetError
            If something is missing or not as it should be.
        """
        from .status import missing_files, missing_parts

        missing = missing_parts(self, Path(root))
        if missing and self.has_images:
            raise DataSetError(f"{self.title} is not complete: {Path(root) / missing[0]} is missing. {self.advice}")
        found = READERS[self.reader].read(self, Path(root))
        check_disjoint(found)
        if check_files and READERS[self.reader].listed:
            lost = missing_files(found)
            if lost:
                raise DataSetError(f"{self.title}: {len(lost)} images are listed but not there, such as {lost[0]}. "
                                   f"{self.advice}")  # fmt: skip
        return found

    def features(
        self,
        root: str | PathLike[str],
        *,
        backbone: str | None = None,
        prompt: str | None = None,
        allow_duplicates: bool = False,
    ) -> FeatureSet:
        """Read published embeddings.

        Parameters
        ----------
        root
            Folder that `folder` is in.
        backbone
            Which encoder's; the first that the entry lists unless told.
        prompt
            As in `read_feature_file`; the entry's own unless told.
        allow_duplicates
            Take embeddings that are in two splits, or twice in a pool, which are refused otherwise.
        """
        if self.has_images:
            raise DataSetError(f"{self.title} has images, not features: embed its splits.")
        path = feature_path(self, Path(root), backbone)
        if not path.is_file():
            raise DataSetError(f"{path} is missing. {self.advice}")
        found = read_feature_file(path, name=self.name, prompt=prompt or self.options.get("prompt"))
        if not allow_duplicates:
            check_disjoint(found)
        return found

    def status(self, root: str | PathLike[str]) -> Status:
        """What is there and what is missing; quick, since no image is opened."""
        from .status import status

        return status(self, Path(root))

    @property
    def advice(self) -> str:
        """How to get it."""
        return " ".join(part for part in (self.get, self.url and f"See {self.url}") if part)

    def below(self, place: str) -> str:
        """A path in its folder, relative to the root of all data sets."""
        return safe_path(f"{self.folder}/{place}", self.name)

    def renamed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Class names as a prompt has them: `rename`, and spaces for underscores."""
        return tuple(self.rename.get(name, name).replace("_", " ") for name in names)


def catalog(*files: str | PathLike[str]) -> dict[str, DataSet]:
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
            raise DataSetError(f"{file} cannot be read as a catalog ({error}).") from error
        twice = sorted(more.keys() & sets.keys())
        if twice:
            raise DataSetError(f"{file}: there is a data set {twice[0]!r} already; choose another name.")
        sets |= more
    return with_parents(sets)


def with_parents(sets: Mapping[str, DataSet]) -> dict[str, DataSet]:
    """The data sets, those without templates having their parents'."""
    return {name: _with_parent(dataset, sets) for name, dataset in sets.items()}


def find(name: str, sets: Mapping[str, DataSet] | None = None) -> DataSet:
    """A data set by its name or its title, in any case, whether with "-", "_", spaces or none of them.

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
    raise DataSetError(f"there is no data set {name!r}: {hint}")


def _with_parent(dataset: DataSet, sets: Mapping[str, DataSet]) -> DataSet:
    """With the templates of the data set whose classifiers it tests, if it has none of its own."""
    if not dataset.parent:
        return dataset
    if dataset.parent not in sets:
        raise DataSetError(f"{dataset.name}: its parent {dataset.parent!r} is not a data set of this catalog.")
    return replace(dataset, templates=dataset.templates or sets[dataset.parent].templates)


def _plain(name: str) -> str:
    return re.sub(r"[-_ .]", "", name).lower()


def _parse(text: str, origin: str) -> dict[str, DataSet]:
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataSetError(f"{origin} is not TOML ({error}).") from error
    return {name: parse_entry(name, table, f"{origin}, [{name}]") for name, table in tables.items()}


def parse_entry(name: str, table: Any, where: str) -> DataSet:
    """Check one table of a catalogue."""
    if not isinstance(table, dict) or not NAME.fullmatch(name):
        raise DataSetError(f"{where}: expected a table with a name of letters, digits, '_', '-' and '.'.")
    reader = table.get("reader")
    if reader not in READERS:
        raise DataSetError(f"{where}: reader is {reader!r}, expected one of {', '.join(READERS)}.")
    layout = READERS[reader]
    allowed = COMMON | dict(layout.keys)
    for key, value in table.items():
        if key not in allowed:
            raise DataSetError(f"{where}: there is no key {key!r}; {reader} has {', '.join(allowed)}.")
        _check_value(key, value, allowed[key], f"{where}, {key}")
    implied = reader == "feature-file" or "parent" in table
    for key in ("folder", *([] if implied else ["templates"]), *layout.required):
        if key not in table:
            raise DataSetError(f"{where}: the key {key!r} is missing.")
    paths = [key for key in layout.keys if key not in ("suffix", "prompt", "numbered")]
    for key in ("folder", *(key for key in paths if key in table)):
        for place in table[key].values() if isinstance(table[key], dict) else [table[key]]:
            safe_path(place, f"{where}, {key}")
    if set(table.get("counts", {})) - set(PARTS):
        raise DataSetError(f"{where}: counts are of train, val and test.")
    try:
        templates = check_templates(table["templates"]) if "templates" in table else ()
    except ValueError as error:
        raise DataSetError(f"{where}: {error}.") from error
    common = {key: value for key, value in table.items() if key in COMMON}
    options = {key: value for key, value in table.items() if key in layout.keys}
    dataset = DataSet(**{"title": name, **common, "name": name, "templates": templates, "options": options})
    layout.needs(dataset)  # Raises for keys that contradict each other.
    return dataset


def _check_value(key: str, value: Any, kind: type, where: str) -> None:
    right = type(value) is kind
    if right and kind is dict:
        inner = int if key == "counts" else str
        right = all(type(item) is inner for item in value.values())
    if not right:
        words = {str: "text", bool: "true or false", int: "a whole number", list: "a list", dict: "a table"}
        raise DataSetError(f"{where}: expected {words[kind]}, found {value!r}.")
