"""Tables in the paper's shape, as plain data; `formats` writes them down.

Each number of shots is a group of columns: our mean, the standard deviation of the tasks and the half width of the
95 % interval of the mean, then the published mean and how far ours is from it. Columns without any entry are dropped,
and so are tables without any row. An average over data sets of which some are incomplete is not put beside the others:
it stands in a note, with the sets it is over. What all tables have in common is said once, in `READING`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..published import (
    AVERAGE,
    CYCLES,
    DATASETS,
    OPTIMISERS,
    STANDARD_LOSS,
    STARTS,
    Published,
    canonical_dataset,
    canonical_method,
    errata,
    is_published_backbone,
    published,
    published_average,
    published_cost,
    published_initial_loss,
    published_seconds,
    random_start_range,
    remarks,
)
from .keys import own_keys
from .statistics import Average, Summary, average, in_order, is_main, keys_of, plan_name

Value = str | float | int | bool | None

READING = (
    "Accuracies and spreads are in percent, differences in points.",
    "std: standard deviation of the tasks (ddof = 1). 95 % ±: half width of the 95 % interval of their mean, by "
    "Student's t distribution for n tasks. In averages over data sets both are root mean squares of the sets'.",
)
"""How the tables are to be read."""
READING_PUBLISHED = (
    "Published: RN50, figures of the LP++ paper (arXiv 2404.02285), over the same data sets. " + remarks()["deviation"],
)
"""The same, where published figures stand beside ours."""


@dataclass(frozen=True)
class Column:
    """How a column is headed and its entries are written."""

    name: str
    kind: str = "text"
    """"text", "percent", "points", "seconds", "mib", "count", "loss" or "yes"."""
    group: str = ""
    """Heading over several columns."""

    @property
    def full_name(self) -> str:
        """Name in one line."""
        return f"{self.group}: {self.name}" if self.group else self.name


@dataclass(frozen=True)
class Table:
    """A table as data: unrounded numbers, None where there is nothing."""

    key: str
    """Short name for files and links."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()


_MEASURED = ("calibration_error", "fit_seconds", "predict_seconds", "encode_seconds", "peak_mib")


class _Entry(NamedTuple):
    """What a group of columns shows."""

    mean: float | None
    deviation: float | None
    interval: float | None
    known: Published | None


def make_tables(summaries: Sequence[Summary]) -> list[Table]:
    """All tables that have something to show, backbone by backbone."""
    tables: list[Table | None] = []
    backbones = keys_of(summaries, "backbone")
    for backbone in backbones:
        ours = [one for one in summaries if one.backbone == backbone]
        main = [one for one in ours if is_main(one)]
        sets = keys_of(main, "dataset")
        where = f", {backbone}" if len(backbones) > 1 else ""
        if len(sets) > 1:
            tables.append(_average_table(average(main), where))
        tables += [_set_table([one for one in main if one.dataset == name], where) for name in sets]
        tables += [make(ours, where) for make in (_optimiser_table, _start_table, _cycle_table, _rate_table)]
        tables.append(_cost_table(main, where))
    filled = [table for table in tables if table is not None]
    keys = own_keys((table.key for table in filled), "table")
    return [replace(table, key=key) for table, key in zip(filled, keys, strict=True)]


def has_published(tables: Iterable[Table]) -> bool:
    """Whether any published figure is shown."""
    return any("published" in column.name for table in tables for column in table.columns)


def cells_table(summaries: Sequence[Summary], averages: Sequence[Average]) -> Table:
    """Everything in one long table, a line for each data set, backbone, method and number of shots."""
    columns = (
        Column("dataset"),
        Column("backbone"),
        Column("method"),
        Column("shots", "count"),
        Column("tasks", "count"),
        Column("missing"),
        Column("mean", "percent"),
        Column("std", "percent"),
        Column("interval_95", "percent"),
        Column("interval_95_of_average", "percent"),
        Column("published_mean", "percent"),
        Column("published_interval_95", "percent"),
        Column("difference", "points"),
        Column("calibration_error", "percent"),
        Column("fit_seconds", "seconds"),
        Column("predict_seconds", "seconds"),
        Column("encode_seconds", "seconds"),
        Column("peak_mib", "mib"),
        Column("parameters", "count"),
        Column("black_box", "yes"),
    )
    rows = []
    for one in summaries:
        known = _known(one.method, [one.dataset], one.shots, one.backbone)
        values = {
            **{name: getattr(one, name) for name in ("dataset", "backbone", "method", "shots", "tasks", *_MEASURED)},
            **_spreads(one, known),
            "missing": " ".join(f"task {seed}" for seed in one.missing) or None,
            "parameters": one.parameter_count,
            "black_box": one.black_box if one.tasks else None,
        }
        rows.append(tuple(values.get(column.name) for column in columns))
    for over in averages:
        if len(over.datasets) + len(over.missing) == 1:
            continue
        known = _known(over.method, over.datasets, over.shots, over.backbone)
        values = {
            **{name: getattr(over, name) for name in ("backbone", "method", "shots", "fit_seconds")},
            **_spreads(over, known),
            "dataset": AVERAGE,
            "missing": "; ".join(one.dataset for one in over.missing) or None,
            "interval_95_of_average": over.interval_of_average,
        }
        rows.append(tuple(values.get(column.name) for column in columns))
    return Table("cells", "All cells", columns, tuple(rows))


def _spreads(one: Summary | Average, known: Published | None) -> dict[str, Value]:
    beside = zip(("published_mean", "published_interval_95", "difference"), _beside(one.mean, known), strict=True)
    return {"mean": one.mean, "std": one.deviation, "interval_95": one.interval, **dict(beside)}


def _average_table(over: list[Average], where: str) -> Table | None:
    title = f"Accuracy, {_on(over)}{where}"
    return _by_shots("average", title, "Method", _averages(over), _gaps(over), AVERAGE)


def _set_table(ours: list[Summary], where: str) -> Table | None:
    entries = {
        (one.method, one.shots): _Entry(
            one.mean, one.deviation, one.interval, _known(one.method, [one.dataset], one.shots, one.backbone)
        )
        for one in ours
    }
    name = ours[0].dataset
    return _by_shots(name, f"Accuracy on {name}{where}", "Method", entries, _counts(ours), name)


def _ablation(ours: list[Summary], names: Iterable[str]) -> list[Average]:
    """Averages of the named methods over the data sets that the ablation was run on; none if it was not run."""
    known = set(names)
    chosen = [one for one in ours if plan_name(one.method) in known]
    sets = {one.dataset for one in chosen if not is_main(one)}
    return average([one for one in chosen if one.dataset in sets], together=True)


def _optimiser_table(ours: list[Summary], where: str) -> Table | None:
    """Rows are optimisers; losses and the fewest and most shots are groups of columns, as in the paper."""
    chosen = _ablation(ours, [*OPTIMISERS, *(name + STANDARD_LOSS for name in OPTIMISERS)])
    if not chosen:
        return None
    rows = list(dict.fromkeys(one.method.removesuffix(STANDARD_LOSS) for one in chosen))
    shots = sorted({one.shots for one in chosen})
    ends = sorted({shots[0], shots[-1]})
    groups = [(loss, n) for loss in (STANDARD_LOSS, "") for n in ends]
    found = {(one.method, one.shots): one for one in chosen}
    entries = _averages(chosen)
    columns, lines = [Column("Optimiser")], []
    for loss, n in groups:
        columns += _group(f"{'standard loss' if loss else 'LP++ loss'}, {_shots(n)}")
    columns += [Column("fit", "seconds", f"LP++ loss, {_shots(ends[-1])}"), Column("published fit", "seconds")]
    for name in rows:
        line: list[Value] = [name]
        for loss, n in groups:
            line += _figures(entries.get((name + loss, n)))
        last = found.get((name, ends[-1]))
        shown = last is not None and _is_papers(last)
        line += [last.fit_seconds if last else None, published_seconds(name) if shown else None]
        lines.append(tuple(line))
    notes = ["The standard loss has no text term. Published times, if any, are of the paper's machine.", *_gaps(chosen)]
    return _trimmed("optimisers", f"Optimisers and losses, {_on(chosen)}{where}", columns, lines, notes)


def _start_table(ours: list[Summary], where: str) -> Table | None:
    chosen = _ablation(ours, STARTS)
    low, high = random_start_range()
    notes = [f"Published for a random start: {low} to {high}."] if any(map(_is_papers, chosen)) else []
    notes += _gaps(chosen)
    title = f"Starts, before any update, {_on(chosen)}{where}"
    table = _by_shots("starts", title, "Start", _averages(chosen), notes, AVERAGE)
    return None if table is None else _with_losses(table, chosen)


def _with_losses(table: Table, chosen: list[Average]) -> Table:
    """The same with the loss at the start behind, ours and published."""
    shots = sorted({one.shots for one in chosen})
    found = {(one.method, one.shots): one for one in chosen}
    columns, lines = list(table.columns), [list(row) for row in table.rows]
    for n in shots:
        columns += [Column("loss", "loss", _shots(n)), Column("published loss", "loss", _shots(n))]
        for line in lines:
            one = found.get((str(line[0]), n))
            shown = one is not None and _is_papers(one)
            ours = one.start_loss if one is not None and one.complete else None
            line += [ours, published_initial_loss(str(line[0]), n) if shown and ours is not None else None]
    return _trimmed(table.key, table.title, columns, [tuple(line) for line in lines], table.notes) or table


def _cycle_table(ours: list[Summary], where: str) -> Table | None:
    chosen = _ablation(ours, CYCLES)
    entries = _averages(chosen, lambda name: CYCLES[plan_name(name)])
    notes = ["(a, b): a steps on W, then b on α. LP++ (paper) is (10, 1).", *_gaps(chosen)]
    return _by_shots("cycles", f"Block cycles, {_on(chosen)}{where}", "Cycle", entries, notes, AVERAGE)


def _rate_table(ours: list[Summary], where: str) -> Table | None:
    swept = [one for one in ours if one.learning_rate is not None and canonical_method(plan_name(one.method)) is None]
    chosen = sorted(average(swept), key=lambda one: one.learning_rate or 0)
    return _by_shots(
        "rates", f"Learning rates, {_on(chosen)}{where}", "Method", _averages(chosen), _gaps(chosen), AVERAGE
    )


def _cost_table(ours: list[Summary], where: str) -> Table | None:
    """Time, memory and parameters on the largest task: 16-shot ImageNet as in the paper, if it was run."""
    chosen = [one for one in ours if one.tasks]
    if not chosen:
        return None
    paper = [one for one in chosen if (canonical_dataset(one.dataset), one.shots) == ("ImageNet", 16)]
    largest = paper[0] if paper else max(chosen, key=lambda one: (one.parameter_count or 0, one.shots))
    at = [one for one in chosen if (one.dataset, one.shots) == (largest.dataset, largest.shots)]
    columns = [
        Column("Method"),
        Column("fit", "seconds"),
        Column("published fit"),
        Column("predict", "seconds"),
        Column("encode", "seconds"),
        Column("memory", "mib"),
        Column("black box", "yes"),
        Column("parameters", "count"),
        Column("trained, by the official recipe"),
        Column("calibration error", "percent"),
    ]
    lines = []
    for one in at:
        known = published_cost(plan_name(one.method))
        values = {
            "Method": one.method,
            "fit": one.fit_seconds,
            "published fit": known.get("time") if paper and is_published_backbone(one.backbone) else None,
            "predict": one.predict_seconds,
            "encode": one.encode_seconds,
            "memory": one.peak_mib,
            "black box": one.black_box,
            "parameters": one.parameter_count,
            "trained, by the official recipe": known.get("trained"),
            "calibration error": one.calibration_error,
        }
        lines.append(tuple(values[column.name] for column in columns))
    notes = [
        "Medians over tasks. Fit includes any search and is given features; encode embeds all images of the data set, "
        "once. Black box: embeddings were enough. Memory is what the fit took beyond what was there before.",
    ]
    notes += [remarks()["cost"]] if paper else []
    title = f"Run time, black box and parameters, {_shots(largest.shots)} of {largest.dataset}{where}"
    return _trimmed("cost", title, columns, lines, notes)


def _by_shots(
    key: str, title: str, first: str, entries: dict[tuple[str, int], _Entry], notes: Sequence[str], dataset: str
) -> Table | None:
    """Methods down, shots across."""
    shots = sorted({n for _, n in entries})
    columns, lines = [Column(first)], []
    for n in shots:
        columns += _group(_shots(n))
    for name in in_order(dict.fromkeys(name for name, _ in entries)):
        line: list[Value] = [name]
        for n in shots:
            line += _figures(entries.get((name, n)))
        lines.append(tuple(line))
    doubts = _doubts(entries, dataset)
    return _trimmed(key, title, columns, lines, [*notes, *doubts])


def _group(name: str) -> list[Column]:
    return [
        Column("mean", "percent", name),
        Column("std", "percent", name),
        Column("95 % ±", "percent", name),
        Column("published", "percent", name),
        Column("difference", "points", name),
    ]


def _figures(entry: _Entry | None) -> list[Value]:
    if entry is None:
        return [None] * 5
    mean, _, difference = _beside(entry.mean, entry.known)
    return [entry.mean, entry.deviation, entry.interval, mean, difference]


def _beside(mean: float | None, known: Published | None) -> tuple[Value, Value, Value]:
    """Published mean, its ± and the difference from ours."""
    if known is None:
        return None, None, None
    return known.mean, known.deviation, None if mean is None else mean - known.mean


def _averages(
    chosen: Iterable[Average], known_as: Callable[[str], str] = lambda name: name
) -> dict[tuple[str, int], _Entry]:
    """Entries of complete averages; others are left empty, and `_gaps` says why."""
    entries = {}
    for one in chosen:
        known = _known(known_as(one.method), one.datasets, one.shots, one.backbone)
        shown = _Entry(one.mean, one.deviation, one.interval, known) if one.complete else _Entry(None, None, None, None)
        entries[one.method, one.shots] = shown
    return entries


def _known(method: str, datasets: Sequence[str], shots: int, backbone: str) -> Published | None:
    """What is published of just this; nothing for another encoder."""
    if not is_published_backbone(backbone) or not datasets:
        return None
    name = plan_name(method)
    return published(name, datasets[0], shots) if len(datasets) == 1 else published_average(name, datasets, shots)


def _is_papers(one: Average) -> bool:
    """Whether an average is over just what the paper's averages are over."""
    names = {canonical_dataset(name) for name in one.datasets}
    return one.complete and names == set(DATASETS) and is_published_backbone(one.backbone)


def _gaps(chosen: Iterable[Average]) -> list[str]:
    """Why an average is not there, and what it is over the sets that are complete."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for one in chosen:
        if one.complete:
            continue
        lacks = ", ".join(f"{gap.dataset} ({gap.tasks} of {gap.tasks + len(gap.missing)} tasks)" for gap in one.missing)
        who = one.method
        if one.mean is not None:
            known = _known(one.method, one.datasets, one.shots, one.backbone)
            beside = f", published {known.mean:.2f}" if known else ""
            who += f" (over the other {len(one.datasets)}: {one.mean:.2f}{beside})"
        reasons.setdefault((one.shots, lacks), []).append(who)
    return [f"{_shots(n)}: incomplete on {lacks}: {'; '.join(who)}." for (n, lacks), who in sorted(reasons.items())]


def _counts(chosen: Sequence[Summary]) -> list[str]:
    """How many tasks the figures are of."""
    numbers = {one.tasks for one in chosen if one.complete}
    notes = []
    if numbers:
        low, high = min(numbers), max(numbers)
        notes.append(f"{low} to {high} tasks a cell." if low < high else f"{low} task{'s' * (low != 1)} a cell.")
    gaps: dict[tuple[str, int, int], list[str]] = {}
    for one in chosen:
        if one.missing:
            gaps.setdefault((one.method, one.tasks, one.tasks + len(one.missing)), []).append(str(one.shots))
    notes += [
        f"{who}: only {done} of {total} tasks at shots {', '.join(at)}." for (who, done, total), at in gaps.items()
    ]
    return notes


def _on(chosen: Sequence[Average]) -> str:
    """Which data sets an average is meant to be over."""
    sets = dict.fromkeys(name for one in chosen for name in (*one.datasets, *(gap.dataset for gap in one.missing)))
    return next(iter(sets)) if len(sets) == 1 else f"average of {len(sets)} data sets"


def _doubts(entries: dict[tuple[str, int], _Entry], dataset: str) -> list[str]:
    """Errata of the published cells that are shown."""
    shown = {(canonical_method(plan_name(name)), n) for (name, n), entry in entries.items() if entry.known}
    place = AVERAGE if dataset == AVERAGE else canonical_dataset(dataset)
    return [
        f"Published {one.method}, {_shots(one.shots)}: {one.what}."
        for one in errata()
        if one.dataset == place and (one.method, one.shots) in shown
    ]


def _shots(n: int) -> str:
    return f"{n} shot{'s' * (n != 1)}"


def _trimmed(
    key: str, title: str, columns: Sequence[Column], lines: Sequence[tuple[Value, ...]], notes: Sequence[str]
) -> Table | None:
    """A table without columns that have no entry and rows that have none; None if nothing remains."""
    rows = [line for line in lines if any(value is not None for value in line[1:])]
    kept = [i for i in range(len(columns)) if i == 0 or any(row[i] is not None for row in rows)]
    if not rows or len(kept) < 2:
        return None
    cells = tuple(tuple(row[i] for i in kept) for row in rows)
    return Table(key, title, tuple(columns[i] for i in kept), cells, tuple(dict.fromkeys(notes)))
