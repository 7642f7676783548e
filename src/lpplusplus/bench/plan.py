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
    duplicates = "refuse"                       # copies of an image in two splits: "refuse" or "allow"
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
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from .._core.errors import BriefError
from .._core.model_file import method as estimator_named
from .cell import Cell
from .datasets import Entry, catalog
from .datasets.catalog import parse_entry
from .draws import WORDS
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


@dataclass(frozen=True)
class Method:
    """A method of a plan: a row of the tables."""

    name: str
    estimator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    validation: bool = True


@dataclass(frozen=True)
class Plan:
    """What to run. The fields are the keys of the file, which the module's docstring explains."""

    name: str
    datasets: tuple[str, ...]
    encoders: tuple[str, ...]
    methods: tuple[Method, ...]
    shots: tuple[int, ...]
    draws: int
    validation: str = "paper"
    shortage: str = "fewer"
    generator: str = GENERATOR
    views: int = 0
    duplicates: str = "refuse"
    draws_file: str = ""
    declared: Mapping[str, Entry] = field(default_factory=dict)
    """Data sets that the plan itself, or a user's catalog, describes."""

    @property
    def protocol(self) -> dict[str, Any]:
        """How images are drawn. Newer keys with their defaults are left out, so that old cells stay the same."""
        keys = ("validation", "shortage", "generator", "views")
        found: dict[str, Any] = {key: getattr(self, key) for key in keys}
        if self.draws_file:
            found["draws"] = hashlib.sha256(Path(self.draws_file).read_bytes()).hexdigest()
        if self.duplicates != "refuse":
            found["duplicates"] = self.duplicates
        return found

    def cells(self, dataset: str, encoder: str) -> Iterator[Cell]:
        """All cells of one data set and encoder, draw by draw, so that tables fill evenly."""
        protocol = self.protocol
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
    known = {one.name for one in fields(Plan)} - {"declared"} | {"dataset", "method"}
    unknown = sorted(set(content) - known)
    if unknown:
        raise PlanError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}.")
    tables = content.get("dataset", {})
    if not isinstance(tables, dict):
        raise PlanError(f"{where}: a data set of the plan's own is a table [dataset.NAME].")
    own = {name: parse_entry(name, table, f"{where}, [dataset.{name}]") for name, table in tables.items()}
    keys = _Keys(content, where)
    plan = Plan(
        name=str(content.get("name", Path(where).stem)),
        datasets=keys.words("datasets", tuple(own)),
        encoders=keys.words("encoders"),
        methods=_methods(keys),
        shots=keys.numbers("shots", (1, 2, 4, 8, 16)),
        draws=keys.number("draws", 10, 1),
        validation=keys.choice("validation", WORDS["validation_policy"]),
        shortage=keys.choice("shortage", WORDS["shortage_policy"]),
        generator=keys.choice("generator", WORDS["generator"]),
        views=keys.number("views", 0, 0),
        duplicates=keys.choice("duplicates", ("refuse", "allow")),
        draws_file=_draws_file(content, where),
        declared=own,
    )
    for key in ("datasets", "encoders", "methods"):
        if not getattr(plan, key):
            raise PlanError(f"{where}: {key} is empty: name at least one.")
    return plan


def _renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the keys of today: plans said `backbones` and `tasks`, and `draws` was the file of draws."""
    old = {"backbones": "encoders", "tasks": "draws"}
    if isinstance(content.get("draws"), str):
        old["draws"] = "draws_file"
    return {old.get(key, key): value for key, value in content.items()}


class _Keys:
    """The values of a plan's keys, checked."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self.content, self.where = content, where

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self.content.get(key, default)
        value = (value,) if isinstance(value, str) else value
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise PlanError(f"{self.where}: {key} must be a list of names.")
        return tuple(dict.fromkeys(value))

    def numbers(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        value = self.content.get(key, default)
        if not isinstance(value, list | tuple) or not value or not all(_is_whole(number, 1) for number in value):
            raise PlanError(f"{self.where}: {key} must be a list of whole numbers from 1.")
        return tuple(dict.fromkeys(value))

    def number(self, key: str, default: int, low: int) -> int:
        value = self.content.get(key, default)
        if not _is_whole(value, low):
            raise PlanError(f"{self.where}: {key} must be a whole number from {low}, got {value!r}.")
        return int(value)

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.content.get(key, allowed[0])
        if value not in allowed:
            raise PlanError(f"{self.where}: {key}={value!r} must be one of {', '.join(allowed)}.")
        return str(value)


def _is_whole(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _draws_file(content: Mapping[str, Any], where: str) -> str:
    """Path of the file of draws, relative to the plan's file."""
    if "draws_file" not in content:
        return ""
    path = Path(where).parent / str(content["draws_file"])
    if not path.is_file():
        raise PlanError(f"{where}: draws_file={content['draws_file']!r}: there is no file {path}.")
    return str(path)


def _methods(keys: _Keys) -> tuple[Method, ...]:
    content, where = keys.content, keys.where
    shipped = tomllib.loads((resources.files(__package__) / "methods.toml").read_text(encoding="utf-8"))
    known = {name: _method(name, entry, "methods.toml") for name, entry in shipped["methods"].items()}
    own: dict[str, Method] = {}
    entries = content.get("method", ())
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, dict) for entry in entries):
        raise PlanError(f"{where}: a method of the plan's own is a table [[method]], with two brackets.")
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise PlanError(f"{where}: a [[method]] has no name: give it one, for the tables.")
        if name in own:
            raise PlanError(f"{where}: there are two [[method]] with the name {name!r}.")
        own[name] = _made(_method(name, entry, where), where)
    known |= own
    groups: dict[str, list[str]] = shipped["groups"]
    chosen: dict[str, Method] = {}
    for word in keys.words("methods", tuple(own)):
        base = word if word in known else word.removesuffix(NO_VALIDATION)
        for name in groups.get(base, [base]):
            if name not in known and estimator_named(name) is not None:
                known[name] = Method(name, estimator=name)
            if name not in known:
                raise PlanError(f"{where}: there is no method {name!r}; known are {', '.join([*groups, *known])}.")
            one = known[name] if base == word else replace(known[name], name=name + NO_VALIDATION, validation=False)
            chosen[one.name] = one
    return tuple(chosen.values())


def _method(name: str, entry: Mapping[str, Any], where: str) -> Method:
    unknown = sorted(set(entry) - {"name", "estimator", "parameters", "validation"})
    if unknown or "estimator" not in entry or not name:
        raise PlanError(f"{where}: method {name!r} has keys {sorted(entry)}; expected name, estimator, parameters, "
                        f"validation.")  # fmt: skip
    parameters, validation = entry.get("parameters", {}), entry.get("validation", True)
    if not isinstance(parameters, dict):
        raise PlanError(f"{where}: method {name!r}: parameters must be a table, such as {{ epochs = 20 }}.")
    for key, value in parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(f"{where}: method {name!r}: {key} is {value}, which is not a number.")
    if not isinstance(validation, bool):
        raise PlanError(f"{where}: method {name!r}: validation must be true or false, got {validation!r}.")
    return Method(name, str(entry["estimator"]), dict(parameters), validation)


def _made(method: Method, where: str) -> Method:
    """A method of the plan's own. If it cannot be made, it is refused now, not when its first cell runs."""
    try:
        found = replace(method, estimator=named(method.estimator, Path(where).parent))
        make(found.estimator, found.parameters)
    except ValueError as error:
        raise PlanError(f"{where}: method {method.name!r}: {error}") from error
    return found
