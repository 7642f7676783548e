"""A plan: which cells to run. It is a short TOML file; some come with the package.

All keys, with an example:

    name = "birds"
    datasets = ["eurosat", "photos"]            # names of the catalog, or of [dataset.NAME] tables below
    encoders = ["open_clip:RN50/openai"]       # encoders; for published features, names in their `files`
    methods = ["feature-level", "my probe"]     # names, groups, or [[method]] entries below; with ", no validation"
                                                # behind a name or a group, it gets no validation images
    shots = [1, 2, 4, 8, 16]
    draws = 10                                  # draws of the images, with seeds 1 … 10
    validation = "paper"                        # S images per class; "coop" for min(S, 4), "none"
    shortage = "fewer"                          # classes with too few images: "fewer", "repeat" or "error"
    generator = "lpplusplus-1"                  # how images are drawn; "2sfs": read, see `public_draw`
    views = 0                                   # random crops per training image; 0 for the centre crop
    duplicates = "refuse"                       # copies of an image in two splits: "refuse", "allow", or names of data
                                                # sets that may have them
    draws_file = "draws.json"                   # draws from a file of `lpp bench draws`

    [[method]]
    name = "my probe"
    estimator = "LPPlusPlus"                    # of the package, or your own: "mypackage:Mine"
    parameters = { solver = "lbfgs" }
    validation = true                           # whether it gets the validation images

    [dataset.photos]                            # the keys of the catalog
    folder = "photos"
    reader = "folder-per-class"
    templates = ["a photo of a {}."]
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from .._core.errors import BriefError
from .._core.model_file import method as estimator_named
from .cell import Cell
from .checking import check, record
from .datasets import Entry, catalog
from .datasets.catalog import parse_entry
from .draws import Generator, Shortage, Validation
from .estimators import make, named
from .sampling import GENERATOR

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


NO_VALIDATION = ", no validation"
"""Suffix of the name of a method or a group that gets no validation images."""


class PlanError(BriefError, ValueError):
    """A plan that cannot be run; the message names the key and what is expected."""


def _some(value: tuple[Any, ...], where: str) -> None:
    if not value:
        raise PlanError(f"{where} is empty: name at least one.")


def _finite(value: Mapping[str, Any], where: str) -> None:
    for key, number in value.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise PlanError(f"{where}: {key} is {number}, which is not a number.")


@dataclass(frozen=True)
class Method:
    """A method of a plan: a row of the tables."""

    name: Annotated[str, _some]
    estimator: str
    parameters: Annotated[Mapping[str, Any], _finite] = field(default_factory=dict)
    validation: bool = True


@dataclass(frozen=True)
class Plan:
    """What to run. The fields are the keys of the file, which the module's docstring explains."""

    name: str
    datasets: Annotated[tuple[str, ...], _some]
    encoders: Annotated[tuple[str, ...], _some]
    methods: Annotated[tuple[Method, ...], _some]
    shots: Annotated[tuple[Annotated[int, 1], ...], _some] = (1, 2, 4, 8, 16)
    draws: Annotated[int, 1] = 10
    validation: Validation = "paper"
    shortage: Shortage = "fewer"
    generator: Generator = GENERATOR
    views: Annotated[int, 0] = 0
    duplicates: Literal["refuse", "allow"] | tuple[str, ...] = "refuse"
    draws_file: str = ""
    declared: Mapping[str, Entry] = field(default_factory=dict)
    """Data sets that the plan itself, or a user's catalog, describes."""

    def allows_copies(self, dataset: str) -> bool:
        """Whether images may be in two splits of a data set."""
        return self.duplicates == "allow" or (self.duplicates != "refuse" and dataset in self.duplicates)

    @property
    def protocol(self) -> dict[str, Any]:
        """How images are drawn. Newer keys with their defaults are left out, so that old cells stay the same."""
        keys = ("validation", "shortage", "generator", "views")
        protocol: dict[str, Any] = {key: getattr(self, key) for key in keys}
        if self.draws_file:
            protocol["draws"] = hashlib.sha256(Path(self.draws_file).read_bytes()).hexdigest()
        return protocol

    def cells(self, dataset: str, encoder: str) -> Iterator[Cell]:
        """All cells of one data set and encoder, draw by draw, so that tables fill evenly."""
        protocol = self.protocol | ({"duplicates": "allow"} if self.allows_copies(dataset) else {})
        if dataset in self.declared:
            # With other templates, prompt or reader it is another data set, even under the same name.
            protocol["data"] = self.declared[dataset].digest
        for seed, shots, method in product(range(1, self.draws + 1), self.shots, self.methods):
            validation = method.validation and self.validation != "none"
            yield Cell(dataset, encoder, method.name, shots, seed, method.estimator, dict(method.parameters),
                       validation, protocol)  # fmt: skip

    def all_cells(self) -> Iterator[Cell]:
        """The cells of every data set and encoder."""
        for dataset, encoder in product(self.datasets, self.encoders):
            yield from self.cells(dataset, encoder)

    def with_catalogs(self, files: Iterable[str | os.PathLike[str]]) -> Plan:
        """The plan with the data sets of a user's own catalogs; its own descriptions take precedence."""
        shipped = catalog()
        theirs = {name: entry for name, entry in catalog(*files).items() if name not in shipped}
        return replace(self, declared=theirs | dict(self.declared))

    def __len__(self) -> int:
        return len(self.datasets) * len(self.encoders) * len(self.methods) * len(self.shots) * self.draws


def read_plan(path: str | os.PathLike[str], **changes: Any) -> Plan:
    """Read a plan from a file, or by the name of one in the package; `changes` replace its keys.

    Examples
    --------
    >>> plan = read_plan("demo", draws=2)
    >>> plan.draws, plan.shots
    (2, (1, 2, 4, 8, 16))
    """
    shipped = resources.files(__package__) / "plans" / f"{os.fspath(path)}.toml"
    if Path(path).is_file():
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise PlanError(f"{os.fspath(path)} is not text in UTF-8 ({error}).") from error
    elif shipped.is_file():
        text = shipped.read_text(encoding="utf-8")
    else:
        missing = "there is no file" if os.fspath(path).endswith(".toml") else "there is no plan"
        raise PlanError(f"{missing} {os.fspath(path)!r}: name a .toml file, or one of {', '.join(shipped_plans())}.")
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"{os.fspath(path)} is not TOML: {error}.") from error
    return parse_plan(_renamed(content) | _renamed(changes), os.fspath(path))


def shipped_plans() -> list[str]:
    """Names of the plans in the package."""
    folder = resources.files(__package__) / "plans"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def parse_plan(content: Mapping[str, Any], where: str) -> Plan:
    """Check the content of a plan's file; `where` is the file."""
    content = _renamed(content)
    tables, entries = content.pop("dataset", {}), content.pop("method", ())
    if not isinstance(tables, dict):
        raise PlanError(f"{where}: a data set of the plan's own is a table [dataset.NAME].")
    own = {name: parse_entry(name, table, f"{where}, [dataset.{name}]") for name, table in tables.items()}
    mine = _own_methods(entries, where)
    values = {"name": Path(where).stem, "datasets": [*own], "methods": [*mine], **content, "declared": own}
    for key in ("datasets", "encoders", "methods", "shots", "duplicates"):
        if isinstance(values.get(key), list | tuple):
            values[key] = tuple(word for i, word in enumerate(values[key]) if word not in values[key][:i])
        elif isinstance(values.get(key), str) and key != "duplicates":
            values[key] = (values[key],)
    values["methods"] = _methods(check(values["methods"], tuple[str, ...], f"{where}: methods", PlanError), mine, where)
    if "draws_file" in content:
        path = Path(where).parent / str(content["draws_file"])
        if not path.is_file():
            raise PlanError(f"{where}: draws_file={content['draws_file']!r}: there is no file {path}.")
        values["draws_file"] = str(path)
    return record(Plan, values, where, PlanError)


def _renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the keys of today: plans said `backbones` and `tasks`, and `draws` was the file of draws."""
    old = {"backbones": "encoders", "tasks": "draws"}
    if isinstance(content.get("draws"), str):
        old["draws"] = "draws_file"
    return {old.get(key, key): value for key, value in content.items()}


def _own_methods(entries: Any, where: str) -> dict[str, Method]:
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, dict) for entry in entries):
        raise PlanError(f"{where}: a method of the plan's own is a table [[method]], with two brackets.")
    own: dict[str, Method] = {}
    for entry in entries:
        method = record(Method, entry, f"{where}: method {entry.get('name')!r}", PlanError)
        if method.name in own:
            raise PlanError(f"{where}: there are two [[method]] with the name {method.name!r}.")
        own[method.name] = _made(method, where)
    return own


def _methods(words: tuple[str, ...], own: Mapping[str, Method], where: str) -> tuple[Method, ...]:
    """The methods that a plan names, alone or by the name of a group."""
    shipped = tomllib.loads((resources.files(__package__) / "methods.toml").read_text(encoding="utf-8"))
    known = {name: Method(name, **entry) for name, entry in shipped["methods"].items()} | dict(own)
    groups: dict[str, list[str]] = shipped["groups"]
    chosen: dict[str, Method] = {}
    for word in words:
        base = word if word in known else word.removesuffix(NO_VALIDATION)
        for name in groups.get(base, [base]):
            if name not in known and estimator_named(name) is None:
                raise PlanError(f"{where}: there is no method {name!r}; known are {', '.join([*groups, *known])}.")
            method = known.get(name) or Method(name, estimator=name)
            if base != word:
                method = replace(method, name=name + NO_VALIDATION, validation=False)
            chosen[method.name] = method
    return tuple(chosen.values())


def _made(method: Method, where: str) -> Method:
    """A method of the plan's own. If it cannot be made, it is refused now, not when its first cell runs."""
    try:
        made = replace(method, estimator=named(method.estimator, Path(where).parent))
        make(made.estimator, made.parameters)
    except ValueError as error:
        raise PlanError(f"{where}: method {method.name!r}: {error}") from error
    return made
