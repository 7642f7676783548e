"""Rows of a benchmark, summed up: per data set, and over data sets.

Accuracies are in percent here. Three spreads are kept apart wherever they appear: the standard deviation of the
tasks (ddof = 1), and the half width of the 95 % interval of their mean, t(0.975, n-1) std/√n by Student's t
distribution; both need two tasks at least and are None otherwise. Averages over data sets never hide a gap: a set
enters only when all its tasks have succeeded, and the sets left out are named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from ..published import CYCLES, MAIN, METHODS, OPTIMISERS, STANDARD_LOSS, STARTS
from ..results import Cell, Row

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """All tasks of one data set, backbone, method and number of shots."""

    dataset: str
    backbone: str
    method: str
    shots: int
    seeds: tuple[int, ...]
    """Tasks that succeeded."""
    missing: tuple[int, ...]
    """Tasks that others have and this one has not, or that failed."""
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
    """Median over tasks, as are the other times and the memory."""
    predict_seconds: float | None = None
    encode_seconds: float | None = None
    peak_mib: float | None = None
    parameter_count: int | None = None
    """The largest of the tasks."""
    black_box: bool = True
    start_loss: float | None = None
    """Mean over tasks of the loss before any update, where a curve was kept."""
    learning_rate: float | None = None
    """The parameter of that name, where a number was given."""

    @property
    def tasks(self) -> int:
        """How many succeeded."""
        return len(self.seeds)

    @property
    def complete(self) -> bool:
        """Whether there is a figure and no task is missing."""
        return bool(self.seeds) and not self.missing


@dataclass(frozen=True)
class Average:
    """One backbone, method and number of shots over the data sets that are complete."""

    backbone: str
    method: str
    shots: int
    datasets: tuple[str, ...]
    missing: tuple[Summary, ...]
    """Data sets left out, with what they lack."""
    mean: float | None = None
    """Of the sets' means."""
    deviation: float | None = None
    """Root mean square of the sets' standard deviations."""
    interval: float | None = None
    """Root mean square of the sets' 95 % half widths: what the paper's averages have behind ±."""
    interval_of_average: float | None = None
    """Half width of the average itself: the sets' tasks are independent, so it is that root mean square over √sets."""
    fit_seconds: float | None = None
    """Geometric mean of the sets' medians."""
    start_loss: float | None = None
    learning_rate: float | None = None

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


def summarise(rows: Iterable[Row], failed: Iterable[Row] = (), planned: Iterable[Cell] = ()) -> list[Summary]:
    """Sum up rows by data set, backbone, method and shots.

    Each is expected to have the tasks that were planned for it. Without a plan it is expected to have every seed that
    anything else with its backbone and shots has, ablations and the comparison apart. Rows that share a name but not
    their parameters are not mixed: see `distinct`.
    """
    wanted = list(planned)
    good = [row for row in rows if row.status == "ok" and row.accuracy is not None]
    cells = [row.cell for row in good] + [row.cell for row in failed] + wanted
    names = distinct(cells)
    seeds: dict[tuple[object, ...], set[int]] = {}
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    rates: dict[tuple[str, str, str, int], float | None] = {}
    for cell in cells:
        key = (cell.dataset, cell.backbone, names[cell.key], cell.shots)
        groups.setdefault(key, [])
        rates.setdefault(key, rate_of(cell))
        seeds.setdefault(key if wanted else _company(key, rates[key]), set()).add(cell.seed)
    for row in good:
        groups[row.cell.dataset, row.cell.backbone, names[row.cell.key], row.cell.shots].append(row)
    found = [
        _summary(key, members, seeds[key if wanted else _company(key, rates[key])], rates[key])
        for key, members in groups.items()
    ]
    places = [keys_of(found, "backbone"), keys_of(found, "dataset"), in_order(keys_of(found, "method"))]
    return sorted(
        found,
        key=lambda one: (
            places[0].index(one.backbone),
            places[1].index(one.dataset),
            places[2].index(one.method),
            one.shots,
        ),
    )


def average(summaries: Iterable[Summary], *, together: bool = False) -> list[Average]:
    """Average over data sets, for each backbone, method and number of shots.

    A data set counts as missing for a method when any other method of that backbone has it; ablations are among
    themselves, unless `together`.
    """
    found = list(summaries)
    sets: dict[tuple[str, bool], dict[str, None]] = {}
    seeds: dict[tuple[str, bool, int], set[int]] = {}
    for one in found:
        main = together or is_main(one)
        sets.setdefault((one.backbone, main), {})[one.dataset] = None
        seeds.setdefault((one.backbone, main, one.shots), set()).update(one.seeds, one.missing)
    by_key = {(one.backbone, one.method, one.shots, one.dataset): one for one in found}
    averages = []
    for backbone, method, shots, main in dict.fromkeys(
        (one.backbone, one.method, one.shots, together or is_main(one)) for one in found
    ):
        nothing = Summary("", backbone, method, shots, (), tuple(sorted(seeds[backbone, main, shots])))
        members = [
            by_key.get((backbone, method, shots, name), replace(nothing, dataset=name)) for name in sets[backbone, main]
        ]
        averages.append(_average(backbone, method, shots, members))
    places = keys_of(averages, "backbone"), in_order(keys_of(averages, "method"))
    return sorted(averages, key=lambda one: (places[0].index(one.backbone), places[1].index(one.method), one.shots))


def distinct(cells: Iterable[Cell]) -> dict[str, str]:
    """The name of each cell's method, by the cell's key.

    It is the plan's name, unless rows of one backbone and method differ in their settings, or those of one data set in
    what it was; those get a number behind it, since a mean over them would be a mean of different things. A number
    stands for the same settings in all data sets and at all numbers of shots.
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
        data = number((cell.dataset, cell.backbone), protocol.pop("data", None))
        variant = number((cell.backbone, cell.method, ""), [cell.estimator, given, cell.validation, protocol])
        names[cell.key] = (
            cell.method + (f" (variant {variant})" if variant > 1 else "") + (f" (data {data})" if data > 1 else "")
        )
    return names


def is_main(one: Summary | Average) -> bool:
    """Whether it belongs to the comparison, rather than to an ablation or a sweep of learning rates."""
    return _is_main(one.method, one.learning_rate)


def plan_name(method: str) -> str:
    """A method's name without the numbers that `distinct` put behind it."""
    return re.sub(r"( \((variant|data) \d+\))+$", "", method)


def rate_of(cell: Cell) -> float | None:
    """The learning rate that a cell of LP++ sets to a number; other methods have one always."""
    if cell.estimator != "LPPlusPlus":
        return None
    rate = cell.parameters.get("learning_rate")
    return float(rate) if isinstance(rate, int | float) and not isinstance(rate, bool) else None


def keys_of(things: Iterable[object], name: str) -> list[str]:
    """The different values of an attribute, in order of first appearance."""
    return list(dict.fromkeys(getattr(thing, name) for thing in things))


def in_order(methods: Iterable[str]) -> list[str]:
    """The paper's methods in its order, then others as they come.

    >>> in_order(["Mine", "LP++ (paper)", "Zero-shot"])
    ['Zero-shot', 'LP++ (paper)', 'Mine']
    """
    known = {name: place for place, name in enumerate(dict.fromkeys([*MAIN, *METHODS]))}
    return sorted(methods, key=lambda name: known.get(name, len(known)))


def _is_main(method: str, rate: float | None) -> bool:
    name = plan_name(method)
    if name in MAIN:
        return True
    ablation = name in {*STARTS, *CYCLES, *OPTIMISERS} or name.endswith(STANDARD_LOSS)
    return not ablation and rate is None


def _company(key: tuple[str, str, str, int], rate: float | None) -> tuple[object, ...]:
    """Those who are expected to have the same tasks."""
    _, backbone, method, shots = key
    return backbone, shots, _is_main(method, rate)


def _summary(key: tuple[str, str, str, int], rows: list[Row], expected: set[int], rate: float | None) -> Summary:
    rows = sorted(rows, key=lambda row: row.cell.seed)
    seeds = tuple(row.cell.seed for row in rows)
    empty = Summary(*key, seeds=seeds, missing=tuple(sorted(expected - set(seeds))), learning_rate=rate)
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


def _average(backbone: str, method: str, shots: int, members: list[Summary]) -> Average:
    whole = [one for one in members if one.complete]
    missing = tuple(one for one in members if not one.complete)
    rate = next((one.learning_rate for one in members if one.learning_rate is not None), None)
    names = tuple(one.dataset for one in whole)
    empty = Average(backbone, method, shots, names, missing, learning_rate=rate)
    if not whole:
        return empty
    interval = _root_mean_square([one.interval for one in whole])
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
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _root_mean_square(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.sqrt(np.mean(np.square(known)))) if known and len(known) == len(values) else None
