"""The content of a report, computed once from the results; the documents only format it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..cell import Cell
from ..results import NOT_RECORDED, UNSURE, Results, Row
from .drawing import Plot
from .figures import make_figures
from .paired import paired_tables
from .statistics import Average, Score, average, distinct, in_order, in_shots, is_main, keys_of, summarise
from .table import Column, Table, table_of
from .tables import cells_table, make_tables, reading

TITLE = "Benchmark of few-shot classifiers"


@dataclass(frozen=True)
class FailedCell:
    """A cell that has not succeeded."""

    what: str
    reason: str
    """Last line of the traceback."""
    traceback: str


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
    failures: list[FailedCell]


def report_content(
    results: Results, planned: Iterable[Cell] = (), *, figures: bool = True, against: str | None = None
) -> ReportContent:
    """Read the results; `planned` are the cells of the plan, if it is known; `against` is a method to compare with."""
    rows, failed = results.rows(), results.rows(failed=True)
    scores = summarise(rows, failed, planned)
    averages = average(scores)
    tables = [*(paired_tables(scores, against) if against else ()), *make_tables(scores)]
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
        [_failure(row) for row in failed],
    )


def _sentences(
    rows: Sequence[Row], failed: Sequence[Row], scores: Sequence[Score], averages: Sequence[Average]
) -> list[str]:
    if not scores:
        return ["There are no results yet."]
    methods, sets, encoders = (keys_of(scores, name) for name in ("method", "dataset", "encoder"))
    shots = sorted({one.shots for one in scores})
    lacking = sum(len(one.missing) for one in scores)
    gaps = f"{lacking} missing, of which {len(failed)} failed" if lacking or failed else "none missing"
    sentences = [
        f"{_count(methods, 'method')} on {_count(sets, 'data set')} ({_listed(sets)}) with {_listed(encoders)}, at "
        f"{_listed(shots)} shot{'s' * (shots != [1])}: {len(rows)} tasks done, {gaps}."
    ]
    for encoder in encoders:
        where = f" with {encoder}" if len(encoders) > 1 else ""
        sentences += _best([one for one in averages if one.encoder == encoder], where)
    finished = max((row.finished for row in [*rows, *failed]), default=0.0)
    if finished:
        moment = datetime.fromtimestamp(finished, timezone.utc)
        sentences.append(f"The last task ended on {moment:%Y-%m-%d at %H:%M} UTC.")
    return sentences


def _best(averages: Sequence[Average], where: str) -> list[str]:
    """Which method has the highest mean at which shots, if there are several methods."""
    best: dict[str, list[int]] = {}
    partly: list[int] = []
    main = [one for one in averages if is_main(one)]
    for n in sorted({one.shots for one in main}):
        compared = [one for one in main if one.shots == n and one.complete and one.mean is not None]
        under_way = [part for one in main if one.shots == n for part in one.missing if part.mean is not None]
        if under_way:  # Means over different tasks say little.
            partly.append(n)
        elif len(compared) > 1:
            best.setdefault(max(compared, key=lambda one: one.mean or 0.0).method, []).append(n)
    said = "; ".join(f"{method} at {_listed(at)}" for method, at in best.items())
    waiting = f" At {_listed(partly)}, tasks are missing." if partly else ""
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
    """Tasks of each data set: how many, how large, and whether their supports differ."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.dataset, row.cell.shots), []).append(row)
    lines = [
        {
            Column("Data set"): dataset,
            Column("shots", "count"): shots,
            Column("tasks", "count"): len({row.cell.seed for row in found}),
            Column("different draws", "count"): len({row.draw for row in found if row.draw}) or None,
            **{
                Column(f"{part} images", "count"): max(getattr(row, f"{part}_images") for row in found)
                for part in ("support", "validation", "test")
            },
        }
        for (dataset, shots), found in groups.items()
    ]
    return table_of("tasks", "Tasks", lines)


def _versions(rows: Sequence[Row]) -> list[tuple[str, str]]:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, version in row.versions.items():
            found.setdefault(name, {})[version] = None
    return [(name, ", ".join(versions)) for name, versions in sorted(found.items())]


def _failure(row: Row) -> FailedCell:
    cell = row.cell
    what = f"{cell.method} on {cell.dataset}, {cell.encoder}, {in_shots(cell.shots)}, task {cell.seed}"
    lines = row.traceback.strip().splitlines()
    return FailedCell(what, lines[-1].strip() if lines else "no traceback was kept", row.traceback.strip())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _listed(things: Sequence[object]) -> str:
    """1, 2 and 4."""
    texts = [str(thing) for thing in things]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
