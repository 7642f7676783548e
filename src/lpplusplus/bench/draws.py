"""A draw: which images of a data set a task uses for training, validation and test, and its JSON form.

`draw_task` makes one. A `Draw` that uses one image for two purposes is refused.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._core.errors import BriefError
from .._core.files import atomic_write, canonical_json
from .._core.threads import lazy
from .checking import record
from .datasets import ImageSplits, OverlapError, Part, Splits
from .datasets.description import lines, safe_path
from .sampling import Positions

Validation: TypeAlias = Literal["paper", "coop", "none"]
Shortage: TypeAlias = Literal["fewer", "repeat", "error"]
ValidationSource: TypeAlias = Literal["val", "train", "pool", "none"]
TestSource: TypeAlias = Literal["test", "pool"]
Generator: TypeAlias = Literal["lpplusplus-1", "whurs19-table", "2sfs"]

WHURS19_TABLE = "whurs19-table"
"""Generator of the WHU-RS19 tables: `numpy.random.RandomState(seed)` permutes the pool's images, class by class."""
TWO_STAGE = "2sfs"
"""The public splits of Farina et al. (2025), which `public_draw` reads."""

FORMAT, VERSION = "lpplusplus draw", 1
ROWS = ("support", "validation", "test")


class DrawError(BriefError, ValueError):
    """A task cannot be drawn, or a saved one is damaged or of other data."""


@dataclass(frozen=True, eq=False)
class Draw:
    """The images of one task, and how they were drawn.

    Attributes
    ----------
    dataset, shots, seed, generator
        What was asked for.
    validation_policy
        Validation images per class. "paper": S, as in the LP++ paper. "coop": min(S, 4), as in CoOp. "none".
    shortage_policy
        For a class with fewer images than wanted. "fewer": take all it has. "repeat": draw with replacement, as the
        released LP++ does. "error": refuse.
    validation_source
        The split that `validation` are positions in: "val"; "train" if there is no such split (then none of them is in
        the support); "pool"; or "none".
    test_source
        The split that `test` are positions in: "test" or "pool". `support` are positions in "train" or "pool".
    labels_digest
        SHA-256 of the labels that were drawn from.
    support, validation, test
        Positions, class by class.
    short
        Classes with fewer different images than wanted, for "support" and "validation"; for "test", classes of a pool
        with no test image.
    """

    dataset: str
    shots: Annotated[int, 1]
    seed: Annotated[int, 0]
    generator: Generator
    validation_policy: Validation
    shortage_policy: Shortage
    validation_source: ValidationSource
    test_source: TestSource
    labels_digest: str
    support: Positions
    validation: Positions
    test: Positions
    short: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ROWS:
            object.__setattr__(self, name, _positions(getattr(self, name), f"{self.title}: {name}"))
        short = {name: tuple(_positions(rows, f"{self.title}: short").tolist()) for name, rows in self.short.items()}
        object.__setattr__(self, "short", short)
        if not self.support.size or not self.test.size:
            raise DrawError(f"{self.title}: no image is left for {'test' if self.support.size else 'the support'}.")
        if len(np.unique(self.test)) < len(self.test):
            raise OverlapError(f"{self.title}: test has an image twice.")
        if (self.validation_source == "pool") > (self.test_source == "pool"):
            raise DrawError(f"{self.title}: validation is from a pool, test is not.")
        for one, other in combinations(ROWS, 2):
            common = np.intersect1d(getattr(self, one), getattr(self, other))
            if self.sources[one] == self.sources[other] and common.size:
                where = self.sources[one]
                raise OverlapError(f"{self.title}: image {common[0]} of {where} is in {one} and in {other}.")

    @property
    def sources(self) -> dict[str, str]:
        """The split that `support`, `validation` and `test` are positions in."""
        support = "pool" if self.test_source == "pool" else "train"
        return dict(zip(ROWS, (support, self.validation_source, self.test_source), strict=True))

    @property
    def title(self) -> str:
        """What messages call this draw."""
        return f"{self.dataset}, {self.shots} shots, seed {self.seed}"

    @lazy
    def sha256(self) -> str:
        """SHA-256 of what `as_dict` holds."""
        return hashlib.sha256(canonical_json(self._content()).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON; a test split that is taken whole is written as its size."""
        return {"format": FORMAT, "version": VERSION, **self._content(), "sha256": self.sha256}

    @classmethod
    def from_dict(cls, saved: Any) -> "Draw":
        """A draw from what `as_dict` returned.

        Raises
        ------
        DrawError, OverlapError
            If it is not one, was changed, or gives an image two purposes.
        """
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise DrawError("this is not a draw of lpplusplus.")
        if saved.get("version") != VERSION:
            raise DrawError(f"this draw has version {saved.get('version')!r}, expected {VERSION}: upgrade lpplusplus.")
        content = {key: value for key, value in saved.items() if key not in ("format", "version", "sha256")}
        content |= {"short": content.get("short"), "test": _test_positions(content.get("test"))}
        draw = record(cls, content, "this draw", DrawError)
        if draw.sha256 != saved.get("sha256"):
            raise DrawError(f"{draw.title}: this draw was changed: its checksum does not match. Export it again.")
        return draw

    def check(self, data: Splits[Any]) -> None:
        """Raise `DrawError` unless this was drawn from `data`: same name, same labels in the same order."""
        if self.dataset != data.name:
            raise DrawError(f"{self.title}: this draw is not of {data.name}.")
        labels_train, labels_val, n_test = labels_of(data)
        digest = labels_digest(labels_train, labels_val, n_test)
        if digest != self.labels_digest or (self.test_source == "pool") != data.pool:
            raise DrawError(f"{self.title}: this was drawn from other labels than {data.name} has here, "
                            f"{self.labels_digest[:12]} instead of {digest[:12]}.")  # fmt: skip
        sizes = {"train": len(labels_train), "pool": len(labels_train), "test": n_test or 0, "none": 0,
                 "val": 0 if labels_val is None else len(labels_val)}  # fmt: skip
        for name, source in self.sources.items():
            rows = getattr(self, name)
            if rows.size and rows.max() >= sizes[source]:
                raise DrawError(f"{self.title}: {name} has position {rows.max()} of {sizes[source]} images.")

    def _content(self) -> dict[str, Any]:
        content = {one.name: getattr(self, one.name) for one in fields(self)}
        content |= {name: content[name].tolist() for name in ROWS}
        if self.test_source == "test" and np.array_equal(self.test, np.arange(len(self.test))):
            content["test"] = {"all": len(self.test)}
        return content


def write_draws(path: str | PathLike[str], draws: "Iterable[Draw]") -> None:
    """Export draws to a JSON file."""
    with atomic_write(path) as file:
        file.write(json.dumps([draw.as_dict() for draw in draws]).encode() + b"\n")


def read_draws(path: str | PathLike[str]) -> "list[Draw]":
    """Import draws from a JSON file, each checked as in `Draw.from_dict`."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DrawError(f"{path} cannot be read as draws ({error}).") from error
    if not isinstance(saved, list):
        raise DrawError(f"{path} holds no list of draws.")
    try:
        return [Draw.from_dict(draw) for draw in saved]
    except (DrawError, OverlapError) as error:
        raise type(error)(f"{path}: {error}") from error


def labels_digest(labels_train: ArrayLike, labels_val: ArrayLike | None, n_test: int | None) -> str:
    """SHA-256 of the labels that a draw is made from."""
    digest = hashlib.sha256(f"test {n_test}".encode())
    for labels in (labels_train, labels_val):
        array = np.asarray([] if labels is None else labels, "<i8")
        digest.update(f"\n{labels is not None} {len(array)}\n".encode() + array.tobytes())
    return digest.hexdigest()


def labels_of(data: Splits[Any]) -> tuple[Positions, Positions | None, int | None]:
    """Labels of the training images and of the validation images, and the number of test images."""
    if data.train is None:
        raise DrawError(f"{data.name} is for tests only: draw from the data set that its classifiers learn from.")
    return (
        data.train.labels,
        None if data.val is None else data.val.labels,
        None if data.test is None else len(data.test),
    )


def _positions(given: Any, where: str) -> Positions:
    try:
        rows = np.array(given)
    except ValueError:  # Lists of different lengths.
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= 2**62)):
        raise DrawError(f"{where} must be a list of positions from 0.")
    rows = rows.astype(np.intp)
    rows.flags.writeable = False
    return rows


def _test_positions(test: Any) -> Any:
    """The positions of test images from JSON, where a split that is taken whole is written as its size."""
    if not isinstance(test, dict):
        return test
    if list(test) != ["all"] or type(test["all"]) is not int or not 0 < test["all"] <= 10**7:
        raise DrawError(f"this draw has test {test!r}, expected positions, or how many.")
    return np.arange(test["all"])


def public_draw(data: ImageSplits, root: Path, folder: str, *, shots: int, seed: int, validation: Validation) -> Draw:
    """The task with these shots and seed, checked against the data set's images and labels.

    Parameters
    ----------
    data
        The data set, with CoOp's splits.
    root, folder
        Folder of all data sets, and the folder of this one inside it.
    shots, seed, validation
        Which task; `validation` is "coop" or "none".
    """
    if validation == "paper":
        raise DrawError("the splits of 2SFS have min(S, 4) validation images per class: write validation = 'coop'.")
    labels_train, labels_val, n_test = labels_of(data)
    if n_test is None:
        raise DrawError(f"{data.name} has no test split, which the splits of 2SFS leave to CoOp's file.")
    start = root / folder / "split_fewshot"
    support = _listed(start / f"shot_{shots}-seed_{seed}_train.jsonl", data.part("train"), root)
    held, source = np.empty(0, np.intp), "none"
    if validation == "coop":
        source = "train" if labels_val is None else "val"
        held = _listed(start / f"shot_{shots}-seed_{seed}_val.jsonl", data.part(source), root)
    counts = np.bincount(labels_train[np.unique(support)], minlength=len(data.classes))
    short = tuple(np.flatnonzero(counts < shots).tolist())
    return Draw(
        data.name, shots, seed, TWO_STAGE, validation, "repeat", source, "test",  # type: ignore[arg-type]
        labels_digest(labels_train, labels_val, n_test), support, held, np.arange(n_test),
        {"support": short} if short else {},
    )  # fmt: skip


def _listed(path: Path, part: Part, root: Path) -> Positions:
    """Positions of the listed images in their split, class by class."""
    folder = part.root.relative_to(root).as_posix()
    positions = {f"{folder}/{file}": row for row, file in enumerate(part.files)}
    rows = []
    for number, line in lines(path):
        where = f"{path}, line {number}"
        try:
            item: Any = json.loads(line)
            image, label = safe_path(item["_impath"], where), item["_label"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DrawError(f"{where}: expected an object with _impath and _label ({error}).") from error
        if image not in positions:
            raise DrawError(f"{where}: {image!r} is not an image of the split that it should be from.")
        row = positions[image]
        if type(label) is not int or part.labels[row] != label:
            raise DrawError(f"{where}: {image!r} has label {label!r}, but {part.labels[row]} in the split file.")
        rows.append(row)
    if not rows:
        raise DrawError(f"{path} lists no images.")
    return np.array(sorted(rows, key=lambda row: int(part.labels[row])), np.intp)
