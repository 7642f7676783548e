"""`lpp bench run`, and `demo` and `paper`, which run plans of the package: what is missing of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..console import bar, say, show_json, show_table, warn
from ..outputs import check_replaced
from ..ray import Engine, EngineOption, RayAddress, run_plan_on_ray
from .report import replaced

if TYPE_CHECKING:
    from ...bench.cell import Row
    from ...bench.plan import Plan
    from ...bench.results import Results
    from ...bench.runner import RunSummary, Workers

RootFolder = Annotated[Path | None, Option(help="Folder with a folder per data set, laid out as CoOp has them.")]
Catalogs = Annotated[list[Path] | None, Option("--catalog", help="File with data sets of your own, as in the catalog.")]
NewResults = Annotated[Path, Option("--output", "-o", help="Folder for results.")]
Jobs = Annotated[int | None, Option("--jobs", "-j", min=1, help="Cells at once; by default one for each core.")]
Draws = Annotated[int | None, Option("--draws", "--tasks", min=1, help="Draws per number of shots; else the plan's.")]
REASONS = 12
"""Largest number of different reasons for failures that are printed."""


def _plans() -> list[str]:
    from ...bench.plan import shipped_plans

    return shipped_plans()


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
    from ...bench.plan import read_plan
    from ...bench.results import FILE, Results

    opened = read_plan(plan, **({} if draws is None else {"draws": draws})).with_catalogs(catalog or ())
    if prune and (output / FILE).exists():
        say("{} results of other cells are removed", Results(output).prune(opened.name, opened.all_cells()))
    if engine is Engine.local:
        raise typer.Exit(run_and_tell(opened, output, root, jobs, limit))
    run_it = partial(_run, opened, output, root, jobs, limit)
    results, summary = run_plan_on_ray(opened, ray_address, jobs, run_it)
    raise typer.Exit(_tell(opened, results, summary))


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
    run("paper", output, root, None, jobs, draws)


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
    from ...bench.plan import read_plan
    from ...bench.report import write_report
    from ...bench.results import Results

    plan = read_plan("demo", **({} if draws is None else {"draws": draws}))
    failed = run_and_tell(plan, output, None, jobs)
    file = write_report(
        Results(output, create=False), output / "report", "html", planned=plan.all_cells(), check=replaced
    )
    say("report: [bold]{}[/]", file)
    raise typer.Exit(failed)


def run_and_tell(plan: Plan, output: Path, root: Path | None, jobs: int | None, limit: float | None = None) -> int:
    """Run what is missing and print what came of it; returns the exit status, 1 if a cell failed."""
    return _tell(plan, *_run(plan, output, root, jobs, limit))


def _run(
    plan: Plan,
    output: Path,
    root: Path | None,
    jobs: int | None,
    limit: float | None,
    workers: Workers | None = None,
) -> tuple[Results, RunSummary]:
    from ...bench.loader import DatasetLoader
    from ...bench.results import FILE, Results
    from ...bench.runner import run_plan, waiting_for_torch

    waiting = waiting_for_torch(plan)
    if waiting and len(waiting) < len(plan.methods):
        warn(f"left out, as torch is not installed: {', '.join(waiting)}. After pip install \"lpplusplus[torch]\" the "
             f"same command runs them, too.")  # fmt: skip
        plan = replace(plan, methods=tuple(one for one in plan.methods if one.name not in waiting))
    check_replaced(output / FILE, "-o", "a results folder's database")
    results = Results(output)
    with bar(plan.name) as progress:
        loader = DatasetLoader(root, output / "features")
        summary = run_plan(plan, results, loader, n_jobs=jobs, limit=limit, workers=workers, progress=progress)
    return results, summary


def _tell(plan: Plan, results: Results, summary: RunSummary) -> int:
    from ...bench.report.statistics import average, summarise
    from ...bench.run_cell import CODE, versions

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
    from ...bench.report.table import plain

    kept = ("method", "shots", "datasets", "complete", "mean", "deviation", "fit_seconds")
    return {"backbone": one.encoder, **{name: plain(getattr(one, name)) for name in kept}}


def _show_averages(encoder: str, shots: Sequence[int], scores: Any) -> None:
    """Mean test accuracy of each method over the data sets that every method has completed, at all shots."""
    from ...bench.report.statistics import average

    ours = scores[scores.encoder == encoder]
    partly = [*dict.fromkeys(ours.dataset[~ours.complete.astype(bool)])]
    whole = [name for name in dict.fromkeys(ours.dataset) if name not in partly]
    over = f" on {', '.join(whole)}; {', '.join(partly)} is not complete" if whole and partly else ""
    averages = average(ours[ours.dataset.isin(whole)] if whole else ours, together=True)
    heads = [str(n) for n in shots]
    known = {(one.method, one.shots): f"{one.mean:.1f} %" for one in averages.itertuples() if one.complete}
    rows = ((method, *(known.get((method, n), "–") for n in shots)) for method in dict.fromkeys(averages.method))
    show_table(f"Mean test accuracy, {encoder}{over}", ("method", *heads), rows, right=heads)
