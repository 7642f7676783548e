"""`lpp bench`: the fair benchmark."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from .console import add_row, bar, out, say, show_json, table, warn
from .options import Debug, Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..bench.plan import Plan
    from ..bench.report.statistics import Average
    from ..bench.results import Results, Row
    from ..bench.runner import Summary

Root = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--root", help="Folder with the data sets, one folder each, as CoOp has them."),
]
Catalog = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("--catalog", help="A file with data sets of your own, in the catalogue's form."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.", show_default=False)]
Jobs = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--jobs", "-j", min=1, help="Cells at once; default as many as there are cores."),
]
Tasks = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--tasks", min=1, help="Tasks for each number of shots, instead of the plan's."),
]


REASONS = 12
"""Of failures to print."""


class Format(str, Enum):
    """Of a report."""

    markdown = "markdown"
    latex = "latex"
    html = "html"
    csv = "csv"
    json = "json"


def run(
    plan: Annotated[
        str, typer.Argument(help="A .toml file, or the name of a plan of the package.", show_default=False)
    ],
    output: Output,
    root: Root = None,
    catalog: Catalog = None,
    jobs: Jobs = None,
    tasks: Tasks = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a plan: data sets × methods × shots × tasks × encoders. Run again, it does what is missing."""
    from ..bench.plan import read_plan

    raise typer.Exit(_run(read_plan(plan, **_changes(tasks)), output, root, jobs, as_json, tuple(catalog or ())))


def paper(
    output: Output, root: Root = None, jobs: Jobs = None, tasks: Tasks = None, as_json: Json = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Run the paper's grid: eleven data sets, thirteen methods, 1 to 16 shots, ten tasks, RN50."""
    run("paper", output, root, None, jobs, tasks, as_json, debug)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path("bench-demo"),
    jobs: Jobs = None,
    tasks: Tasks = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare all feature-level methods on the package's own pictures, with tables and figures, in minutes."""
    from ..bench.plan import read_plan
    from ..bench.report import write_report
    from ..bench.results import Results

    plan = read_plan("demo", **_changes(tasks))
    failed = _run(plan, output, None, jobs, as_json)
    file = write_report(Results(output, create=False), output / "report", "html", planned=plan.all_cells())
    if not as_json:
        say("report: [bold]{}[/]", file)
    raise typer.Exit(failed)


def report(
    results: Annotated[Path, typer.Argument(help="A results folder.", show_default=False)],
    form: Annotated[Format, typer.Option("--format", "-f", help="What to write.")] = Format.markdown,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--output", "-o", help="Folder for the report and its figures; default, print the tables."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Tables in the paper's shape, with the published figures beside ours."""
    from ..bench import report as reports
    from ..bench.results import Results

    opened = Results(results, create=False)
    if output is None:
        print(reports.report(opened, form.value))
        return
    say("written: [bold]{}[/]", reports.write_report(opened, output, form.value))


def draws(
    results: Annotated[Path, typer.Argument(help="A results folder.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Export the tasks of a run: which images were support, validation and test. A plan's `draws` key imports them."""
    from ..bench.results import Results
    from ..bench.tasks import Draw, write_draws

    found = [Draw.from_dict(saved) for saved in Results(results, create=False).draws().values()]
    write_draws(output, sorted(found, key=lambda draw: (draw.dataset, draw.shots, draw.seed)))
    say("[bold]{}[/]: {} tasks", output, len(found))


def datasets(
    root: Root = None,
    more: Catalog = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """What data sets there are, which are here, and how to get the others."""
    from ..bench.datasets import catalog

    rows: list[dict[str, Any]] = []
    for entry in catalog(*(more or ())).values():
        status = None if root is None else entry.status(root)
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "folder": entry.folder,
                "classes": entry.classes,
                "state": None if status is None else status.state,
                "usable": None if status is None else status.usable,
                "found": {} if status is None else dict(status.found),
                "expected": dict(entry.counts),
                "missing": [] if status is None else list(status.missing),
                "problem": "" if status is None else status.problem,
                "advice": entry.advice,
            }
        )
    if as_json:
        show_json(rows)
        return
    shown = table("", "name", "classes", "folder", "here", right=("classes",))
    for row in rows:
        add_row(shown, row["name"], row["classes"], row["folder"], row["state"] or "–")
    out().print(shown)
    for row in rows:
        if not row["usable"]:
            say("[bold]{}[/]: {}", row["name"], " ".join(part for part in (row["problem"], row["advice"]) if part))


def _changes(tasks: int | None) -> dict[str, int]:
    return {} if tasks is None else {"tasks": tasks}


def _run(
    plan: Plan, output: Path, root: Path | None, jobs: int | None, as_json: bool, catalogs: tuple[Path, ...] = ()
) -> int:
    """Run what is missing and tell of it; 1 where a cell failed."""
    _check_packages(plan)
    from ..bench.datasets import catalog
    from ..bench.problems import Sources
    from ..bench.results import Results
    from ..bench.runner import run_plan

    if catalogs:
        ours = catalog()
        theirs = {name: entry for name, entry in catalog(*catalogs).items() if name not in ours}
        plan = replace(plan, declared=theirs | dict(plan.declared))
    results = Results(output)
    with bar(plan.name) as progress:
        summary = run_plan(
            plan,
            results,
            Sources(root, output / "features"),
            n_jobs=jobs,
            progress=progress,
        )
    return _tell(plan, results, summary, as_json)


def _check_packages(plan: Plan) -> None:
    """Refuse before anything is embedded, not after."""
    import lpplusplus

    kinds = {one.name: getattr(lpplusplus, one.estimator, None) for one in plan.methods}
    training = [name for name, kind in kinds.items() if getattr(kind, "needs_torch", False)]
    if training and find_spec("torch") is None:
        raise ValueError(
            f"{', '.join(training)} of this plan train with torch, which is not installed: pip install "
            f'"lpplusplus[bench]" (in a clone of the repository, ".[bench]"), or write a plan without them.'
        )


def _tell(plan: Plan, results: Results, summary: Summary, as_json: bool) -> int:
    from ..bench.report.statistics import average, summarise

    planned = {cell.key: cell for cell in plan.all_cells()}
    rows = [row for row in results.rows() if row.cell.key in planned]
    failures = [row for row in results.rows(failed=True) if row.cell.key in planned]
    averages = average(summarise(rows, failures, planned.values()), together=True)
    if as_json:
        show_json(
            {
                **vars(summary),
                "averages": [_as_dict(one) for one in averages],
                "overhead": summary.overhead,
                "results": str(results.path),
                "failures": [{"cell": vars(row.cell), "error": _reason(row)} for row in failures],
            }
        )
    else:
        say(
            "[bold]{}[/]: {} cells, {} there already, {} run now in {} s ({} s inside the methods), {} failed",
            results.path,
            summary.cells,
            summary.already,
            summary.run,
            f"{summary.seconds:.0f}",
            f"{summary.method_seconds:.0f}",
            summary.failed,
        )
        for backbone in plan.backbones if rows else ():
            _averages(backbone, plan.shots, averages)
    reasons = sorted({_reason(row) for row in failures})
    for reason in reasons[:REASONS]:
        warn(f"failed: {reason}")
    if len(reasons) > REASONS:
        warn(f"… and {len(reasons) - REASONS} other reasons, which --json has.")
    left = summary.cells - summary.already - summary.run
    if left:
        warn(f"{left} cells are left to another process that is at work on them; run this again when it has ended.")
    return 1 if failures else 0


def _reason(row: Row) -> str:
    """Why a cell failed, in its error's own words; a Python class is named only where it is not ours."""
    last = row.traceback.strip().splitlines()[-1]
    return re.sub(r"^lpplusplus[\w.]*: ", "", last)


def _as_dict(one: Average) -> dict[str, Any]:
    kept = ("backbone", "method", "shots", "datasets", "complete", "mean", "deviation", "fit_seconds")
    return {name: getattr(one, name) for name in kept}


def _averages(backbone: str, shots: Sequence[int], averages: Sequence[Average]) -> None:
    """Mean test accuracy of each method over the data sets; a dash where a task is missing."""
    heads = [str(n) for n in shots]
    shown = table(f"Mean test accuracy, {backbone}", "method", *heads, right=tuple(heads))
    ours = {(one.method, one.shots): one for one in averages if one.backbone == backbone}
    for method in dict.fromkeys(method for method, _ in ours):
        cells = [ours.get((method, n)) for n in shots]
        add_row(shown, method, *("–" if c is None or not c.complete else f"{c.mean:.1f} %" for c in cells))
    out().print(shown)
