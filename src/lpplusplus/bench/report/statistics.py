"""Rows of a benchmark as one DataFrame, and its statistics: per data set, and over data sets.

Accuracies are in percent here. Two spreads are kept apart: the standard deviation of the draws (ddof = 1), and the
half width of the 95 % interval of their mean, t(0.975, n-1) std/√n by Student's t distribution. Both need two draws
and are NaN otherwise. Averages over data sets never hide a gap: a set is included only if all its draws have
succeeded, and the sets left out are named.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pandas import DataFrame, Series, concat
from scipy.stats import t as student

from ...probe.recipes import without_options
from ...probe.solvers import SOLVERS, Solver, from_json
from ..cell import Cell, Row
from ..published import ABLATIONS, MAIN, METHODS, is_papers, published_average

CONFIDENCE = 0.95
KEY = ["encoder", "dataset", "method", "shots"]
"""What a score is of. `method` is the plan's name, with a number behind it if the plan's name has several settings."""
_OF_A_KEY = [*KEY, "name", "group", "rate", "papers"]
_MEASURED = ["calibration_error", "fit_seconds", "predict_seconds", "encode_seconds", "peak_mib", "parameter_count"]
_NUMBERS = ["accuracy", "start_loss", *_MEASURED]


class Difference(NamedTuple):
    """A mean in points, its standard error (NaN for a single draw), and the number of draws."""

    mean: float
    error: float
    draws: int

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:.1f}"
        return f"{self.mean:+.1f}{error}".replace("-", "−")


def mean_and_error(values: ArrayLike) -> tuple[Any, Any]:
    """Mean along the first axis, and its standard error, std (ddof = 1) / √n; NaN where there are too few values.

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    >>> mean_and_error([])
    (nan, nan)
    """
    found = np.asarray(values, np.float64)
    n, nothing = len(found), np.full(found.shape[1:], np.nan)
    mean = found.mean(axis=0) if n else nothing
    error = found.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else nothing
    return (mean, error) if found.ndim > 1 else (float(mean), float(error))


def half_width(values: ArrayLike) -> float:
    """Half width of the 95 % interval of a mean by Student's t; NaN for fewer than two values.

    >>> round(half_width([1.0, 2.0, 3.0]), 4)
    2.4841
    """
    n = len(np.asarray(values))
    return float(student.ppf((1 + CONFIDENCE) / 2, n - 1) * mean_and_error(values)[1]) if n > 1 else float("nan")


def difference(one: Sequence[Any], other: Sequence[Any]) -> Difference | None:
    """The difference of the means over these scores (of several shots, say), by draw; None if no draw has all scores.

    The difference of two methods varies less if both get the same images. So it is taken draw by draw.

    >>> a, b = {1: 80.0, 2: 70.0}, {2: 71.0, 1: 83.0, 3: 50.0}
    >>> print(difference([a], [b]))
    −2.0 ± 1.0
    """
    if len(one) != len(other) or not len(one):
        return None
    means = [
        concat([Series(values) for values in scores], axis=1, join="inner").mean(axis=1) for scores in (one, other)
    ]
    each = (means[0] - means[1]).dropna()
    return Difference(*mean_and_error(each), len(each)) if len(each) else None


def leads(one: Any, other: Any) -> bool:
    """Whether one is significantly better than another: paired t test over the draws that both have, at 5 %.

    >>> one, other = {1: 80.0, 2: 70.0, 3: 60.0}, {1: 79.0, 2: 68.9, 3: 59.1}
    >>> leads(one, other), leads(other, one), leads(one, one)
    (True, False, False)
    """
    each = (Series(one) - Series(other)).dropna()
    return bool(each.mean() > half_width(each))


def frame(rows: Iterable[Row], failed: Iterable[Row] = (), planned: Iterable[Cell] = ()) -> DataFrame:
    """A line for each cell: done, failed, or expected and not there, which has no accuracy.

    Expected is what was planned. Without a plan, each method is expected to have every draw that any other method has
    with the same encoder and shots; ablations and the main comparison are treated separately.
    """
    wanted = {cell.key: cell for cell in planned}
    done = {row.cell.key: row for row in rows if row.status == "ok" and row.accuracy is not None}
    cells = {key: row.cell for key, row in done.items()}
    cells |= {row.cell.key: row.cell for row in failed if not wanted or row.cell.key in wanted} | wanted
    labels = distinct(cells.values())
    lines = [_line(cell, done.get(key), labels[key]) for key, cell in cells.items()]
    table = DataFrame(lines, columns=[*_OF_A_KEY, "seed", "black_box", *_NUMBERS])
    table = table.astype(dict.fromkeys(_NUMBERS, float)).assign(accuracy=lambda rows: 100 * rows.accuracy)
    if wanted or table.empty:
        return table
    parts = []
    for _, part in table.groupby(["encoder", "shots", "group"], sort=False):
        grid = part[_OF_A_KEY].drop_duplicates(KEY).merge(part[["seed"]].drop_duplicates(), how="cross")
        parts.append(grid.merge(part.drop(columns=[*set(_OF_A_KEY) - set(KEY)]), how="left", on=[*KEY, "seed"]))
    return concat(parts, ignore_index=True)


def _line(cell: Cell, row: Row | None, label: str) -> dict[str, Any]:
    rate = rate_of(cell)
    measured = vars(row) if row else {}
    return {
        **{name: getattr(cell, name) for name in ("encoder", "dataset", "shots", "seed")},
        "method": label,
        "name": cell.method,
        "group": "main" if cell.method in MAIN or (cell.method not in ABLATIONS and np.isnan(rate)) else "ablation",
        "rate": rate,
        "papers": is_papers(cell),
        "black_box": measured.get("black_box", True),
        "start_loss": next(iter(measured.get("curve", {}).get("loss", ())), None),
        **{name: measured.get(name) for name in ("accuracy", *_MEASURED)},
    }


def summarise(rows: Iterable[Row], failed: Iterable[Row] = (), planned: Iterable[Cell] = ()) -> DataFrame:
    """A line for each data set, encoder, method and number of shots: statistics over its draws.

    Rows that share a name but not their parameters are not mixed: see `distinct`.
    """
    table = frame(rows, failed, planned)
    found = DataFrame([_score(part) for _, part in table.groupby(KEY, sort=False)])
    return with_published(_sorted(found, [*dict.fromkeys(table.dataset)]))


def _score(part: DataFrame) -> dict[str, Any]:
    good = part[part.accuracy.notna()].sort_values("seed")
    accuracies = good.set_index("seed").accuracy
    missing = tuple(sorted(part.seed[part.accuracy.isna()].tolist()))
    return {
        **part.iloc[0][_OF_A_KEY],
        "draws": len(good),
        "missing": missing,
        "complete": len(good) > 0 and not missing,
        "accuracies": accuracies,
        "mean": mean_and_error(accuracies)[0],
        "deviation": float(accuracies.std()),
        "interval": half_width(accuracies),
        "start_loss": float(good.start_loss.mean()),
        "calibration_error": 100 * float(good.calibration_error.mean()),
        **good[_MEASURED[1:-1]].median(),
        "parameter_count": float(good.parameter_count.max()),
        "black_box": bool(good.black_box.all()),
    }


def average(scores: DataFrame, *, together: bool = False) -> DataFrame:
    """A line for each encoder, method and number of shots: statistics over its complete data sets.

    A data set is missing for a method if any other method of that encoder has it. Ablations are compared only among
    themselves, or with all others if `together`. `missing` has data sets, each with its draws and how many it should
    have.
    """
    found = []
    groups = Series("", scores.index) if together else scores.group
    for (_, group), company in scores.groupby(["encoder", groups], sort=False):
        sets = company.dataset.unique()
        seeds = {shots: {*_seeds(part)} for shots, part in company.groupby("shots")}
        for (_, shots), part in company.groupby(["method", "shots"], sort=False):
            whole = part[part.complete.astype(bool)]
            known = {one.dataset: (one.draws, one.draws + len(one.missing)) for one in part.itertuples()}
            gaps = [(name, *known.get(name, (0, len(seeds[shots])))) for name in sets if name not in [*whole.dataset]]
            about = part.iloc[0][["encoder", "method", "shots", "name"]]
            found.append({**about, "group": group, "missing": tuple(gaps), **_over(whole, bool(gaps))})
    return with_published(_sorted(DataFrame(found)))


def _seeds(part: DataFrame) -> Iterable[int]:
    for one in part.itertuples():
        yield from (*one.accuracies.index, *one.missing)


def _over(whole: DataFrame, gaps: bool) -> dict[str, Any]:
    """Statistics over complete scores of one method and number of shots."""
    some = len(whole) > 0
    interval = _root_mean_square(whole.interval)
    seconds = np.log(whole.fit_seconds.replace(0, np.nan).to_numpy(float))
    return {
        "datasets": tuple(whole.dataset),
        "complete": some and not gaps,
        "papers": some and bool(whole.papers.all()),
        "rate": next(iter(whole.rate.dropna()), float("nan")),
        "accuracies": concat([*whole.accuracies], axis=1, join="inner").mean(axis=1) if some else Series(dtype=float),
        "mean": mean_and_error(whole["mean"])[0],
        "deviation": _root_mean_square(whole.deviation),
        "interval": interval,
        # The sets' draws are independent.
        "interval_of_average": interval / np.sqrt(max(1, len(whole))),
        "fit_seconds": float(np.exp(mean_and_error(seconds)[0])),  # Their geometric mean.
        "start_loss": mean_and_error(whole.start_loss)[0],
    }


def with_published(found: DataFrame) -> DataFrame:
    """Scores or averages beside the published mean of the same data sets: its interval, and how far ours is from it."""
    lines = []
    for one in found.itertuples():
        sets = one.datasets if hasattr(one, "datasets") else [one.dataset]
        known = published_average(one.name, sets, one.shots) if one.papers else None
        lines.append((known.mean, known.deviation) if known else (None, None))
    known = DataFrame(lines, found.index, ["published", "published_interval"], float)
    return found.assign(**known, difference=found["mean"] - known.published)


def _root_mean_square(values: Series) -> float:
    return float(np.sqrt(mean_and_error(np.square(values))[0]))


def distinct(cells: Iterable[Cell]) -> dict[str, str]:
    """The name of each cell's method in tables, by the cell's key.

    It is the name in the plan. Rows of one encoder and method with different settings, or of one data set with
    different descriptions or rules for copies, get a number behind it, so that no mean is taken over them. The same
    number means the same settings in all data sets and at all numbers of shots.
    """
    variants: dict[tuple[str, ...], dict[str, int]] = {}

    def number(group: tuple[str, ...], settings: object) -> int:
        known = variants.setdefault(group, {})
        return known.setdefault(json.dumps(settings, sort_keys=True), len(known) + 1)

    names = {}
    for cell in cells:
        given = {key: value for key, value in cell.parameters.items() if key != "random_state"}
        protocol = dict(cell.protocol)
        data = number((cell.dataset, cell.encoder), [protocol.pop(key, None) for key in ("data", "duplicates")])
        variant = number((cell.encoder, cell.method, ""), [cell.estimator, given, cell.validation, protocol])
        names[cell.key] = (
            cell.method + (f" (variant {variant})" if variant > 1 else "") + (f" (data {data})" if data > 1 else "")
        )
    return names


def rate_of(cell: Cell) -> float:
    """The learning rate of a cell of LP++ that sets it to a number; NaN for other methods, which always have one."""
    rate = getattr(solver_of(cell), "learning_rate", None) if cell.estimator == "LPPlusPlus" else None
    return float("nan") if rate is None or isinstance(rate, str) else float(rate)


def solver_of(cell: Cell) -> Solver | None:
    """The solver that a cell of LP++ names, with its options; None if it is the recipe's own, or unknown."""
    given = cell.parameters
    try:
        solver = without_options({**given, "solver": from_json(given.get("solver"))}).get("solver")
    except (ValueError, TypeError, KeyError):  # The parameters of a cell that failed.
        return None
    return SOLVERS[solver]() if solver in SOLVERS else solver if isinstance(solver, Solver) else None


def in_order(methods: Iterable[str]) -> list[str]:
    """The paper's methods in its order, then others as they come.

    >>> in_order(["Mine", "LP++ (paper)", "Zero-shot"])
    ['Zero-shot', 'LP++ (paper)', 'Mine']
    """
    known = {name: position for position, name in enumerate(dict.fromkeys([*MAIN, *METHODS]))}
    return sorted(dict.fromkeys(methods), key=lambda name: known.get(name, len(known)))


def in_shots(n: int) -> str:
    """1 shot, 2 shots."""
    return counted(n, "shot")


def counted(n: int, noun: str) -> str:
    """1 draw, 2 draws."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def on_sets(sets: Sequence[str]) -> str:
    """The data sets of an accuracy, in words."""
    return sets[0] if len(sets) == 1 else f"average of {len(sets)} data sets"


def _sorted(found: DataFrame, sets: Sequence[str] = ()) -> DataFrame:
    """By encoder, by data set, by method in the paper's order, and by shots."""
    if found.empty:
        return DataFrame(columns=[*_OF_A_KEY, "datasets", "missing", "complete", "mean", "draws"])
    orders = {"encoder": [*found.encoder.unique()], "dataset": sets, "method": in_order(found.method)}
    ranks = {name: found[name].map(order.index) for name, order in orders.items() if order and name in found}
    return found.loc[DataFrame({**ranks, "shots": found.shots}).sort_values([*ranks, "shots"], kind="stable").index]
