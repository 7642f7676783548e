"""`lpp bench`: the fair benchmark, its results, and which data sets there are for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .command import add_command, examples
from .console import bar, say, show_json, show_table, warn
from .outputs import check_file, check_replaced
from .ray import Engine, EngineOption, RayAddress, ray_workers

if TYPE_CHECKING:
    from ..bench.cell import Row
    from ..bench.plan import Plan
    from ..bench.results import Results
    from ..bench.runner import RunSummary, Workers

RootFolder = Annotated[Path | None, Option(help="Folder with a folder per data set, laid out as CoOp has them.")]
Catalogs = Annotated[list[Path] | None, Option("--catalog", help="File with data sets of your own, as in the catalog.")]
NewResults = Annotated[Path, Option("--output", "-o", help="Folder for results.")]
ResultsFolder = Annotated[Path, Argument(help="A results folder.")]
Jobs = Annotated[int | None, Option("--jobs", "-j", min=1, help="Cells at once; by default one for each core.")]
Draws = Annotated[int | None, Option("--draws", "--tasks", min=1, help="Draws per number of shots; else the plan's.")]
_check_report = partial(check_replaced, option="-o", what="a report of a benchmark")
LOCAL = nullcontext(None)
"""No workers elsewhere."""
REASONS = 12
"""Largest number of different reasons for failures that are printed."""


class Format(str, Enum):
    """What a report can be."""

    markdown = "markdown"
    latex = "latex"
    html = "html"
    csv = "csv"
    json = "json"


def _plans() -> list[str]:
    from ..bench.plan import shipped_plans

    return shipped_plans()


def _read_plan(plan: str, draws: int | None) -> Plan:
    from ..bench.plan import read_plan

    return read_plan(plan) if draws is None else read_plan(plan, draws=draws)


def run(
    plan: Annotated[str, Argument(help="A .toml file, or the name of a plan of the package.", autocompletion=_plans)],
    output: NewResults,
    root: RootFolder = None,
    catalog: Catalogs = None,
    jobs: Jobs = None,
    draws: Draws = None,
    limit: Annotated[float | None, Option(min=0.001, help="Seconds for a cell; a longer one fails.")] = None,
    prune: Annotated[
        bool, Option("--prune", help="Remove results that this plan does not ask for, and other plans.")
    ] = False,
    engine: EngineOption = Engine.local,
    ray_address: RayAddress = None,
) -> None:
    """Run a plan: data sets × methods × shots × draws × encoders. Run again, it does what is missing.

    Examples
    --------
    lpp bench run plan.toml --root /data -o results/
    lpp bench run cycles -o cycles/ --draws 2
    lpp bench run plan.toml --root /data -o results/ --engine ray --ray-address auto --limit 600
    """
    from ..bench.results import FILE, Results

    opened = _read_plan(plan, draws).with_catalogs(catalog or ())
    if prune and (output / FILE).exists():
        say("{} results of other cells are removed", Results(output).prune(opened.name, opened.all_cells()))
    workers = LOCAL if engine is Engine.local else ray_workers(opened, ray_address, jobs)
    raise typer.Exit(run_and_tell(opened, output, root, jobs, limit, workers))


def paper(
    output: NewResults,
    root: RootFolder = None,
    jobs: Jobs = None,
    draws: Draws = None,
) -> None:
    """Run the paper's grid: eleven data sets, thirteen methods, 1 to 16 shots, ten draws, RN50.

    Examples
    --------
    lpp bench paper --root /data -o results/
    lpp bench paper --root /data -o results/ --draws 1 --jobs 4
    """
    raise typer.Exit(run_and_tell(_read_plan("paper", draws), output, root, jobs))


def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for results.")] = Path("bench-demo"),
    jobs: Jobs = None,
    draws: Draws = None,
) -> None:
    """Compare all feature-level methods on the package's own images, with tables and figures, in minutes.

    Examples
    --------
    lpp bench demo
    lpp bench demo -o comparison/ --draws 2
    """
    from ..bench.report import write_report
    from ..bench.results import Results

    plan = _read_plan("demo", draws)
    failed = run_and_tell(plan, output, None, jobs)
    results = Results(output, create=False)
    file = write_report(results, output / "report", "html", planned=plan.all_cells(), check=_check_report)
    say("report: [bold]{}[/]", file)
    raise typer.Exit(failed)


def run_and_tell(
    plan: Plan,
    output: Path,
    root: Path | None,
    jobs: int | None,
    limit: float | None = None,
    workers: AbstractContextManager[Workers | None] = LOCAL,
) -> int:
    """Run what is missing and print what came of it; returns the exit status, 1 if a cell failed.

    It is printed when `workers` have ended: until then, a cluster sends standard output elsewhere.
    """
    from ..bench.loader import DatasetLoader
    from ..bench.results import FILE, Results
    from ..bench.runner import run_plan, waiting_for_torch

    waiting = waiting_for_torch(plan)
    if waiting and len(waiting) < len(plan.methods):
        warn(f"left out, as torch is not installed: {', '.join(waiting)}. After pip install \"lpplusplus[torch]\" the "
             f"same command runs them, too.")  # fmt: skip
        plan = replace(plan, methods=tuple(one for one in plan.methods if one.name not in waiting))
    check_replaced(output / FILE, "-o", "a results folder's database")
    results = Results(output)
    loader = DatasetLoader(root, output / "features")
    with workers as on, bar(plan.name) as progress:
        summary = run_plan(plan, results, loader, n_jobs=jobs, limit=limit, workers=on, progress=progress)
    return _tell(plan, results, summary)


def _tell(plan: Plan, results: Results, summary: RunSummary) -> int:
    from ..bench.report.statistics import average, summarise
    from ..bench.run_cell import CODE, versions

    planned = {cell.key: cell for cell in plan.all_cells()}
    rows = [row for row in results.rows() if row.cell.key in planned]
    failures = [row for row in results.rows(failed=True) if row.cell.key in planned]
    scores = summarise(rows, failures, planned.values())
    averages = average(scores, together=True)
    show_json(
        {
            **vars(summary),
            "averages": [_as_dict(one) for one in averages.itertuples()],
            "overhead": summary.overhead,
            "results": str(results.path),
            "failures": [{"cell": row.cell.as_dict(), "error": _reason(row)} for row in failures],
        }
    )
    say(
        f"[bold]{{}}[/]: {summary.cells} cells, {summary.already} there already, {summary.run} run now in "
        f"{summary.seconds:.0f} s ({summary.method_seconds:.0f} s inside the methods), {summary.failed} failed",
        results.path,
    )
    for encoder in plan.encoders if rows else ():
        _show_averages(encoder, plan.shots, scores)
    _warn_of_failures(sorted({_reason(row) for row in failures}))
    older = sum(row.versions.get(CODE) != versions()[CODE] for row in rows)
    if older:
        warn(f"{older} of these results are from other code of lpplusplus than this. They stay as they are: name a new "
             f"folder to measure them again.")  # fmt: skip
    return 1 if failures else 0


def _warn_of_failures(reasons: Sequence[str]) -> None:
    for reason in reasons[:REASONS]:
        warn(f"failed: {reason}")
    if len(reasons) > REASONS:
        warn(f"… and {len(reasons) - REASONS} other reasons, which --json has.")


def _reason(row: Row) -> str:
    """Why a cell failed, in its error's own words; a Python class is named only if it is not ours."""
    last = row.traceback.strip().splitlines()[-1]
    return re.sub(r"^lpplusplus[\w.]*: ", "", last)


def _as_dict(one: Any) -> dict[str, Any]:
    from ..bench.report.table import plain

    kept = ("method", "shots", "datasets", "complete", "mean", "deviation", "fit_seconds")
    return {"backbone": one.encoder, **{name: plain(getattr(one, name)) for name in kept}}


def _show_averages(encoder: str, shots: Sequence[int], scores: Any) -> None:
    """Mean test accuracy of each method over the data sets that every method has completed, at all shots."""
    from ..bench.report.statistics import average

    ours = scores[scores.encoder == encoder]
    partly = [*dict.fromkeys(ours.dataset[~ours.complete.astype(bool)])]
    whole = [name for name in dict.fromkeys(ours.dataset) if name not in partly]
    over = f" on {', '.join(whole)}; {', '.join(partly)} is not complete" if whole and partly else ""
    averages = average(ours[ours.dataset.isin(whole)] if whole else ours, together=True)
    heads = [str(n) for n in shots]
    known = {(one.method, one.shots): f"{one.mean:.1f} %" for one in averages.itertuples() if one.complete}
    rows = ((method, *(known.get((method, n), "–") for n in shots)) for method in dict.fromkeys(averages.method))
    show_table(f"Mean test accuracy, {encoder}{over}", ("method", *heads), rows, right=heads)


def report(
    results: ResultsFolder,
    form: Annotated[Format, Option("--format", "-f", help="Format of the report.")] = Format.markdown,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder for report and figures; else it is printed.")
    ] = None,
    plan: Annotated[str | None, Option(help="Plan whose cells are expected; else those that were run.")] = None,
    against: Annotated[
        str | None, Option(help="A method: every other's difference from it, with standard errors.")
    ] = None,
) -> None:
    """Tables in the paper's shape, with the published figures beside ours.

    Examples
    --------
    lpp bench report results/
    lpp bench report results/ --format html -o report/
    lpp bench report results/ --format json > report.json
    lpp bench report results/ --against "LP++ (default)"
    lpp bench report results/ --plan plan.toml
    """
    from ..bench import report as reports
    from ..bench.plan import read_plan
    from ..bench.results import Results

    opened = Results(results, create=False)
    planned = [] if plan is None else [*read_plan(plan).all_cells()]
    if output is None:
        print(reports.report(opened, form.value, planned=planned, against=against))
        return
    written = reports.write_report(opened, output, form.value, planned=planned, against=against, check=_check_report)
    say("written: [bold]{}[/]", written)


def draws(
    results: ResultsFolder,
    output: Annotated[Path, Option("--output", "-o", help="JSON file to write.")],
) -> None:
    """Export the draws of a run: which images are support, validation and test. A plan's `draws_file` key reads it.

    Examples
    --------
    lpp bench draws results/ -o draws.json
    """
    check_file(output, "-o", "a list of tasks")
    from ..bench.draws import Draw, write_draws
    from ..bench.results import Results

    found = [Draw.from_dict(saved) for saved in Results(results, create=False).draws().values()]
    write_draws(output, sorted(found, key=lambda draw: (draw.dataset, draw.shots, draw.seed)))
    show_json({"file": str(output), "tasks": len(found)})
    say("[bold]{}[/]: {} draws", output, len(found))


def datasets(root: RootFolder = None, more: Catalogs = None) -> None:
    """List the data sets: which are here, and how to get the others.

    Examples
    --------
    lpp bench datasets --root /data
    lpp bench datasets --root /data --catalog mine.toml --json
    """
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
                **{name: getattr(status, name, None) for name in ("state", "usable")},
                "found": dict(getattr(status, "found", {})),
                "expected": dict(entry.counts),
                "missing": [*getattr(status, "missing", ())],
                "problem": getattr(status, "problem", ""),
                "advice": entry.advice,
            }
        )
    show_json(rows)
    cells = ((row["name"], row["classes"], row["folder"], row["state"] or "–") for row in rows)
    show_table("", ("name", "classes", "folder", "here"), cells, right=("classes",))
    for row in rows:
        if not row["usable"]:
            say("[bold]{}[/]: {}", row["name"], " ".join(part for part in (row["problem"], row["advice"]) if part))


app = typer.Typer(
    help="Compare methods on data sets, under one protocol.",
    epilog=examples("lpp bench demo", "lpp bench run plan.toml --root /data -o results/"),
    no_args_is_help=True,
)
for _function in (demo, run, report, paper, datasets, draws):
    _kept = "cells" if _function in (demo, run, paper) else ""
    add_command(app, _function, kept=_kept, has_json=_function is not report)
