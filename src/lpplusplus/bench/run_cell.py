"""Running one cell: fit on the support and validation images, then predict the test images, once; time and memory."""

import ctypes
import gc
import hashlib
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._core.base import FewShotClassifier
from ..encoders import Encoder, open_encoder
from ..images.embeddings import Embeddings
from ..images.evaluation import evaluate
from ..methods._training import require_torch
from .cell import Cell, EmbeddedDataset, Row
from .draws import Draw
from .estimators import DIGITS, accepted, chances, find, make, softmaxed
from .results import NOT_RECORDED

CODE = "code of lpplusplus"
"""Key in `versions`, and so in a row, of the digest of our methods' code."""
CURVES_OF_SEED = 1
"""Histories are kept for this seed only, for plots; those of all seeds would be most of the file."""


def run_cell(
    cell: Cell,
    data: EmbeddedDataset,
    draw: Draw,
    model: BaseEstimator | None = None,
    *,
    limit: float | None = None,
) -> Row:
    """Fit, measure and test a method; a failure becomes a row with its traceback.

    `model` is the estimator; by default it is made from the cell. After `limit` seconds the cell fails.
    """
    about: dict[str, Any] = {"draw": draw.sha256, "versions": versions()}
    try:
        with time_limit(limit):
            measured = _measured(cell, data, draw, build(cell) if model is None else model)
        return Row(cell, "ok", **measured, **about, finished=time.time())
    except Exception:
        return Row(cell, "failed", **about, traceback=traceback.format_exc(), finished=time.time())


def _measured(cell: Cell, data: EmbeddedDataset, draw: Draw, model: BaseEstimator) -> dict[str, Any]:
    task = data.task(draw)
    support, test = task["support"], task["test"]
    held = task.get("validation") if cell.validation else None
    ours, black_box = isinstance(model, FewShotClassifier), getattr(model, "black_box", True)
    if not black_box and isinstance(model.encoder, str):
        model.set_params(encoder=data.encoder or _opened(cell.encoder), class_names=support.names)
    classes = np.array(support.classes)
    offered = {"text": support.text, "classes": classes.tolist()}
    if held is not None:
        offered |= {"X_val": held.rows, "y_val": classes[held.labels]}
    if not ours:
        offered = accepted(model, offered)
    if getattr(model, "needs_torch", False):
        _warm_up_torch(cell.estimator)
    images = support.X if support.X.shape[1] > 1 else support.X[:, 0]  # With places, each is (1 + places, D).
    with PeakMemory() as memory:
        start = time.perf_counter()
        model.fit(images if ours else support.rows, classes[support.labels], **offered)
        fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    probabilities = _chances(model, test, list(support.classes), data.columns)
    predict_seconds = time.perf_counter() - start
    if not np.isfinite(probabilities).all():
        raise FloatingPointError(f"{cell.method}: probabilities are not finite; a lower learning rate may help.")
    evaluation = evaluate(probabilities, np.asarray(test.labels), list(test.classes))
    validated = "X_val" in offered
    return {
        "accuracy": evaluation.accuracy,
        "calibration_error": evaluation.calibration_error,
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "encode_seconds": data.encode_seconds,
        "peak_mib": memory.mib,
        "selection": selection_of(model),
        "chosen": kept_step(model),
        "parameter_count": getattr(model, "parameter_count_", None),
        "black_box": black_box,
        "support_images": len(support),
        "validation_images": len(held) if held is not None and validated else 0,
        "test_images": len(test),
        "curve": _curve(model) if cell.seed == CURVES_OF_SEED else {},
    }


def _curve(model: BaseEstimator) -> dict[str, list[float]]:
    """The history of a fitted model, if it has one."""
    history = getattr(model, "history_", None)
    curve = {} if history is None else history.as_arrays()
    return {name: [float(x) for x in values if np.isfinite(x)] for name, values in curve.items()}


def _chances(
    model: BaseEstimator, test: Embeddings, classes: list[str], columns: NDArray[np.intp] | None
) -> NDArray[Any]:
    """Probabilities of the classes that test images can have.

    They come from the scores of these classes alone: among all classes, their probabilities may all be 0.
    """
    if not isinstance(model, FewShotClassifier):
        probabilities = chances(model, test.rows, classes)
        return probabilities if columns is None else probabilities[:, columns]
    if columns is None:
        return np.asarray(model.predict_proba(test.rows))
    return softmaxed(np.asarray(model.decision_function(test.rows)), columns)


def warm_up(estimators: set[str]) -> None:
    """Load what these estimators need; then wait, so that each worker gets one of these calls."""
    if any(getattr(find(name), "needs_torch", False) for name in estimators) and find_spec("torch") is not None:
        _warm_up_torch("the benchmark")
    time.sleep(0.5)


@cache
def _opened(encoder: str) -> Encoder:
    """An encoder, opened once in each process: this is not part of the method's time."""
    return open_encoder(encoder)


@cache
def _warm_up_torch(method: str) -> None:
    """Import torch and what its first training loads: these seconds are not part of the method's time."""
    torch = require_torch(method)
    leaf = torch.zeros(2, requires_grad=True)
    for optimiser in (torch.optim.AdamW([leaf], lr=0.1), torch.optim.SGD([leaf], lr=0.1, momentum=0.9)):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(leaf[None], torch.zeros(1, dtype=torch.long)).backward()
        optimiser.step()


def build(cell: Cell) -> BaseEstimator:
    """The estimator of a cell, seeded with the draw's seed."""
    try:
        model = make(cell.estimator, cell.parameters, cell.encoder)
    except ValueError as error:
        raise ValueError(f"method {cell.method!r}: {error}") from error
    return seeded(model, cell.seed, given=cell.parameters)


def seeded(model: BaseEstimator, seed: int, given: Mapping[str, Any]) -> BaseEstimator:
    """The estimator with the task's seed for its random state, unless that is given."""
    if "random_state" not in given and "random_state" in getattr(model, "get_params", dict)():
        model.set_params(random_state=seed)
    return model


def needs_places(cell: Cell) -> bool:
    """Whether the cell's method looks at the places of images."""
    return bool(getattr(find(cell.estimator), "needs_places", False))


def selection_of(model: BaseEstimator) -> str:
    """What a fitted model says that it chose, and on which data; a model that does not say is never assumed to be fair.

    >>> from types import SimpleNamespace
    >>> selection_of(SimpleNamespace(chosen_={"cache weight": "validation", "beta": "validation"}))
    'cache weight, beta by validation'
    >>> selection_of(SimpleNamespace(chosen_={})), selection_of(SimpleNamespace())
    ('nothing chosen', 'not recorded')
    """
    chosen = getattr(model, "chosen_", None)
    if not isinstance(chosen, dict):
        return NOT_RECORDED
    data: dict[str, list[str]] = {}
    for what, decided in chosen.items():
        data.setdefault(str(decided), []).append(str(what))
    return "; ".join(f"{', '.join(names)} by {decided}" for decided, names in data.items()) or "nothing chosen"


def kept_step(model: BaseEstimator) -> float | None:
    """The update, epoch or C of the fitted model."""
    steps = (getattr(model, name, None) for name in ("n_updates_", "epoch_", "C_"))
    return next((float(value) for value in steps if value is not None), None)


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that matter for results, and a digest of the code of our methods."""
    versions_of = {CODE: _code()}
    for package in ("lpplusplus", "numpy", "scipy", "scikit-learn", "torch"):
        try:
            versions_of[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions_of


def _code() -> str:
    """A digest of the source that a method's answers depend on: it may change while the version does not."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for room in ("_core", "methods", "probe", "encoders", "images"):
        for file in sorted((package / room).rglob("*.py")):
            digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]


class PeakMemory:
    """Highest resident memory inside a `with` block, minus the resident memory before it.

    Memory that was freed earlier is given back to the system first. So it counts if the block takes it again.

    Attributes
    ----------
    mib
        In MiB, set at the end of the block; None on systems other than Linux, where it is not known.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     size = len(bytes(range(256)) * 2**17)
    >>> memory.mib is None or memory.mib > 30
    True
    """

    mib: float | None = None
    _before: float | None = None

    def __enter__(self) -> "PeakMemory":
        gc.collect(1)  # Not all generations: that takes longer than a short fit.
        try:
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is what is resident now.
            self._before = _resident("VmRSS")
        except (OSError, AttributeError, TypeError):  # Another C library, another system.
            pass
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            self.mib = max(0.0, _resident("VmHWM") - self._before)


def _resident(name: str) -> float:
    """A line of the process's status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` in the block if it takes longer. A single long call outside of Python is not interrupted.

    It works only in the main thread of a process, where workers run their cells. Elsewhere, and on Windows, which lacks
    the signal, there is no limit.

    Examples
    --------
    >>> import time
    >>> with time_limit(0.05):
    ...     time.sleep(5)
    Traceback (most recent call last):
    TimeoutError: it took longer than 0.05 s.
    """
    able = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    if seconds is None or not able:
        yield
        return

    message, late = f"it took longer than {seconds:g} s.", []

    def stop(*_: object) -> None:
        late.append(True)
        raise TimeoutError(message)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:
        if late:  # The error may have changed on its way: an interrupted import raises ImportError.
            raise TimeoutError(message) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise TimeoutError(message)
