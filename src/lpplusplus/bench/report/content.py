"""The content of a report, computed once from the results; the documents only format it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pandas import DataFrame

from ..cell import Cell, Row
from ..results import NOT_RECORDED, UNSURE, Results
from .ablations import ablation_tables
from .drawing import Plot
from .figures import make_figures
from .statistics import average, counted, distinct, in_order, in_shots, summarise
from .table import Column, Table, Value, table_of
from .tables import cells_table, make_tables, paired_tables, reading

TITLE = "Benchmark of few-shot classifiers"
MOST_NAMED = 5
"""Cells that are named of a longer list."""
LONGEST_TRACEBACK, LONGEST_REASON = 4000, 500
"""In letters."""


@dataclass(frozen=True)
class Failures:
    """Cells that failed for one reason."""

    what: str
    """The cells: the first few, and how many more."""
    reason: str
    """Last line of the traceback."""
    traceback: str
    """Of the first of them; its middle is left out if it is long."""
    count: int


@dataclass(frozen=True)
class ReportContent:
    """What a report says."""

    summary: list[str]
    """Sentences: what ran, what is missing, which method was best."""
    reading: list[str]
    """How to read the tables."""
    tables: list[Table]
    cells: Table
    """Everything in one long table."""
    plots: list[Plot]
    remarks: list[str]
    """Why a figure is missing."""
    protocol: list[tuple[str, str]]
    protocol_tables: list[Table]
    versions: list[tuple[str, str]]
    failures: list[Failures]


def report_content(
    results: Results, planned: Iterable[Cell] = (), *, figures: bool = True, against: str | None = None
) -> ReportContent:
    """Read the results. `planned` are the cells of the plan; by default those of the plans that the folder keeps.

    Failures of cells that are in no plan any more do not count. `against` is a method to compare with.
    """
    wanted = list(planned) or results.planned()
    keys = {cell.key for cell in wanted}
    rows = results.rows()
    failed = [row for row in results.rows(failed=True) if not keys or row.cell.key in keys]
    scores = summarise(rows, failed, wanted)
    averages = average(scores)
    tables = [*(paired_tables(scores, against) if against else ()), *make_tables(scores, ablation_tables)]
    plots: list[Plot] = []
    remarks: list[str] = []
    if figures and rows:
        try:
            plots, remarks = make_figures(rows, scores)
        except ImportError as error:
            remarks = [f"No figures: {error}"]
    both = [*rows, *failed]
    return ReportContent(
        _sentences(rows, failed, scores, averages),
        reading(tables),
        tables,
        cells_table(scores, averages),
        plots,
        remarks,
        _protocol([row.cell for row in both]),
        [table for table in (_methods_table(both), _draws_table(rows)) if table is not None],
        _versions(both),
        grouped_failures(failed),
    )


def _sentences(rows: Sequence[Row], failed: Sequence[Row], scores: DataFrame, averages: DataFrame) -> list[str]:
    if scores.empty:
        return ["There are no results yet."]
    methods, sets, encoders = ([*scores[name].unique()] for name in ("method", "dataset", "encoder"))
    shots = sorted(scores.shots.unique())
    lacking = int(scores.missing.map(len).sum())
    gaps = f"{lacking} missing, of which {len(failed)} failed" if lacking or failed else "none missing"
    sentences = [
        f"{counted(len(methods), 'method')} on {counted(len(sets), 'data set')} ({_listed(sets)}) with "
        f"{_listed(encoders)}, at {_listed(shots)} shot{'s' * (shots != [1])}: {counted(len(rows), 'cell')} done, "
        f"{gaps}."
    ]
    partly = [f"{one.method} ({one.draws} of {one.draws + len(one.missing)} at {in_shots(one.shots)} of {one.dataset})"
              for one in scores.itertuples() if one.missing]  # fmt: skip
    if partly:
        more = f" and {len(partly) - MOST_NAMED} more" if len(partly) > MOST_NAMED else ""
        sentences.append(f"Draws are missing of {', '.join(partly[:MOST_NAMED])}{more}.")
    for encoder, over in averages.groupby("encoder", sort=False):
        sentences += _best(over[over.group == "main"], f" with {encoder}" if len(encoders) > 1 else "")
    finished = max((row.finished for row in [*rows, *failed]), default=0.0)
    if finished:
        moment = datetime.fromtimestamp(finished, timezone.utc)
        sentences.append(f"The last cell ended on {moment:%Y-%m-%d at %H:%M} UTC.")
    return sentences


def _best(main: DataFrame, where: str) -> list[str]:
    """Which method has the highest mean at which shots, if there are several methods."""
    best: dict[str, list[int]] = {}
    partly: list[int] = []
    for n, part in main.groupby("shots"):
        whole = part[part.complete]
        if any(done for missing in part.missing for _, done, _ in missing):  # Means over different draws say little.
            partly.append(n)
        elif len(whole) > 1:
            best.setdefault(whole.method[whole["mean"].idxmax()], []).append(n)
    said = "; ".join(f"{method} at {_listed(at)}" for method, at in best.items())
    waiting = f" At {_listed(partly)}, draws are missing." if partly else ""
    return [f"Highest mean accuracy{where}, by shots: {said}.{waiting}"] if best else []


def _protocol(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Each setting once, or by data set if sets differ."""
    sets: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells:
        for name, value in cell.protocol.items():
            sets.setdefault(name, {}).setdefault(_plain(value), {})[cell.dataset] = None
    return [
        (name if len(values) == 1 else f"{name} ({', '.join(names)})", value)
        for name, values in sorted(sets.items())
        for value, names in values.items()
    ]


def _methods_table(rows: Sequence[Row]) -> Table | None:
    """How each method was run, and how it selected its result."""
    names = distinct([row.cell for row in rows])
    lines = []
    for row in rows:
        given = {key: value for key, value in row.cell.parameters.items() if key != "random_state"}
        line: dict[Column, Value] = {
            Column("Method"): names[row.cell.key],
            Column("class"): row.cell.estimator,
            Column("parameters"): ", ".join(f"{key} = {_plain(value)}" for key, value in given.items()) or "defaults",
            Column("given validation images"): "yes" if row.cell.validation else "no",
            Column("selection"): NOT_RECORDED if row.selection in ("", UNSURE) else row.selection,
        }
        if line not in lines:
            lines.append(line)
    order: list[Value] = [*in_order(names.values())]
    lines.sort(key=lambda line: order.index(line[Column("Method")]))
    return table_of("methods", "Methods as they were run", lines)


def _draws_table(rows: Sequence[Row]) -> Table | None:
    """Draws of each data set: how many, how large, and whether their supports differ."""
    images = ["support_images", "validation_images", "test_images"]
    names = ["dataset", "shots", "seed", "draw", *images]
    table = DataFrame([{**vars(row.cell), **vars(row), "draw": row.draw or None} for row in rows], columns=names)
    lines = []
    for (dataset, shots), part in table.groupby(["dataset", "shots"], sort=False):
        counts = {"shots": shots, "draws": part.seed.nunique(), "different draws": part.draw.nunique() or None}
        counts |= {name.replace("_", " "): part[name].max() for name in images}
        lines.append({Column("Data set"): dataset, **{Column(name, "count"): n for name, n in counts.items()}})
    return table_of("draws", "Draws", lines)


def _versions(rows: Sequence[Row]) -> list[tuple[str, str]]:
    pairs = dict.fromkeys(pair for row in rows for pair in row.versions.items())
    names = sorted({name for name, _ in pairs})
    return [(name, ", ".join(version for other, version in pairs if other == name)) for name in names]


def grouped_failures(failed: Iterable[Row]) -> list[Failures]:
    """Failures by their reason, the last line of their traceback: the most frequent first, each told once."""
    groups: dict[str, list[Row]] = {}
    for row in failed:
        last = (row.traceback.strip().splitlines() or ["no traceback was kept"])[-1]
        groups.setdefault(last.strip()[:LONGEST_REASON], []).append(row)
    found = []
    for reason, rows in sorted(groups.items(), key=lambda group: -len(group[1])):
        cells = [f"{c.method} on {c.dataset}, {c.encoder}, {in_shots(c.shots)}, draw {c.seed}"
                 for c in (row.cell for row in rows[:MOST_NAMED])]  # fmt: skip
        more = f"; and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        text = rows[0].traceback.strip()
        if len(text) > LONGEST_TRACEBACK:
            text = f"{text[: LONGEST_TRACEBACK // 2]}\n…\n{text[-LONGEST_TRACEBACK // 2 :]}"
        found.append(Failures("; ".join(cells) + more, reason, text, len(rows)))
    return found


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(things: Sequence[object]) -> str:
    """1, 2 and 4."""
    texts = [str(thing) for thing in things]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
