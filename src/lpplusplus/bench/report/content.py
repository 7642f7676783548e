"""All that a report says, gathered once from the results; the documents only write it down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..results import Cell, Results, Row
from .figures import Picture, make_figures
from .statistics import Average, Summary, average, distinct, in_order, is_main, keys_of, summarise
from .tables import READING, READING_PUBLISHED, Column, Table, cells_table, has_published, make_tables

TITLE = "Benchmark of few-shot classifiers"


@dataclass(frozen=True)
class Failure:
    """A cell that has not succeeded."""

    what: str
    reason: str
    """Last line of the traceback."""
    traceback: str


@dataclass(frozen=True)
class Content:
    """What a report says."""

    summary: list[str]
    """Sentences: what ran, how much of it, what failed."""
    reading: list[str]
    tables: list[Table]
    cells: Table
    """Everything in one long table."""
    pictures: list[Picture]
    remarks: list[str]
    """Why a figure is not there."""
    protocol: list[tuple[str, str]]
    protocol_tables: list[Table]
    versions: list[tuple[str, str]]
    failures: list[Failure]


def gather(results: Results, planned: Iterable[Cell] = (), *, figures: bool = True) -> Content:
    """Read the results; `planned` are the cells that there ought to be, where that is known."""
    rows, failed = results.rows(), results.rows(failed=True)
    summaries = summarise(rows, failed, planned)
    averages = average(summaries)
    tables = make_tables(summaries)
    pictures: list[Picture] = []
    remarks: list[str] = []
    if figures and rows:
        try:
            pictures, remarks = make_figures(rows, summaries)
        except ImportError as error:
            remarks = [f"No figures: {error}"]
    return Content(
        _in_words(rows, failed, summaries, averages),
        [*READING, *(READING_PUBLISHED if has_published(tables) else ())],
        tables,
        cells_table(summaries, averages),
        pictures,
        remarks,
        _protocol([row.cell for row in [*rows, *failed]]),
        [table for table in (_methods_table([*rows, *failed]), _draws_table(rows)) if table.rows],
        _versions([*rows, *failed]),
        [_failure(row) for row in failed],
    )


def _in_words(
    rows: Sequence[Row], failed: Sequence[Row], summaries: Sequence[Summary], averages: Sequence[Average]
) -> list[str]:
    if not summaries:
        return ["There are no results yet."]
    names = {name: keys_of(summaries, name) for name in ("dataset", "backbone", "method")}
    shots = sorted({one.shots for one in summaries})
    lacking = sum(len(one.missing) for one in summaries)
    sentences = [
        f"{_count(names['method'], 'method')} on {_count(names['dataset'], 'data set')} "
        f"({_listed(names['dataset'])}) with {_listed(names['backbone'])}, at {_listed(shots)} "
        f"shot{'s' * (shots != [1])}: {len(rows)} tasks done"
        + (f", {lacking} missing, of which {len(failed)} failed." if lacking or failed else ", none missing.")
    ]
    for backbone in names["backbone"]:
        best: dict[str, list[int]] = {}
        for n in shots:
            over = [
                one
                for one in averages
                if (one.backbone, one.shots) == (backbone, n) and is_main(one) and one.complete and one.mean is not None
            ]
            if len(over) > 1:
                best.setdefault(max(over, key=lambda one: one.mean or 0.0).method, []).append(n)
        if best:
            where = f" with {backbone}" if len(names["backbone"]) > 1 else ""
            said = "; ".join(f"{method} at {_listed(at)}" for method, at in best.items())
            sentences.append(f"Highest mean accuracy{where}, by shots: {said}.")
    finished = max((row.finished for row in [*rows, *failed]), default=0.0)
    if finished:
        moment = datetime.fromtimestamp(finished, timezone.utc)
        sentences.append(f"The last task ended on {moment:%Y-%m-%d at %H:%M} UTC.")
    return sentences


def _protocol(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Each setting once, or by data set where sets differ."""
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


def _methods_table(rows: Sequence[Row]) -> Table:
    """How each method was run, and how it chose what it chose."""
    names = distinct([row.cell for row in rows])
    lines: dict[tuple[str, str, str, str, str], None] = {}
    for row in rows:
        cell = row.cell
        given = {key: value for key, value in cell.parameters.items() if key != "random_state"}
        parameters = ", ".join(f"{key} = {_plain(value)}" for key, value in given.items()) or "defaults"
        validation = "yes" if cell.validation else "no"
        lines[names[cell.key], cell.estimator, parameters, validation, row.selection or "–"] = None
    order = in_order(dict.fromkeys(names.values()))
    found = tuple(sorted(lines, key=lambda line: order.index(line[0])))
    columns = ("Method", "class", "parameters", "given validation images", "selection")
    return Table("methods", "Methods as they were run", tuple(Column(name) for name in columns), found)


def _draws_table(rows: Sequence[Row]) -> Table:
    """Tasks of each data set: how many, how large, and whether their supports differ."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.dataset, row.cell.shots), []).append(row)
    columns = (
        Column("Data set"),
        Column("shots", "count"),
        Column("tasks", "count"),
        Column("different draws", "count"),
        Column("support images", "count"),
        Column("validation images", "count"),
        Column("test images", "count"),
    )
    lines = []
    for (dataset, shots), found in groups.items():
        tasks, draws = {row.cell.seed for row in found}, {row.draw for row in found if row.draw}
        sizes = (max(getattr(row, f"{part}_images") for row in found) for part in ("support", "validation", "test"))
        lines.append((dataset, shots, len(tasks), len(draws) or None, *sizes))
    return Table("tasks", "Tasks", columns, tuple(lines))


def _versions(rows: Sequence[Row]) -> list[tuple[str, str]]:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, version in row.versions.items():
            found.setdefault(name, {})[version] = None
    return [(name, ", ".join(versions)) for name, versions in sorted(found.items())]


def _failure(row: Row) -> Failure:
    cell = row.cell
    shots = f"{cell.shots} shot{'s' * (cell.shots != 1)}"
    what = f"{cell.method} on {cell.dataset}, {cell.backbone}, {shots}, task {cell.seed}"
    lines = row.traceback.strip().splitlines()
    return Failure(what, lines[-1].strip() if lines else "no traceback was kept", row.traceback.strip())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _listed(things: Sequence[object]) -> str:
    """1, 2 and 4."""
    texts = [str(thing) for thing in things]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
