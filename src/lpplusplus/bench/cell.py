"""Running one cell: fit on support and validation, then, and only then, look at the test images."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lpplusplus

from .. import _arrays
from ..base import FewShotClassifier
from ..encoders import Encoder, open_encoder
from ..evaluation import evaluate
from ..methods.finetuning import require_torch
from .results import Cell, Row

Matrix = NDArray[Any]
CURVES_OF_SEED = 1
"""Histories are kept for one task of each kind, to plot; a thousand of them would be the bulk of the file."""


@dataclass(frozen=True)
class Examples:
    """Some embedded images with class indices."""

    X: Matrix
    y: NDArray[np.intp]

    def __getitem__(self, rows: NDArray[np.intp]) -> Examples:
        return Examples(self.X[rows], self.y[rows])

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class TaskData:
    """What one task consists of."""

    support: Examples
    validation: Examples | None
    test: Examples
    text: Matrix | None
    classes: tuple[str, ...]
    names: tuple[str, ...]
    """What prompts call the classes."""
    encode_seconds: float | None
    draw: str
    columns: NDArray[np.intp] | None = None
    """Classes that the test images can have, where they are not all; labels of `test` are positions in it."""


def run_cell(cell: Cell, task: TaskData) -> Row:
    """Fit, time, test; a failure becomes a row with its traceback."""
    try:
        return _run(cell, task)
    except Exception:
        return Row(
            cell, "failed", draw=task.draw, versions=versions(), traceback=traceback.format_exc(), finished=time.time()
        )


def _run(cell: Cell, task: TaskData) -> Row:
    model = build(cell)
    if model.black_box:
        names = np.array(task.classes)
    else:
        model.set_params(encoder=_open_clip(cell.backbone))
        model.refuse_twins = False  # The authors train with ImageNet's, too.
        names = np.array(_different(task.names))
    extra: dict[str, Any] = {}
    held = task.validation if cell.validation else None
    if held is not None:
        extra = {"X_val": held.X, "y_val": names[held.y]}
    if model.needs_torch:
        _warm_up_torch(cell.estimator)
    with peak_memory() as memory:
        start = time.perf_counter()
        model.fit(task.support.X, names[task.support.y], text=task.text, classes=names.tolist(), **extra)
        fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    chances = np.asarray(_chances(model, task))
    predict_seconds = time.perf_counter() - start
    if not np.isfinite(chances).all():
        raise FloatingPointError(f"{cell.method}: probabilities are not finite; a lower learning rate may help.")
    labels = list(task.classes) if task.columns is None else [task.classes[k] for k in task.columns]
    found = evaluate(chances, task.test.y, labels)
    history = getattr(model, "history_", None)
    curve = history.as_arrays() if history is not None and cell.seed == CURVES_OF_SEED else {}
    selection, chosen = choice(model, held is not None)
    return Row(
        cell,
        "ok",
        accuracy=found.accuracy,
        calibration_error=found.calibration_error,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        encode_seconds=task.encode_seconds,
        peak_mib=memory[0],
        selection=selection,
        chosen=chosen,
        parameter_count=model.parameter_count_,
        black_box=model.black_box,
        support_images=len(task.support),
        validation_images=0 if held is None else len(held),
        test_images=len(task.test),
        draw=task.draw,
        curve={name: [float(x) for x in values if np.isfinite(x)] for name, values in curve.items()},
        versions=versions(),
        finished=time.time(),
    )


def _chances(model: FewShotClassifier, task: TaskData) -> Any:
    """Probabilities of the classes that test images can have.

    From their own scores, since next to a class that is out of the question all of them may have vanished.
    """
    if task.columns is None:
        return model.predict_proba(task.test.X)
    z = np.ascontiguousarray(np.asarray(model._logits(model._ready(task.test.X)))[:, task.columns])
    _arrays.softmax(z, out=z)
    return z


def warm_up(estimators: set[str]) -> None:
    """Load what these estimators need, and wait long enough that every worker gets its share of such calls."""
    kinds = [getattr(lpplusplus, name, None) for name in estimators]
    if any(getattr(kind, "needs_torch", False) for kind in kinds) and find_spec("torch") is not None:
        _warm_up_torch("the benchmark")
    time.sleep(0.5)


@cache
def _open_clip(backbone: str) -> Encoder:
    """An encoder with a text tower, opened once in each process: that is not the method's time either."""
    return open_encoder(backbone)


def _different(names: tuple[str, ...]) -> list[str]:
    """Class names as labels, which must differ; ImageNet has two names twice. A space at the end changes no prompt."""
    return [name + " " * names[:position].count(name) for position, name in enumerate(names)]


@cache
def _warm_up_torch(method: str) -> None:
    """Import torch and the parts that its first training loads: seconds that are not the method's."""
    torch = require_torch(method)
    leaf = torch.zeros(2, requires_grad=True)
    for optimiser in (torch.optim.AdamW([leaf], lr=0.1), torch.optim.SGD([leaf], lr=0.1, momentum=0.9)):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(leaf[None], torch.zeros(1, dtype=torch.long)).backward()
        optimiser.step()


def build(cell: Cell) -> FewShotClassifier:
    """The estimator of a cell, seeded with the task's seed."""
    kind = getattr(lpplusplus, cell.estimator, None)
    if not (isinstance(kind, type) and issubclass(kind, FewShotClassifier)):
        raise ValueError(f"method {cell.method!r}: lpplusplus has no estimator {cell.estimator!r}.")
    known = kind._get_param_names()
    parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in cell.parameters.items()}
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"method {cell.method!r}: {cell.estimator} has no parameter {unknown[0]!r}.")
    if "random_state" in known:
        parameters.setdefault("random_state", cell.seed)
    if "encoder" in known:
        parameters.setdefault("encoder", cell.backbone)
    model: FewShotClassifier = kind(**parameters)
    return model


def needs_tokens(cell: Cell) -> bool:
    """Whether the cell's method looks at the places of images."""
    return bool(getattr(getattr(lpplusplus, cell.estimator, None), "needs_tokens", False))


def choice(model: FewShotClassifier, validated: bool) -> tuple[str, float | None]:
    """How a fitted model chose, and what: an update, an epoch, a C."""
    given = "validation" if validated else "no validation"
    for attribute, what in (("n_updates_", "update"), ("epoch_", "epoch"), ("C_", "C")):
        if hasattr(model, attribute):
            return f"{what} by {getattr(model, 'selection_', given)}", float(getattr(model, attribute))
    return "nothing to choose", None


@cache
def versions() -> dict[str, str]:
    """What was installed."""
    found = {}
    for package in ("lpplusplus", "numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Highest resident memory inside the block less that before it, in MiB; zero where /proc does not tell."""
    result = [0.0]
    before = _resident()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            result[0] = max(result[0], _resident() - before)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield result
    finally:
        done.set()
        thread.join()
        result[0] = max(result[0], _resident() - before)


def _resident() -> float:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError):
        return 0.0
