"""`lpp bench demo`: a comparison on images of the package's own."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from ..console import say
from ..options import Json
from .options import Draws, Jobs
from .report import replaced
from .run import run_and_tell


def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for results.")] = Path("bench-demo"),
    jobs: Jobs = None,
    draws: Draws = None,
    as_json: Json = False,
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
    failed = run_and_tell(plan, output, None, jobs, as_json)
    file = write_report(
        Results(output, create=False), output / "report", "html", planned=plan.all_cells(), check=replaced
    )
    if not as_json:
        say("report: [bold]{}[/]", file)
    raise typer.Exit(failed)
