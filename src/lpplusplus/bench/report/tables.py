"""Tables of any benchmark, with the published figures beside ours where cells are the paper's.

Each number of shots is a group of columns: our mean, the standard deviation of the draws and the half width of the
95 % interval of the mean, then the published mean and how far ours is from it. Columns, rows and tables without any
entry are left out. If some data sets are incomplete, the average over the others is not in the table, but in a note
that names these sets. What all tables have in common is said once, in `READING`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pandas import DataFrame

from ...images.evaluation import BINS
from ..published import (
    AVERAGE,
    COST_REMARK,
    DEVIATION_REMARK,
    ERRATA,
    canonical_dataset,
    canonical_method,
    published_cost,
)
from .statistics import Difference, average, counted, difference, in_order, in_shots, leads, on_sets
from .table import NOTHING, Column, Table, Value, duration, plain, table_of, with_own_keys

READING = (
    "Accuracies and spreads are in percent, differences in points.",
    "std: standard deviation of the draws (ddof = 1). 95 % ±: half width of the 95 % interval of their mean, by "
    "Student's t distribution for n draws. In averages over data sets both are root mean squares over the sets. Both "
    "cover the draws only: all draws share their test images, whose finite number adds an error that is not in them.",
)
"""How to read the tables."""
READING_BEST = (
    "Bold: the highest mean of its column, if it leads every other beyond noise (paired t test over draws, 5 %).",
)
"""How to read bold entries, if there are any."""
READING_PUBLISHED = (
    f"Published: RN50, figures of the LP++ paper (arXiv 2404.02285), over the same data sets. {DEVIATION_REMARK}",
)
"""How to read the published figures, if there are any."""
TRAINING_FREE = "LP++ (training-free)"
_CELLS = [
    (field or name, Column(name, kind))
    for kind, names in (
        ("text", "dataset encoder method"),
        ("count", "shots draws"),
        ("text", "missing"),
        ("percent", "mean std=deviation interval_95=interval interval_95_of_average=interval_of_average"),
        ("percent", "published_mean=published published_interval_95=published_interval"),
        ("points", "difference"),
        ("percent", "calibration_error"),
        ("seconds", "fit_seconds predict_seconds encode_seconds"),
        ("mib", "peak_mib"),
        ("count", "parameters=parameter_count"),
        ("yes", "black_box"),
    )
    for name, _, field in (word.partition("=") for word in names.split())
]
"""Fields of scores and averages, and the columns of the long table that show them."""

Line = dict[Column, Value]
Groups = dict[str, dict[str, Any]]
"""Scores or averages by heading over columns, then by row."""
ACCURACY = [
    ("mean", Column("mean", "percent")),
    ("deviation", Column("std", "percent")),
    ("interval", Column("95 % ±", "percent")),
    ("published", Column("published", "percent")),
    ("difference", Column("difference", "points")),
]
"""Fields of scores and averages, and the columns that show them."""
COST = [
    ("fit_seconds", Column("fit", "seconds")),
    ("published_time", Column("published fit")),
    ("predict_seconds", Column("predict", "seconds")),
    ("encode_seconds", Column("encode", "seconds")),
    ("peak_mib", Column("memory", "mib")),
    ("black_box", Column("black box", "yes")),
    ("parameter_count", Column("parameters", "count")),
    ("trained", Column("trained, by the official recipe")),
    ("calibration_error", Column("calibration error", "percent")),
]


def make_tables(scores: DataFrame, ablations: Callable[[DataFrame, str], Iterable[Table | None]]) -> list[Table]:
    """All tables that have something to show, encoder by encoder; `ablations` makes those of the paper's ablations."""
    tables: list[Table | None] = []
    for encoder, ours in scores.groupby("encoder", sort=False):
        main = ours[ours.group == "main"]
        sets = [*main.dataset.unique()]
        where = f", {encoder}" if scores.encoder.nunique() > 1 else ""
        if len(sets) > 1:
            over = average(main)
            title = f"Accuracy, {on_sets(sets)}{where}"
            tables.append(by_shots("average", title, over[over.complete], gaps(over), dataset=AVERAGE))
        for name, part in main.groupby("dataset", sort=False):
            tables.append(by_shots(name, f"Accuracy on {name}{where}", part, _counts(part), dataset=name))
        tables += [*ablations(ours, where)]
        tables.append(_cost_table(main, ours[(ours.name == TRAINING_FREE) & (ours.group != "main")], where))
    return with_own_keys(tables, "table")


def reading(tables: Sequence[Table]) -> list[str]:
    """How to read these tables."""
    bold = any(table.best for table in tables)
    known = any("published" in column.name for table in tables for column in table.columns)
    return [*READING, *(READING_BEST if bold else ()), *(READING_PUBLISHED if known else ())]


def cells_table(scores: DataFrame, averages: DataFrame) -> Table:
    """Everything in one long table: a line for each data set, encoder, method and number of shots."""
    several = averages[averages.datasets.map(len) + averages.missing.map(len) > 1]
    parts = (
        scores.assign(
            missing=[" ".join(f"draw {seed}" for seed in missing) or None for missing in scores.missing],
            black_box=[score.black_box if score.draws else None for score in scores.itertuples()],
        ),
        several.assign(
            missing=["; ".join(name for name, *_ in missing) or None for missing in several.missing], dataset=AVERAGE
        ),
    )
    lines = [
        tuple(plain(getattr(score, field, None), column.kind) for field, column in _CELLS)
        for part in parts
        for score in part.itertuples()
    ]
    return Table("cells", "All cells", tuple(column for _, column in _CELLS), tuple(lines))


def _cost_table(main: DataFrame, free: DataFrame, where: str) -> Table | None:
    """Time, memory and parameters on the largest task: 16-shot ImageNet as in the paper, if it was run.

    Besides the methods of the comparison it has the cost of LP++ before any update.
    """
    chosen = [score for part in (main, free) for score in part.itertuples() if score.draws]
    if not (main.draws > 0).any():
        return None
    paper = [score for score in chosen if (canonical_dataset(score.dataset), score.shots) == ("ImageNet", 16)]
    largest = paper[0] if paper else max(chosen, key=lambda score: (plain(score.parameter_count) or 0, score.shots))
    shown = {
        score.method: score for score in chosen if (score.dataset, score.shots) == (largest.dataset, largest.shots)
    }
    lines = lines_of("Method", list(shown), {"": shown}, COST)
    for score, line in zip(shown.values(), lines, strict=True):
        known = published_cost(score.name)
        line[Column("published fit")] = known.get("time") if paper and score.papers else None
        line[Column("trained, by the official recipe")] = known.get("trained")
    notes = [
        "Medians over draws. Fit: with any search, features given. Encode: all images of the data set, once. Memory: "
        "what the fit took on top of what was there before. Black box: embeddings were enough. Calibration error: mean "
        f"over draws, {BINS} bins of equal width.",
    ]
    notes += [COST_REMARK] if paper else []
    title = f"Run time, black box and parameters, {in_shots(largest.shots)} of {largest.dataset}{where}"
    return table_of("cost", title, lines, notes)


def by_shots(
    key: str, title: str, found: DataFrame, notes: Sequence[str], *, dataset: str, first: str = "Method"
) -> Table | None:
    """Methods down, shots across."""
    groups = grouped(found)
    lines = lines_of(first, in_order(found.method), groups)
    return table_of(key, title, lines, [*notes, *doubts(found, dataset)], leaders(groups))


def grouped(found: DataFrame) -> Groups:
    """Scores or averages by shots, then by method."""
    return {
        in_shots(n): {score.method: score for score in part.itertuples()}
        for n, part in found.groupby("shots", sort=True)
    }


def lines_of(
    first: str, rows: Sequence[str], groups: Groups, columns: Sequence[tuple[str, Column]] = ACCURACY
) -> list[Line]:
    """A line for each row, with these columns for each group."""
    shown = [(members, field, replace(column, group=heading)) for heading, members in groups.items()
             for field, column in columns]  # fmt: skip
    return [
        {Column(first): name, **{column: getattr(members.get(name), field, None) for members, field, column in shown}}
        for name in rows
    ]


def leaders(groups: Groups) -> dict[Column, str]:
    """The row with the highest mean of each group, if it is significantly better than every other."""
    found = {}
    for heading, rows in groups.items():
        ranked = sorted(rows, key=lambda name: plain(rows[name].mean) or 0.0, reverse=True)
        if len(ranked) > 1 and all(leads(rows[ranked[0]].accuracies, rows[name].accuracies) for name in ranked[1:]):
            found[Column("mean", "percent", heading)] = ranked[0]
    return found


def gaps(averages: DataFrame) -> list[str]:
    """Why an average is missing, and the average over the sets that are complete."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for score in averages[~averages.complete.astype(bool)].itertuples():
        lacks = ", ".join(f"{name} ({done} of {wanted} draws)" for name, done, wanted in score.missing)
        who = score.method
        if score.datasets:
            who += f" (over the other {len(score.datasets)}: {score.mean:.2f}"
            who += ")" if np.isnan(score.published) else f", published {score.published:.2f})"
        reasons.setdefault((score.shots, lacks), []).append(who)
    return [f"{in_shots(n)}: incomplete on {lacks}: {'; '.join(who)}." for (n, lacks), who in sorted(reasons.items())]


def _counts(chosen: DataFrame) -> list[str]:
    """How many draws there are per cell, and which methods lack some."""
    notes = []
    whole = chosen[chosen.complete]
    if len(whole):
        low, high = whole.draws.min(), whole.draws.max()
        notes.append(f"{low} to {high} draws per cell." if low < high else f"{counted(low, 'draw')} per cell.")
    lacking: dict[tuple[str, int, int], list[str]] = {}
    for score in chosen[chosen.missing.map(len) > 0].itertuples():
        lacking.setdefault((score.method, score.draws, score.draws + len(score.missing)), []).append(str(score.shots))
    return notes + [
        f"{who}: only {done} of {total} draws at shots {', '.join(at)}." for (who, done, total), at in lacking.items()
    ]


def doubts(found: DataFrame, dataset: str) -> list[str]:
    """Errata of the published cells that are shown."""
    known = found[found.published.notna()]
    shown = {(canonical_method(score.name), score.shots) for score in known.itertuples()}
    place = AVERAGE if dataset == AVERAGE else canonical_dataset(dataset)
    return [
        f"Published {one['method']}, {in_shots(one['shots'])}: {one['what']}."
        for one in ERRATA
        if one["dataset"] == place and (one["method"], one["shots"]) in shown
    ]


READING_PAIRED = (
    "Points of accuracy, paired by draw, ± the standard error of the difference. Fit: median seconds at most shots."
)
"""How to read these tables."""
_Known = dict[tuple[str, int], Any]
"""Scores on one data set with one encoder, by method and number of shots."""


def paired_tables(scores: DataFrame, against: str) -> list[Table]:
    """A table of differences over all data sets and encoders, and one for each of them."""
    scores = _named_as_planned(scores[scores.draws > 0])
    if against not in [*scores.method]:
        raise ValueError(f"there are no results of {against!r}; methods with results: "
                         f"{', '.join(in_order(scores.method))}.")  # fmt: skip
    methods = in_order(scores.method)
    places = {
        place: {(score.method, score.shots): score for score in part.itertuples()}
        for place, part in scores.groupby(["dataset", "encoder"], sort=False)
    }
    tables = [_overview(places, methods, against, sorted(scores.shots.unique()))] if len(places) > 1 else []
    tables += [_place_table(place, known, methods, against) for place, known in places.items()]
    return [table for table in tables if table is not None]


def _named_as_planned(scores: DataFrame) -> DataFrame:
    """The scores under their names in the plan: variants that differ only between data sets need no number here."""
    alone = scores.groupby(["dataset", "encoder", "name"]).method.transform("nunique") == 1
    return scores.assign(method=scores.name.where(alone, scores.method))


def _gap(known: _Known, method: str, against: str, shots: Iterable[int]) -> Difference | None:
    """Over the numbers of shots that both have."""
    pairs = [(known[method, n], known[against, n]) for n in shots if {(method, n), (against, n)} <= known.keys()]
    return difference([ours.accuracies for ours, _ in pairs], [theirs.accuracies for _, theirs in pairs])


def _overview(
    places: dict[tuple[str, str], _Known], methods: Sequence[str], against: str, shots: Sequence[int]
) -> Table | None:
    """Mean over shots: a row for each method, a column for each data set and encoder, and their mean."""
    lines = []
    for method in methods:
        found = {place: _gap(known, method, against, shots) for place, known in places.items()}
        line: Line = {Column("Method"): method}
        for place, gap in found.items():
            line[Column(", ".join(place))] = None if gap is None else "" if method == against else str(gap)
        gaps = [gap for gap in found.values() if gap is not None]
        if len(gaps) == len(found) and method != against:
            # The draws differ: their errors are independent.
            error = float(np.sqrt(np.sum(np.square([gap.error for gap in gaps])))) / len(gaps)
            line[Column("all")] = str(Difference(float(np.mean([gap.mean for gap in gaps])), error, 0))
        lines.append(line)
    title = f"Difference from {against}, mean over {', '.join(map(str, shots))} shots"
    return table_of("paired", title, lines, [READING_PAIRED])


def _place_table(place: tuple[str, str], known: _Known, methods: Sequence[str], against: str) -> Table | None:
    """A row for each method: at each number of shots its accuracy, and its difference."""
    shots = sorted({n for _, n in known})
    lines, fewer = [], dict[str, list[str]]()
    for method in methods:
        line: Line = {Column("Method"): method, **{Column(in_shots(n)): None for n in shots}}
        for n in shots:
            gap = _gap(known, method, against, [n])
            if (method, n) in known:
                beside = f" ({gap})" if gap is not None and method != against else ""
                line[Column(in_shots(n))] = f"{known[method, n].mean:.1f}{beside}"
                seconds = known[method, n].fit_seconds  # At last, at most shots.
                line[Column("fit")] = NOTHING if np.isnan(seconds) else duration(seconds)
            if gap is not None and gap.draws < known[against, n].draws:
                fewer.setdefault(method, []).append(f"{gap.draws} at {in_shots(n)}")
        lines.append(line)
    draws = max((score.draws for (method, _), score in known.items() if method == against), default=0)
    notes = [f"Mean of {draws} draws."] + [f"{method}: draws {', '.join(at)}." for method, at in fewer.items()]
    title = f"{', '.join(place)}: accuracy (difference from {against})"
    return table_of("paired " + " ".join(place), title, lines, notes)
