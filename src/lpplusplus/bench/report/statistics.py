"""Statistics over rows of a benchmark: per data set, and over data sets.

Accuracies are in percent here. Two spreads are kept apart: the standard deviation of the tasks (ddof = 1), and the
half width of the 95 % interval of their mean, t(0.975, n-1) std/√n by Student's t distribution. Both need two tasks
and are None otherwise. Averages over data sets never hide a gap: a set is included only if all its tasks have
succeeded, and the sets left out are named.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.stats import t as student

from ...probe.recipes import without_options
from ...probe.solvers import SOLVERS, Solver, from_json
from ..cell import Cell
from ..published import CYCLES, MAIN, METHODS, OPTIMISERS, STANDARD_LOSS, STARTS
from ..results import Row

CONFIDENCE = 0.95
_Key = tuple[str, str, str, int]
"""Data set, encoder, method, shots."""
_Some = TypeVar("_Some", "Score", "Average")


@dataclass(frozen=True)
class Score:
    """All tasks of one data set, encoder, method and number of shots."""

    dataset: str
    encoder: str
    method: str
    shots: int
    seeds: tuple[int, ...]
    """Tasks that succeeded."""
    missing: tuple[int, ...]
    """Tasks that are expected but not done: they failed, were planned but not run, or other methods have them."""
    accuracies: tuple[float, ...] = ()
    """In percent, in the order of `seeds`."""
    mean: float | None = None
    deviation: float | None = None
    """Standard deviation of the tasks, ddof = 1."""
    interval: float | None = None
    """Half width of the 95 % interval of the mean, by Student's t."""
    calibration_error: float | None = None
    """Mean over tasks, in percent."""
    fit_seconds: float | None = None
    """Median over tasks; so are the other times and the memory."""
    predict_seconds: float | None = None
    encode_seconds: float | None = None
    peak_mib: float | None = None
    parameter_count: int | None = None
    """Largest over the tasks."""
    black_box: bool = True
    start_loss: float | None = None
    """Mean over tasks of the loss before any update, if a curve was kept."""
    learning_rate: float | None = None
    """The parameter of that name, if it is a number."""

    @property
    def tasks(self) -> int:
        """Number of tasks that succeeded."""
        return len(self.seeds)

    @property
    def complete(self) -> bool:
        """Whether there is a figure and no task is missing."""
        return bool(self.seeds) and not self.missing


@dataclass(frozen=True)
class Average:
    """One encoder, method and number of shots over the data sets that are complete."""

    encoder: str
    method: str
    shots: int
    datasets: tuple[str, ...]
    missing: tuple[Score, ...]
    """Data sets left out, with what they lack."""
    mean: float | None = None
    """Mean of the sets' means."""
    deviation: float | None = None
    """Root mean square of the sets' standard deviations."""
    interval: float | None = None
    """Root mean square of the sets' 95 % half widths, as the ± of the paper's averages."""
    interval_of_average: float | None = None
    """Half width of the average itself: the sets' tasks are independent, so it is `interval` over √sets."""
    fit_seconds: float | None = None
    """Geometric mean of the sets' medians."""
    start_loss: float | None = None
    learning_rate: float | None = None
    seeds: tuple[int, ...] = ()
    """Tasks that all these sets have."""
    accuracies: tuple[float, ...] = ()
    """Mean over the sets of each of these tasks, in percent."""

    @property
    def complete(self) -> bool:
        """Whether every data set entered."""
        return bool(self.datasets) and not self.missing


def half_width(values: Sequence[float]) -> float | None:
    """Half width of the 95 % interval of a mean by Student's t; None for fewer than two values.

    >>> round(half_width([1.0, 2.0, 3.0]), 4)
    2.4841
    """
    n = len(values)
    if n < 2:
        return None
    return float(student.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))


def leads(one: Score | Average, other: Score | Average) -> bool:
    """Whether one is significantly better than another: paired t test over the tasks that both have, at 5 %.

    >>> one = Score("birds", "rn50", "A", 1, seeds=(1, 2, 3), missing=(), accuracies=(80.0, 70.0, 60.0))
    >>> other = replace(one, accuracies=(79.0, 68.9, 59.1))
    >>> leads(one, other), leads(other, one), leads(one, one)
    (True, False, False)
    """
    theirs = dict(zip(other.seeds, other.accuracies, strict=True))
    differences = [mine - theirs[seed] for seed, mine in zip(one.seeds, one.accuracies, strict=True) if seed in theirs]
    width = half_width(differences)
    return width is not None and float(np.mean(differences)) > width


def summarise(rows: Iterable[Row], failed: Iterable[Row] = (), planned: Iterable[Cell] = ()) -> list[Score]:
    """Summarise rows by data set, encoder, method and shots.

    Each score is expected to have the tasks that were planned for it. Without a plan, it is expected to have every seed
    that any other score of the same encoder and shots has; ablations and the main comparison are treated separately.
    Rows that share a name but not their parameters are not mixed: see `distinct`.
    """
    wanted = list(planned)
    good = [row for row in rows if row.status == "ok" and row.accuracy is not None]
    cells = [row.cell for row in good] + [row.cell for row in failed] + wanted
    names = distinct(cells)

    def key_of(cell: Cell) -> _Key:
        return cell.dataset, cell.encoder, names[cell.key], cell.shots

    seeds: dict[tuple[object, ...], set[int]] = {}
    groups: dict[_Key, list[Row]] = {}
    rates: dict[_Key, float | None] = {}
    for cell in cells:
        key = key_of(cell)
        groups.setdefault(key, [])
        rates.setdefault(key, rate_of(cell))
        seeds.setdefault(key if wanted else _company(key, rates[key]), set()).add(cell.seed)
    for row in good:
        groups[key_of(row.cell)].append(row)
    found = [
        _score(key, members, seeds[key if wanted else _company(key, rates[key])], rates[key])
        for key, members in groups.items()
    ]
    sets = keys_of(found, "dataset")
    return _sorted(found, lambda one: sets.index(one.dataset))


def average(scores: Iterable[Score], *, together: bool = False) -> list[Average]:
    """Average over data sets, for each encoder, method and number of shots.

    A data set is missing for a method if any other method of that encoder has it. Ablations are compared only among
    themselves, or with all others if `together`.
    """
    found = list(scores)
    sets: dict[tuple[str, bool], dict[str, None]] = {}
    seeds: dict[tuple[str, bool, int], set[int]] = {}
    for one in found:
        main = together or is_main(one)
        sets.setdefault((one.encoder, main), {})[one.dataset] = None
        seeds.setdefault((one.encoder, main, one.shots), set()).update(one.seeds, one.missing)
    by_key = {(one.encoder, one.method, one.shots, one.dataset): one for one in found}
    averages = []
    for encoder, method, shots, main in dict.fromkeys(
        (one.encoder, one.method, one.shots, together or is_main(one)) for one in found
    ):
        nothing = Score("", encoder, method, shots, (), tuple(sorted(seeds[encoder, main, shots])))
        members = [
            by_key.get((encoder, method, shots, name), replace(nothing, dataset=name)) for name in sets[encoder, main]
        ]
        averages.append(_average(encoder, method, shots, members))
    return _sorted(averages)


def distinct(cells: Iterable[Cell]) -> dict[str, str]:
    """The name of each cell's method, by the cell's key.

    It is the name in the plan. Rows of one encoder and method with different settings, or of one data set with
    different descriptions, get a number behind it, so that no mean is taken over them. The same number means the same
    settings in all data sets and at all numbers of shots.
    """
    variants: dict[tuple[str, ...], list[str]] = {}

    def number(group: tuple[str, ...], settings: object) -> int:
        known = variants.setdefault(group, [])
        text = json.dumps(settings, sort_keys=True)
        if text not in known:
            known.append(text)
        return known.index(text) + 1

    names = {}
    for cell in cells:
        given = {key: value for key, value in cell.parameters.items() if key != "random_state"}
        protocol = dict(cell.protocol)
        data = number((cell.dataset, cell.encoder), protocol.pop("data", None))
        variant = number((cell.encoder, cell.method, ""), [cell.estimator, given, cell.validation, protocol])
        names[cell.key] = (
            cell.method + (f" (variant {variant})" if variant > 1 else "") + (f" (data {data})" if data > 1 else "")
        )
    return names


def is_main(one: Score | Average) -> bool:
    """Whether it belongs to the comparison, rather than to an ablation or a sweep of learning rates."""
    return _is_main(one.method, one.learning_rate)


def plan_name(method: str) -> str:
    """A method's name without the numbers that `distinct` put behind it."""
    return re.sub(r"( \((variant|data) \d+\))+$", "", method)


def rate_of(cell: Cell) -> float | None:
    """The learning rate of a cell of LP++ that sets it to a number; None for other methods, which always have one."""
    if cell.estimator != "LPPlusPlus":
        return None
    rate = getattr(solver_of(cell), "learning_rate", None)
    return None if rate is None or isinstance(rate, str) else float(rate)


def solver_of(cell: Cell) -> Solver | None:
    """The solver that a cell of LP++ names, with its options; None if it is the recipe's own, or unknown."""
    given = cell.parameters
    try:
        solver = without_options({**given, "solver": from_json(given.get("solver"))}).get("solver")
    except (ValueError, TypeError, KeyError):  # The parameters of a cell that failed.
        return None
    return SOLVERS[solver]() if solver in SOLVERS else solver if isinstance(solver, Solver) else None


def keys_of(things: Iterable[object], name: str) -> list[str]:
    """The different values of an attribute, in order of first appearance."""
    return list(dict.fromkeys(getattr(thing, name) for thing in things))


def in_order(methods: Iterable[str]) -> list[str]:
    """The paper's methods in its order, then others as they come.

    >>> in_order(["Mine", "LP++ (paper)", "Zero-shot"])
    ['Zero-shot', 'LP++ (paper)', 'Mine']
    """
    known = {name: position for position, name in enumerate(dict.fromkeys([*MAIN, *METHODS]))}
    return sorted(methods, key=lambda name: known.get(name, len(known)))


def in_shots(n: int) -> str:
    """1 shot, 2 shots."""
    return f"{n} shot{'s' * (n != 1)}"


def on_sets(sets: Sequence[str]) -> str:
    """The data sets of an accuracy, in words."""
    return sets[0] if len(sets) == 1 else f"average of {len(sets)} data sets"


def _is_main(method: str, rate: float | None) -> bool:
    name = plan_name(method)
    if name in MAIN:
        return True
    ablation = name in {*STARTS, *CYCLES, *OPTIMISERS} or name.endswith(STANDARD_LOSS)
    return not ablation and rate is None


def _sorted(found: list[_Some], position: Callable[[_Some], int] = lambda one: 0) -> list[_Some]:
    """By encoder, by `position`, by method in the paper's order and by shots."""
    encoders, methods = keys_of(found, "encoder"), in_order(keys_of(found, "method"))
    return sorted(
        found, key=lambda one: (encoders.index(one.encoder), position(one), methods.index(one.method), one.shots)
    )


def _company(key: _Key, rate: float | None) -> tuple[object, ...]:
    """A key: scores with the same key are expected to have the same tasks."""
    _, encoder, method, shots = key
    return encoder, shots, _is_main(method, rate)


def _score(key: _Key, rows: list[Row], expected: set[int], rate: float | None) -> Score:
    rows = sorted(rows, key=lambda row: row.cell.seed)
    seeds = tuple(row.cell.seed for row in rows)
    empty = Score(*key, seeds=seeds, missing=tuple(sorted(expected - set(seeds))), learning_rate=rate)
    if not rows:
        return empty
    values = tuple(100 * row.accuracy for row in rows if row.accuracy is not None)
    calibration = [100 * row.calibration_error for row in rows if row.calibration_error is not None]
    starts = [row.curve["loss"][0] for row in rows if row.curve.get("loss")]
    counts = [row.parameter_count for row in rows if row.parameter_count is not None]
    return replace(
        empty,
        accuracies=values,
        mean=float(np.mean(values)),
        deviation=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        interval=half_width(values),
        calibration_error=_mean(calibration),
        fit_seconds=_median(row.fit_seconds for row in rows),
        predict_seconds=_median(row.predict_seconds for row in rows),
        encode_seconds=_median(row.encode_seconds for row in rows),
        peak_mib=_median(row.peak_mib for row in rows),
        parameter_count=max(counts, default=None),
        black_box=all(row.black_box for row in rows),
        start_loss=_mean([loss for loss in starts if loss is not None]),
    )


def _average(encoder: str, method: str, shots: int, members: list[Score]) -> Average:
    whole = [one for one in members if one.complete]
    missing = tuple(one for one in members if not one.complete)
    rate = next((one.learning_rate for one in members if one.learning_rate is not None), None)
    names = tuple(one.dataset for one in whole)
    empty = Average(encoder, method, shots, names, missing, learning_rate=rate)
    if not whole:
        return empty
    interval = _root_mean_square([one.interval for one in whole])
    tasks = _common_tasks(whole)
    times = [one.fit_seconds for one in whole if one.fit_seconds]
    starts = [one.start_loss for one in whole if one.start_loss is not None]
    return replace(
        empty,
        mean=_mean([one.mean for one in whole if one.mean is not None]),
        deviation=_root_mean_square([one.deviation for one in whole]),
        interval=interval,
        interval_of_average=None if interval is None else interval / float(np.sqrt(len(whole))),
        fit_seconds=float(np.exp(np.mean(np.log(times)))) if len(times) == len(whole) else None,
        start_loss=_mean(starts) if len(starts) == len(whole) else None,
        seeds=tuple(tasks),
        accuracies=tuple(tasks.values()),
    )


def _common_tasks(scores: Sequence[Score]) -> dict[int, float]:
    """The tasks that all of these have, and the mean accuracy of each."""
    tasks = [dict(zip(one.seeds, one.accuracies, strict=True)) for one in scores]
    common = [seed for seed in tasks[0] if all(seed in known for known in tasks)]
    return {seed: float(np.mean([known[seed] for known in tasks])) for seed in common}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _root_mean_square(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.sqrt(np.mean(np.square(known)))) if known and len(known) == len(values) else None
