"""Tables in the paper's shape.

Each number of shots is a group of columns: our mean, the standard deviation of the tasks and the half width of the
95 % interval of the mean, then the published mean and how far ours is from it. Columns, rows and tables without any
entry are left out. If some data sets are incomplete, the average over the others is not in the table, but in a note
that names these sets. What all tables have in common is said once, in `READING`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...images.evaluation import BINS
from ..published import (
    AVERAGE,
    COST_REMARK,
    CYCLES,
    DATASETS,
    DEVIATION_REMARK,
    OPTIMISERS,
    RANDOM_START,
    STANDARD_LOSS,
    STARTS,
    Published,
    canonical_dataset,
    canonical_method,
    errata,
    is_published_encoder,
    published,
    published_average,
    published_cost,
    published_initial_loss,
    published_seconds,
)
from .statistics import Average, Score, average, in_order, in_shots, is_main, keys_of, leads, on_sets, plan_name
from .table import Column, Table, Value, own_keys, table_of

READING = (
    "Accuracies and spreads are in percent, differences in points.",
    "std: standard deviation of the tasks (ddof = 1). 95 % ±: half width of the 95 % interval of their mean, by "
    "Student's t distribution for n tasks. In averages over data sets both are root mean squares over the sets.",
)
"""How to read the tables."""
READING_BEST = (
    "Bold: the highest mean of its column, if it leads every other beyond noise (paired t test over tasks, 5 %).",
)
"""How to read bold entries, if there are any."""
READING_PUBLISHED = (
    f"Published: RN50, figures of the LP++ paper (arXiv 2404.02285), over the same data sets. {DEVIATION_REMARK}",
)
"""How to read the published figures, if there are any."""
TRAINING_FREE = "LP++ (training-free)"
_CELLS = tuple(
    Column(name, kind)
    for kind, names in (
        ("text", "dataset encoder method"),
        ("count", "shots tasks"),
        ("text", "missing"),
        ("percent", "mean std interval_95 interval_95_of_average published_mean published_interval_95"),
        ("points", "difference"),
        ("percent", "calibration_error"),
        ("seconds", "fit_seconds predict_seconds encode_seconds"),
        ("mib", "peak_mib"),
        ("count", "parameters"),
        ("yes", "black_box"),
    )
    for name in names.split()
)
"""Columns of the long table."""

_TableRow = dict[Column, Value]
_Figures = tuple["Score | Average", "Published | None"]
"""What we measured, and what is published."""
_Entries = dict[tuple[str, int], _Figures]
"""By method and shots."""
_Groups = dict[str, dict[str, _Figures]]
"""By heading over columns, then by row."""


def make_tables(scores: Sequence[Score]) -> list[Table]:
    """All tables that have something to show, encoder by encoder."""
    tables: list[Table | None] = []
    encoders = keys_of(scores, "encoder")
    for encoder in encoders:
        ours = [one for one in scores if one.encoder == encoder]
        main = [one for one in ours if is_main(one)]
        sets = keys_of(main, "dataset")
        where = f", {encoder}" if len(encoders) > 1 else ""
        if len(sets) > 1:
            over, title = average(main), f"Accuracy, {on_sets(sets)}{where}"
            tables.append(_by_shots("average", title, "Method", _averages(over), _gaps(over), AVERAGE))
        tables += [_set_table([one for one in main if one.dataset == name], where) for name in sets]
        tables += [make(ours, where) for make in (_optimiser_table, _start_table, _cycle_table, _rate_table)]
        tables.append(_cost_table(main, [one for one in ours if plan_name(one.method) == TRAINING_FREE], where))
    filled = [table for table in tables if table is not None]
    keys = own_keys((table.key for table in filled), "table")
    return [replace(table, key=key) for table, key in zip(filled, keys, strict=True)]


def reading(tables: Sequence[Table]) -> list[str]:
    """How to read these tables."""
    bold = any(table.best for table in tables)
    published = any("published" in column.name for table in tables for column in table.columns)
    return [*READING, *(READING_BEST if bold else ()), *(READING_PUBLISHED if published else ())]


def cells_table(scores: Sequence[Score], averages: Sequence[Average]) -> Table:
    """Everything in one long table: a line for each data set, encoder, method and number of shots."""
    rows = []
    for one in scores:
        special: dict[str, Value] = {
            "missing": " ".join(f"task {seed}" for seed in one.missing) or None,
            "parameters": one.parameter_count,
            "black_box": one.black_box if one.tasks else None,
        }
        rows.append(_cell(one, [one.dataset], special))
    for over in averages:
        if len(over.datasets) + len(over.missing) > 1:
            special = {
                "dataset": AVERAGE,
                "missing": "; ".join(one.dataset for one in over.missing) or None,
                "interval_95_of_average": over.interval_of_average,
            }
            rows.append(_cell(over, over.datasets, special))
    return Table("cells", "All cells", _CELLS, tuple(rows))


def _cell(one: Score | Average, datasets: Sequence[str], special: dict[str, Value]) -> tuple[Value, ...]:
    """A line of the long table: values of `special` by their names, else attributes."""
    known = _known(one.method, datasets, one.shots, one.encoder)
    values: dict[str, Value] = {
        "std": one.deviation,
        "interval_95": one.interval,
        "published_mean": known.mean if known else None,
        "published_interval_95": known.deviation if known else None,
        "difference": _difference(one, known),
        **special,
    }
    names = [column.name for column in _CELLS]
    return tuple(values[name] if name in values else getattr(one, name, None) for name in names)


def _set_table(ours: list[Score], where: str) -> Table | None:
    name = ours[0].dataset
    entries: _Entries = {
        (one.method, one.shots): (one, _known(one.method, [name], one.shots, one.encoder)) for one in ours
    }
    return _by_shots(name, f"Accuracy on {name}{where}", "Method", entries, _counts(ours), name)


def _ablation(ours: list[Score], names: Iterable[str]) -> list[Average]:
    """Averages of the named methods over the data sets that the ablation was run on; none if it was not run."""
    known = set(names)
    chosen = [one for one in ours if plan_name(one.method) in known]
    sets = {one.dataset for one in chosen if not is_main(one)}
    return average([one for one in chosen if one.dataset in sets], together=True)


def _optimiser_table(ours: list[Score], where: str) -> Table | None:
    """Rows are optimisers; losses and the fewest and most shots are groups of columns, as in the paper."""
    chosen = _ablation(ours, [*OPTIMISERS, *(name + STANDARD_LOSS for name in OPTIMISERS)])
    if not chosen:
        return None
    shots = sorted({one.shots for one in chosen})
    most = shots[-1]
    found = {(one.method, one.shots): one for one in chosen}
    entries = _averages(chosen)
    names = list(dict.fromkeys(one.method.removesuffix(STANDARD_LOSS) for one in chosen))
    groups: _Groups = {
        f"{words}, {in_shots(n)}": {name: entries[name + loss, n] for name in names if (name + loss, n) in entries}
        for loss, words in ((STANDARD_LOSS, "standard loss"), ("", "LP++ loss"))
        for n in sorted({shots[0], most})
    }
    lines = _lines("Optimiser", names, groups)
    for name, line in zip(names, lines, strict=True):
        last = found.get((name, most))
        line[Column("fit", "seconds", f"LP++ loss, {in_shots(most)}")] = last.fit_seconds if last else None
        line[Column("published fit", "seconds")] = published_seconds(name) if last and _is_papers(last) else None
    notes = ["The standard loss has no text term. Published times, if any, are of the paper's machine.", *_gaps(chosen)]
    return table_of("optimisers", f"Optimisers and losses, {_on(chosen)}{where}", lines, notes, _leaders(groups))


def _start_table(ours: list[Score], where: str) -> Table | None:
    """Accuracies before any update, then the losses."""
    chosen = _ablation(ours, STARTS)
    low, high = RANDOM_START
    notes = [f"Published for a random start: {low} to {high}."] if any(map(_is_papers, chosen)) else []
    entries = _averages(chosen)
    names, groups = _grouped(entries)
    lines = _lines("Start", names, groups)
    for name, line in zip(names, lines, strict=True):
        for n in sorted({one.shots for one in chosen}):
            one = next((one for one in chosen if (one.method, one.shots) == (name, n) and one.complete), None)
            loss = one.start_loss if one else None
            known = published_initial_loss(name, n) if one and _is_papers(one) and loss is not None else None
            line |= {
                Column("loss", "loss", in_shots(n)): loss,
                Column("published loss", "loss", in_shots(n)): known,
            }
    title = f"Starts, before any update, {_on(chosen)}{where}"
    notes += [*_gaps(chosen), *_doubts(entries, AVERAGE)]
    return table_of("starts", title, lines, notes, _leaders(groups))


def _cycle_table(ours: list[Score], where: str) -> Table | None:
    chosen = _ablation(ours, CYCLES)
    entries = _averages(chosen, lambda name: CYCLES[plan_name(name)])
    notes = ["(a, b): a steps on W, then b on α. LP++ (paper) is (10, 1).", *_gaps(chosen)]
    return _by_shots("cycles", f"Block cycles, {_on(chosen)}{where}", "Cycle", entries, notes, AVERAGE)


def _rate_table(ours: list[Score], where: str) -> Table | None:
    swept = [one for one in ours if one.learning_rate is not None and canonical_method(plan_name(one.method)) is None]
    chosen = sorted(average(swept), key=lambda one: one.learning_rate or 0)
    title = f"Learning rates, {_on(chosen)}{where}"
    return _by_shots("rates", title, "Method", _averages(chosen), _gaps(chosen), AVERAGE)


def _cost_table(main: list[Score], free: list[Score], where: str) -> Table | None:
    """Time, memory and parameters on the largest task: 16-shot ImageNet as in the paper, if it was run.

    Besides the methods of the comparison it has the cost of LP++ before any update.
    """
    chosen = [one for one in [*main, *free] if one.tasks]
    if not any(one.tasks for one in main):
        return None
    paper = [one for one in chosen if (canonical_dataset(one.dataset), one.shots) == ("ImageNet", 16)]
    largest = paper[0] if paper else max(chosen, key=lambda one: (one.parameter_count or 0, one.shots))
    lines = []
    for one in chosen:
        if (one.dataset, one.shots) == (largest.dataset, largest.shots):
            known = published_cost(plan_name(one.method))
            line: _TableRow = {
                Column("Method"): one.method,
                Column("fit", "seconds"): one.fit_seconds,
                Column("published fit"): known.get("time") if paper and is_published_encoder(one.encoder) else None,
                Column("predict", "seconds"): one.predict_seconds,
                Column("encode", "seconds"): one.encode_seconds,
                Column("memory", "mib"): one.peak_mib,
                Column("black box", "yes"): one.black_box,
                Column("parameters", "count"): one.parameter_count,
                Column("trained, by the official recipe"): known.get("trained"),
                Column("calibration error", "percent"): one.calibration_error,
            }
            lines.append(line)
    notes = [
        "Medians over tasks. Fit: with any search, features given. Encode: all images of the data set, once. Memory: "
        "what the fit took on top of what was there before. Black box: embeddings were enough. Calibration error: mean "
        f"over tasks, {BINS} bins of equal width.",
    ]
    notes += [COST_REMARK] if paper else []
    title = f"Run time, black box and parameters, {in_shots(largest.shots)} of {largest.dataset}{where}"
    return table_of("cost", title, lines, notes)


def _by_shots(key: str, title: str, first: str, entries: _Entries, notes: Sequence[str], dataset: str) -> Table | None:
    """Methods down, shots across."""
    names, groups = _grouped(entries)
    doubts = _doubts(entries, dataset)
    return table_of(key, title, _lines(first, names, groups), [*notes, *doubts], _leaders(groups))


def _grouped(entries: _Entries) -> tuple[list[str], _Groups]:
    """The rows' names, and entries grouped by shots."""
    groups: _Groups = {in_shots(n): {} for n in sorted({n for _, n in entries})}
    for (name, n), entry in entries.items():
        groups[in_shots(n)][name] = entry
    return in_order(dict.fromkeys(name for name, _ in entries)), groups


def _lines(first: str, names: Sequence[str], groups: _Groups) -> list[_TableRow]:
    """A line for each name, with five columns for each group."""
    lines = []
    for name in names:
        line: _TableRow = {Column(first): name}
        for heading, rows in groups.items():
            line |= _columns(heading, rows.get(name))
        lines.append(line)
    return lines


def _columns(heading: str, entry: _Figures | None) -> _TableRow:
    columns = [
        _mean(heading),
        Column("std", "percent", heading),
        Column("95 % ±", "percent", heading),
        Column("published", "percent", heading),
        Column("difference", "points", heading),
    ]
    if entry is None:
        return dict.fromkeys(columns)
    one, known = entry
    values = (one.mean, one.deviation, one.interval, known.mean if known else None, _difference(one, known))
    return dict(zip(columns, values, strict=True))


def _mean(heading: str) -> Column:
    return Column("mean", "percent", heading)


def _leaders(groups: _Groups) -> dict[Column, str]:
    """The row with the highest mean of each group, if it is significantly better than every other."""
    leaders = {}
    for heading, rows in groups.items():
        ranked = sorted(rows, key=lambda name: rows[name][0].mean or 0.0, reverse=True)
        if len(ranked) > 1 and all(leads(rows[ranked[0]][0], rows[name][0]) for name in ranked[1:]):
            leaders[_mean(heading)] = ranked[0]
    return leaders


def _difference(one: Score | Average, known: Published | None) -> float | None:
    return None if one.mean is None or known is None else one.mean - known.mean


def _averages(chosen: Iterable[Average], known_as: Callable[[str], str] = lambda name: name) -> _Entries:
    """Entries of complete averages; `_gaps` says why others are missing."""
    return {
        (one.method, one.shots): (one, _known(known_as(one.method), one.datasets, one.shots, one.encoder))
        for one in chosen
        if one.complete
    }


def _known(method: str, datasets: Sequence[str], shots: int, encoder: str) -> Published | None:
    """The published figure of a method on these data sets; None for another encoder than the paper's."""
    if not is_published_encoder(encoder) or not datasets:
        return None
    name = plan_name(method)
    return published(name, datasets[0], shots) if len(datasets) == 1 else published_average(name, datasets, shots)


def _is_papers(one: Average) -> bool:
    """Whether an average is over the paper's eleven data sets with its encoder."""
    names = {canonical_dataset(name) for name in one.datasets}
    return one.complete and names == set(DATASETS) and is_published_encoder(one.encoder)


def _gaps(chosen: Iterable[Average]) -> list[str]:
    """Why an average is missing, and the average over the sets that are complete."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for one in chosen:
        if one.complete:
            continue
        lacks = ", ".join(f"{gap.dataset} ({gap.tasks} of {gap.tasks + len(gap.missing)} tasks)" for gap in one.missing)
        who = one.method
        if one.mean is not None:
            known = _known(one.method, one.datasets, one.shots, one.encoder)
            beside = f", published {known.mean:.2f}" if known else ""
            who += f" (over the other {len(one.datasets)}: {one.mean:.2f}{beside})"
        reasons.setdefault((one.shots, lacks), []).append(who)
    return [f"{in_shots(n)}: incomplete on {lacks}: {'; '.join(who)}." for (n, lacks), who in sorted(reasons.items())]


def _counts(chosen: Sequence[Score]) -> list[str]:
    """How many tasks there are per cell, and which methods lack some."""
    numbers = {one.tasks for one in chosen if one.complete}
    notes = []
    if numbers:
        low, high = min(numbers), max(numbers)
        notes.append(f"{low} to {high} tasks per cell." if low < high else f"{low} task{'s' * (low != 1)} per cell.")
    gaps: dict[tuple[str, int, int], list[str]] = {}
    for one in chosen:
        if one.missing:
            gaps.setdefault((one.method, one.tasks, one.tasks + len(one.missing)), []).append(str(one.shots))
    notes += [
        f"{who}: only {done} of {total} tasks at shots {', '.join(at)}." for (who, done, total), at in gaps.items()
    ]
    return notes


def _on(chosen: Sequence[Average]) -> str:
    """The data sets that an average should have, in words."""
    sets = dict.fromkeys(name for one in chosen for name in (*one.datasets, *(gap.dataset for gap in one.missing)))
    return on_sets(list(sets))


def _doubts(entries: _Entries, dataset: str) -> list[str]:
    """Errata of the published cells that are shown."""
    shown = {(canonical_method(plan_name(name)), n) for (name, n), (_, known) in entries.items() if known}
    place = AVERAGE if dataset == AVERAGE else canonical_dataset(dataset)
    return [
        f"Published {one.method}, {in_shots(one.shots)}: {one.what}."
        for one in errata()
        if one.dataset == place and (one.method, one.shots) in shown
    ]
