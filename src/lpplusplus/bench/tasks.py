"""Tasks: which images are learned from, which choose the model, and which only test it.

A draw depends on the data set's name and labels, the number of shots, the seed and the policies; not on other data
sets, other draws, or what is done with them. The support does not depend on how validation images are drawn. `choosing`
says how to repeat a draw in any language. A `Draw` in which one image has two purposes cannot be made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..persistence import atomic_write
from .choosing import GENERATOR, Rows, some, some_repeated, stream, supports
from .datasets import FeatureSet, OverlapError, Splits

Validation: TypeAlias = Literal["paper", "coop", "none"]
Shortage: TypeAlias = Literal["fewer", "repeat", "error"]
ValidationSource: TypeAlias = Literal["val", "train", "pool", "none"]
TestSource: TypeAlias = Literal["test", "pool"]

WHURS19_TABLE = "whurs19-table"
"""Generator of the WHU-RS19 table: `numpy.random.RandomState(seed)` permutes the pool's images, class by class."""

FORMAT, VERSION = "lpplusplus draw", 1
ROWS = ("support", "validation", "test")
WORDS: dict[str, tuple[str, ...]] = {
    "generator": (GENERATOR, WHURS19_TABLE),
    "validation_policy": get_args(Validation),
    "shortage_policy": get_args(Shortage),
    "validation_source": get_args(ValidationSource),
    "test_source": get_args(TestSource),
}
"""Fields of a `Draw` that are one of a few words."""


class DrawError(ValueError):
    """A task cannot be drawn, or a saved one is damaged or of other data."""


@dataclass(frozen=True, eq=False)
class Draw:
    """The images of one task, and how they were drawn.

    Attributes
    ----------
    dataset, shots, seed, generator
        What was asked for.
    validation_policy
        "paper": S images a class, as the LP++ paper has; "coop": min(S, 4), as CoOp has; "none".
    shortage_policy
        For a class with fewer images than wanted. "fewer": take all it has. "repeat": draw as many as wanted with
        replacement, as the released LP++ does. "error": refuse.
    validation_source
        What `validation` are positions in: "val"; "train" where there is no such split, and then none of them is in the
        support; "pool"; or "none".
    test_source
        What `test` are positions in: "test", or "pool", and then the support's are, too, instead of in train.
    labels_digest
        SHA-256 of the labels that were drawn from.
    support, validation, test
        Positions, class by class.
    short
        Classes with fewer different images than wanted, by "support", "validation" and (in a pool, with none) "test".
    """

    dataset: str
    shots: int
    seed: int
    generator: str
    validation_policy: Validation
    shortage_policy: Shortage
    validation_source: ValidationSource
    test_source: TestSource
    labels_digest: str
    support: Rows
    validation: Rows
    test: Rows
    short: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ROWS:
            object.__setattr__(self, name, _positions(getattr(self, name), f"{self.title}: {name}"))
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
        """What the positions of `support`, `validation` and `test` are in."""
        support = "pool" if self.test_source == "pool" else "train"
        return dict(zip(ROWS, (support, self.validation_source, self.test_source), strict=True))

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.dataset}, {self.shots} shots, seed {self.seed}"

    @cached_property
    def sha256(self) -> str:
        """Of all that `as_dict` holds."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON; a test split that is taken whole is written as its size."""
        return {"format": FORMAT, "version": VERSION, **self._content(), "sha256": self.sha256}

    @classmethod
    def from_dict(cls, saved: Any) -> Draw:
        """A draw that `as_dict` wrote.

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
        try:
            found = cls(**_checked(content))
        except (TypeError, KeyError) as error:
            raise DrawError(f"this draw is damaged ({error}).") from error
        if found.sha256 != saved.get("sha256"):
            raise DrawError(f"{found.title}: this draw was changed: its checksum does not match. Export it again.")
        return found

    def check(self, data: Splits | FeatureSet) -> None:
        """Raise `DrawError` unless this was drawn from `data`: same name, same labels in the same order."""
        if self.dataset != data.name:
            raise DrawError(f"{self.title}: this draw is not of {data.name}.")
        labels_train, labels_val, n_test = _labels(data)
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
        whole = self.test_source == "test" and np.array_equal(self.test, np.arange(len(self.test)))
        words = {name: getattr(self, name) for name in ("dataset", "shots", "seed", *WORDS, "labels_digest")}
        return {
            **words,
            "support": self.support.tolist(),
            "validation": self.validation.tolist(),
            "test": {"all": len(self.test)} if whole else self.test.tolist(),
            "short": {name: list(classes) for name, classes in self.short.items()},
        }


def draw(
    name: str,
    labels_train: ArrayLike,
    labels_val: ArrayLike | None = None,
    *,
    shots: int,
    seed: int,
    n_test: int | None = None,
    pool: bool = False,
    validation: Validation = "paper",
    shortage: Shortage = "fewer",
    classes: int | None = None,
    generator: str = GENERATOR,
) -> Draw:
    """Draw a task.

    Parameters
    ----------
    name
        The data set's: another name, another draw.
    labels_train
        (n,) class of each training image, from 0; of each image of the pool if there is one.
    labels_val
        (m,) class of each validation image; without, they are drawn from the training images that are not support.
    shots
        S, images a class in the support.
    seed
        From 0. The supports of different seeds differ, as long as there are enough of them (see `choosing`).
    n_test
        How many test images there are, all of which are taken; None with a pool.
    pool
        Whether there is one pool: what is neither support nor validation is test.
    validation, shortage
        Policies; see `Draw`.
    classes
        How many classes there are; up to the largest label unless told.
    generator
        "lpplusplus-1", or "whurs19-table" to repeat that table: a pool, with S validation images.

    Examples
    --------
    >>> task = draw("a set", [0, 0, 0, 1, 1, 1], [0, 0, 1, 1], shots=2, seed=1, n_test=5)
    >>> len(task.support), len(task.validation), task.test.tolist()
    (4, 4, [0, 1, 2, 3, 4])
    """
    _check_question(name, shots, seed, validation, shortage, generator)
    shots, seed = int(shots), int(seed)  # Numbers of supports are beyond what numpy's integers hold.
    train, val = _class_labels(labels_train, "labels_train"), None
    if labels_val is not None:
        val = _class_labels(labels_val, "labels_val")
    if pool and (val is not None or n_test is not None):
        raise DrawError("a pool has neither validation labels nor test images of its own.")
    if not pool and not n_test:
        raise DrawError("n_test, the number of test images, is needed unless all images are one pool.")
    largest = max(int(labels.max(initial=-1)) for labels in (train, val) if labels is not None) + 1
    if classes is not None and classes < largest:
        raise DrawError(f"{name}: labels go up to {largest - 1}, but there are {classes} classes.")
    groups = _by_class(train, classes or largest)
    held_groups = None if val is None else _by_class(val, classes or largest)
    wanted = {"paper": shots, "coop": min(shots, 4), "none": 0}[validation]
    source: ValidationSource = "none" if validation == "none" else "pool" if pool else "train" if val is None else "val"
    if generator == WHURS19_TABLE:
        if not pool or validation != "paper":
            raise DrawError(f"{WHURS19_TABLE} draws from a pool, with validation 'paper'.")
        support, held = _whurs19_table(groups, shots, seed, name)
        left = held
    else:
        support = _support(groups, shots, seed, name, shortage)
        left = held_groups or _without(groups, support)
        held = _validation(left, wanted, name, shots, seed, shortage)
    test = _without(groups, support, held) if pool else [np.arange(n_test or 0)]
    if generator == GENERATOR and pool and shortage == "error" and not all(map(len, test)):
        raise DrawError(_too_few(name, "test", 1, [k for k, rows in enumerate(test) if not len(rows)]))
    short = {
        "support": [k for k, rows in enumerate(groups) if len(rows) < shots],
        "validation": [k for k, rows in enumerate(left) if len(rows) < wanted],
        "test": [k for k, rows in enumerate(test) if not len(rows)],
    }
    return Draw(
        name, shots, seed, generator, validation, shortage, source, "pool" if pool else "test",
        labels_digest(train, val, n_test), np.concatenate(support), np.concatenate(held), np.concatenate(test),
        {part: tuple(which) for part, which in short.items() if which},
    )  # fmt: skip


def draw_from(
    data: Splits | FeatureSet,
    *,
    shots: int,
    seed: int,
    validation: Validation = "paper",
    shortage: Shortage = "fewer",
    generator: str = GENERATOR,
) -> Draw:
    """Draw a task from a data set; see `draw`."""
    labels_train, labels_val, n_test = _labels(data)
    return draw(data.name, labels_train, labels_val, shots=shots, seed=seed, n_test=n_test, pool=data.pool,
                validation=validation, shortage=shortage, classes=len(data.classes), generator=generator)  # fmt: skip


def write_draws(path: str | PathLike[str], draws: Iterable[Draw]) -> None:
    """Export draws to a JSON file."""
    with atomic_write(path) as file:
        file.write(json.dumps([one.as_dict() for one in draws], indent=None).encode() + b"\n")


def read_draws(path: str | PathLike[str]) -> list[Draw]:
    """Import draws from a JSON file, each checked as in `Draw.from_dict`."""
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DrawError(f"{path} cannot be read as draws ({error}).") from error
    if not isinstance(saved, list):
        raise DrawError(f"{path} holds no list of draws.")
    return [Draw.from_dict(one) for one in saved]


def labels_digest(labels_train: ArrayLike, labels_val: ArrayLike | None, n_test: int | None) -> str:
    """SHA-256 of what a draw is made from, besides names and numbers."""
    digest = hashlib.sha256(f"test {n_test}".encode())
    for labels in (labels_train, labels_val):
        array = np.asarray([] if labels is None else labels, "<i8")
        digest.update(f"\n{labels is not None} {len(array)}\n".encode() + array.tobytes())
    return digest.hexdigest()


def _support(groups: list[Rows], shots: int, seed: int, name: str, shortage: Shortage) -> list[Rows]:
    few = [k for k, rows in enumerate(groups) if len(rows) < shots]
    _refuse_shortage(few, groups, shots, name, "support", shortage)
    chosen = supports(groups, shots, name, seed)
    if shortage == "repeat":
        bits = stream(name, "repeated support", shots, seed)
        for k in few:
            chosen[k] = some_repeated(groups[k], shots, bits)
    return chosen


def _validation(groups: list[Rows], wanted: int, name: str, shots: int, seed: int, shortage: Shortage) -> list[Rows]:
    few = [k for k, rows in enumerate(groups) if len(rows) < wanted]
    _refuse_shortage(few, groups, wanted, name, "validation", shortage)
    bits = stream(name, "validation", shots, seed)
    chosen = [some(rows, wanted, bits) for rows in groups]
    if shortage == "repeat":
        bits = stream(name, "repeated validation", shots, seed)
        for k in few:
            chosen[k] = some_repeated(groups[k], wanted, bits)
    return chosen


def _whurs19_table(groups: list[Rows], shots: int, seed: int, name: str) -> tuple[list[Rows], list[Rows]]:
    few = [k for k, rows in enumerate(groups) if len(rows) <= 2 * shots]
    if few:
        raise DrawError(_too_few(name, "support, validation and test", 2 * shots + 1, few))
    if seed >= 2**32:
        raise DrawError(f"{WHURS19_TABLE} takes seeds below 2^32, got {seed}.")
    random = np.random.RandomState(seed)
    shuffled = [random.permutation(rows) for rows in groups]
    return [rows[:shots] for rows in shuffled], [rows[shots : 2 * shots] for rows in shuffled]


def _refuse_shortage(few: list[int], groups: list[Rows], wanted: int, name: str, what: str, shortage: Shortage) -> None:
    none = [k for k in few if not len(groups[k])]
    if few and shortage == "error":
        raise DrawError(_too_few(name, what, wanted, few))
    if none and shortage == "repeat":
        raise DrawError(_too_few(name, what, 1, none))


def _too_few(name: str, what: str, wanted: int, few: list[int]) -> str:
    more = f" and {len(few) - 5} more" if len(few) > 5 else ""
    listed = ", ".join(map(str, few[:5]))
    return (
        f"{name}: fewer than {wanted} images for {what} in class {listed}{more}: take fewer shots, or shortage='fewer'."
    )


def _by_class(labels: Rows, classes: int) -> list[Rows]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=classes))[:-1])


def _without(groups: Sequence[Rows], *taken: Sequence[Rows]) -> list[Rows]:
    """What is left of all images; `groups` must be all of them."""
    free = np.ones(sum(map(len, groups)), bool)
    for rows in taken:
        free[np.concatenate(rows)] = False
    return [rows[free[rows]] for rows in groups]


def _labels(data: Splits | FeatureSet) -> tuple[Rows, Rows | None, int | None]:
    if data.train is None:
        raise DrawError(f"{data.name} is for tests only: draw from the data set that its classifiers learn from.")
    return (
        data.train.labels,
        None if data.val is None else data.val.labels,
        None if data.test is None else len(data.test),
    )


def _class_labels(labels: ArrayLike, name: str) -> Rows:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size or array.min() < 0:
        raise DrawError(f"{name} must be whole numbers from 0, one for each image; found {array.dtype} {array.shape}.")
    return array.astype(np.intp)


def _check_question(name: Any, shots: Any, seed: Any, validation: Any, shortage: Any, generator: Any) -> None:
    if not isinstance(name, str) or not name:
        raise DrawError(f"the data set's name must be text, got {name!r}.")
    for what, value, least in (("shots", shots, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise DrawError(f"{what} must be a whole number from {least}, got {value!r}.")
    given = {"validation_policy": validation, "shortage_policy": shortage, "generator": generator}
    for what, value in given.items():
        if value not in WORDS[what]:
            raise DrawError(f"{what.removesuffix('_policy')} must be one of {', '.join(WORDS[what])}, got {value!r}.")


def _positions(given: Any, where: str) -> Rows:
    try:
        rows = np.array(given)
    except ValueError:  # Lists of different lengths.
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= 2**62)):
        raise DrawError(f"{where} must be a list of positions from 0.")
    rows = rows.astype(np.intp)
    rows.flags.writeable = False
    return rows


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """Fields of a draw from JSON, with every type checked: a checksum guards against accidents, not strangers."""
    _check_question(content["dataset"], content["shots"], content["seed"], content["validation_policy"],
                    content["shortage_policy"], content["generator"])  # fmt: skip
    for name, allowed in WORDS.items():
        if content[name] not in allowed:
            raise DrawError(f"this draw has {name} {content[name]!r}, expected one of {', '.join(allowed)}.")
    if type(content["labels_digest"]) is not str or not isinstance(content["short"], dict):
        raise DrawError("this draw is damaged: it has no digest of labels, or no list of short classes.")
    short = {name: tuple(_positions(rows, f"short, {name}").tolist()) for name, rows in content["short"].items()}
    test = content["test"]
    if isinstance(test, dict):
        if list(test) != ["all"] or type(test["all"]) is not int or not 0 < test["all"] <= 10**7:
            raise DrawError(f"this draw has test {test!r}, expected positions, or how many.")
        test = np.arange(test["all"])
    return {**content, "test": test, "short": short}
