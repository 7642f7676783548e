"""`lpp bench report` and `lpp bench draws`: what a results folder holds."""

from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..console import say, show_json
from ..outputs import check_file, check_replaced

ResultsFolder = Annotated[Path, Argument(help="A results folder.")]


class Format(str, Enum):
    """What a report can be."""

    markdown = "markdown"
    latex = "latex"
    html = "html"
    csv = "csv"
    json = "json"


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
    from ...bench import report as reports
    from ...bench.plan import read_plan
    from ...bench.results import Results

    opened = Results(results, create=False)
    planned = [] if plan is None else [*read_plan(plan).all_cells()]
    if output is None:
        print(reports.report(opened, form.value, planned=planned, against=against))
        return
    written = reports.write_report(opened, output, form.value, planned=planned, against=against, check=replaced)
    say("written: [bold]{}[/]", written)


def replaced(path: Path) -> None:
    """Refuse to replace what is no file of a benchmark's report."""
    check_replaced(path, "-o", "a report of a benchmark")


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
    from ...bench.draws import Draw, write_draws
    from ...bench.results import Results

    found = [Draw.from_dict(saved) for saved in Results(results, create=False).draws().values()]
    write_draws(output, sorted(found, key=lambda draw: (draw.dataset, draw.shots, draw.seed)))
    show_json({"file": str(output), "tasks": len(found)})
    say("[bold]{}[/]: {} draws", output, len(found))
