"""Drawing a task: from labels, a number of shots and a seed to the images of support, validation and test.

A draw depends on the data set's name and labels, the shots, the seed and the policies; not on other data sets, other
draws, or what is done with them. The support does not depend on how validation images are drawn. `sampling` says how to
repeat a draw in any language.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .checking import record
from .datasets import Splits
from .draws import (
    TWO_STAGE,
    WHURS19_TABLE,
    Draw,
    DrawError,
    Generator,
    Shortage,
    Validation,
    labels_digest,
    labels_of,
)
from .sampling import GENERATOR, Positions, some, some_repeated, stream, supports


def _named(name: str, where: str) -> None:
    if not name:
        raise DrawError(f"{where} must be text, and not empty.")


@dataclass(frozen=True)
class _Request:
    """What decides a draw besides the images."""

    name: Annotated[str, _named]
    shots: Annotated[int, 1]
    seed: Annotated[int, 0]
    validation: Validation
    shortage: Shortage
    generator: Generator


def draw_task(
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
    generator: Generator = GENERATOR,
) -> Draw:
    """Draw a task.

    Parameters
    ----------
    name
        Name of the data set. Another name gives another draw.
    labels_train
        (n,) class of each training image, from 0; with a pool, classes of all its images.
    labels_val
        (m,) class of each validation image. Without them, validation images are drawn from the training images that
        are not in the support.
    shots
        S, images per class in the support.
    seed
        From 0. Different seeds give different supports, as long as there are enough (see `sampling`).
    n_test
        Number of test images; all of them are taken. None with a pool.
    pool
        Whether all images are one pool: the test images are then those in neither support nor validation.
    validation, shortage
        Policies; see `Draw`.
    classes
        Number of classes; by default the largest label plus 1.
    generator
        "lpplusplus-1"; or "whurs19-table", for a pool with S validation images per class.

    Examples
    --------
    >>> task = draw_task("a set", [0, 0, 0, 1, 1, 1], [0, 0, 1, 1], shots=2, seed=1, n_test=5)
    >>> len(task.support), len(task.validation), task.test.tolist()
    (4, 4, [0, 1, 2, 3, 4])
    """
    given = {"name": name, "shots": shots, "seed": seed}
    given |= {"validation": validation, "shortage": shortage, "generator": generator}
    # int, because the number of supports can be larger than any numpy integer.
    plain = {key: int(value) if isinstance(value, np.integer) else value for key, value in given.items()}
    request = record(_Request, plain, "this draw", DrawError)
    _check_sources(request, pool, labels_val, n_test)
    labels = [_checked(labels_train, "labels_train")]
    labels += [] if labels_val is None else [_checked(labels_val, "labels_val")]
    groups, *val_groups = _by_class(labels, classes, name)
    wanted = {"paper": request.shots, "coop": min(request.shots, 4), "none": 0}[validation]
    support, held, candidates = _drawn(groups, val_groups, wanted, request)
    test = _without(groups, support, held) if pool else [np.arange(n_test or 0)]
    if shortage == "error":
        _refuse_small(test, 1, "test", name)
    short = {"support": _smaller(groups, shots), "validation": _smaller(candidates, wanted), "test": _smaller(test, 1)}
    source = "none" if validation == "none" else "pool" if pool else "val" if val_groups else "train"
    return Draw(
        name, request.shots, request.seed, generator, validation, shortage, source,  # type: ignore[arg-type]
        "pool" if pool else "test", labels_digest(labels_train, labels_val, n_test), np.concatenate(support),
        np.concatenate(held), np.concatenate(test), {part: tuple(which) for part, which in short.items() if which},
    )  # fmt: skip


def draw_from(data: Splits[Any], *, shots: int, seed: int, **policies: Any) -> Draw:
    """Draw a task from a data set; `policies` are `validation`, `shortage` and `generator` of `draw_task`."""
    labels_train, labels_val, n_test = labels_of(data)
    return draw_task(data.name, labels_train, labels_val, shots=shots, seed=seed, n_test=n_test, pool=data.pool,
                     classes=len(data.classes), **policies)  # fmt: skip


def _check_sources(request: _Request, pool: bool, labels_val: Any, n_test: int | None) -> None:
    """Raise unless the images are there that the request draws from."""
    if request.generator == TWO_STAGE:
        raise DrawError(f"tasks of {TWO_STAGE} are not drawn but read from files: use them in a plan.")
    if request.generator == WHURS19_TABLE and (not pool or request.validation != "paper"):
        raise DrawError(f"{WHURS19_TABLE} draws from a pool, with validation 'paper'.")
    if pool and (labels_val is not None or n_test is not None):
        raise DrawError("a pool has neither validation labels nor test images of its own.")
    if not pool and not n_test:
        raise DrawError("n_test, the number of test images, is needed unless all images are one pool.")


_Groups: TypeAlias = list[Positions]
"""The positions of each class."""


def _drawn(
    groups: _Groups, val_groups: list[_Groups], wanted: int, request: _Request
) -> tuple[_Groups, _Groups, _Groups]:
    """Support, validation images, and the images that these were drawn from."""
    if request.generator == WHURS19_TABLE:
        support, held = _whurs19_table(groups, request)
        return support, held, held
    chosen = supports(groups, request.shots, request.name, request.seed)
    support = _with_shortage(chosen, groups, request.shots, "support", request)
    candidates = val_groups[0] if val_groups else _without(groups, support)
    bits = stream(request.name, "validation", request.shots, request.seed)
    held = [some(rows, wanted, bits) for rows in candidates]
    return support, _with_shortage(held, candidates, wanted, "validation", request), candidates


def _with_shortage(chosen: _Groups, groups: _Groups, wanted: int, what: str, request: _Request) -> _Groups:
    """`chosen`, with classes of fewer than `wanted` images treated by the shortage policy."""
    if request.shortage == "error":
        _refuse_small(groups, wanted, what, request.name)
    if request.shortage == "repeat":
        _refuse_small(groups, min(1, wanted), what, request.name)
        bits = stream(request.name, f"repeated {what}", request.shots, request.seed)
        for k in _smaller(groups, wanted):
            chosen[k] = some_repeated(groups[k], wanted, bits)
    return chosen


def _whurs19_table(groups: _Groups, request: _Request) -> tuple[_Groups, _Groups]:
    shots = request.shots
    _refuse_small(groups, 2 * shots + 1, "support, validation and test", request.name)
    if request.seed >= 2**32:
        raise DrawError(f"{WHURS19_TABLE} takes seeds below 2^32, got {request.seed}.")
    random = np.random.RandomState(request.seed)
    shuffled = [random.permutation(rows) for rows in groups]
    return [rows[:shots] for rows in shuffled], [rows[shots : 2 * shots] for rows in shuffled]


def _refuse_small(groups: Sequence[Positions], wanted: int, what: str, name: str) -> None:
    if few := _smaller(groups, wanted):
        listed = ", ".join(map(str, few[:5])) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
        raise DrawError(f"{name}: fewer than {wanted} images for {what} in class {listed}: take fewer shots, or "
                        f"shortage='fewer'.")  # fmt: skip


def _smaller(groups: Sequence[Positions], wanted: int) -> list[int]:
    """Classes with fewer than `wanted` images."""
    return [k for k, rows in enumerate(groups) if len(rows) < wanted]


def _by_class(parts: Sequence[Positions], classes: int | None, name: str) -> list[list[Positions]]:
    """For the labels of each part, the positions of each class."""
    largest = max(int(labels.max(initial=-1)) for labels in parts) + 1
    if classes is not None and classes < largest:
        raise DrawError(f"{name}: labels go up to {largest - 1}, but there are {classes} classes.")
    ends = (np.cumsum(np.bincount(labels, minlength=classes or largest))[:-1] for labels in parts)
    return [np.split(np.argsort(labels, kind="stable"), end) for labels, end in zip(parts, ends, strict=True)]


def _without(groups: Sequence[Positions], *taken: Sequence[Positions]) -> list[Positions]:
    """The images of each class in `groups` that are not in `taken`; `groups` must have all images."""
    free = np.ones(sum(map(len, groups)), bool)
    for rows in taken:
        free[np.concatenate(rows)] = False
    return [rows[free[rows]] for rows in groups]


def _checked(labels: ArrayLike, name: str) -> Positions:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size or array.min() < 0:
        raise DrawError(f"{name} must be whole numbers from 0, one for each image; found {array.dtype} {array.shape}.")
    return array.astype(np.intp)
