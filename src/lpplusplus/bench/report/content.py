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
from .table import Column, Table, table_of
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
    settings: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for name, value in cell.protocol.items():
            sets = settings.setdefault(name, {}).setdefault(_plain(value), [])
            if cell.dataset not in sets:
                sets.append(cell.dataset)
    lines = []
    for name, values in sorted(settings.items()):
        if len(values) == 1:
            lines.append((name, next(iter(values))))
        else:
            lines += [(f"{name} ({', '.join(sets)})", value) for value, sets in values.items()]
    return lines


def _methods_table(rows: Sequence[Row]) -> Table | None:
    """How each method was run, and how it selected its result."""
    names = distinct([row.cell for row in rows])
    columns = [Column(n) for n in ("Method", "class", "parameters", "given validation images", "selection")]
    lines: dict[tuple[str, ...], None] = {}
    for row in rows:
        cell = row.cell
        given = {key: value for key, value in cell.parameters.items() if key != "random_state"}
        parameters = ", ".join(f"{key} = {_plain(value)}" for key, value in given.items()) or "defaults"
        validation = "yes" if cell.validation else "no"
        lines[
            names[cell.key],
            cell.estimator,
            parameters,
            validation,
            NOT_RECORDED if row.selection in ("", UNSURE) else row.selection,
        ] = None
    order = in_order(dict.fromkeys(names.values()))
    found = sorted(lines, key=lambda line: order.index(line[0]))
    return table_of("methods", "Methods as they were run", [dict(zip(columns, line, strict=True)) for line in found])


def _draws_table(rows: Sequence[Row]) -> Table | None:
    """Draws of each data set: how many, how large, and whether their supports differ."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.dataset, row.cell.shots), []).append(row)
    lines = [
        {
            Column("Data set"): dataset,
            Column("shots", "count"): shots,
            Column("draws", "count"): len({row.cell.seed for row in found}),
            Column("different draws", "count"): len({row.draw for row in found if row.draw}) or None,
            **{
                Column(f"{part} images", "count"): max(getattr(row, f"{part}_images") for row in found)
                for part in ("support", "validation", "test")
            },
        }
        for (dataset, shots), found in groups.items()
    ]
    return table_of("draws", "Draws", lines)


def _versions(rows: Sequence[Row]) -> list[tuple[str, str]]:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, version in row.versions.items():
            found.setdefault(name, {})[version] = None
    return [(name, ", ".join(versions)) for name, versions in sorted(found.items())]


def grouped_failures(failed: Iterable[Row]) -> list[Failures]:
    """Failures by their reason, the most frequent first, each told once."""
    groups: dict[str, list[Row]] = {}
    for row in failed:
        groups.setdefault(reason_of(row), []).append(row)
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


def reason_of(row: Row) -> str:
    """Why a cell failed, the last line of its traceback."""
    lines = row.traceback.strip().splitlines()
    return lines[-1].strip()[:LONGEST_REASON] if lines else "no traceback was kept"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(things: Sequence[object]) -> str:
    """1, 2 and 4."""
    texts = [str(thing) for thing in things]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
