"""`lpp bench report`: tables and figures of a results folder."""

from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Option

from ..console import say
from ..outputs import check_replaced
from .options import ResultsFolder


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
        Path | None,
        Option("--output", "-o", help="Folder for the report and its figures; by default the text is printed."),
    ] = None,
    against: Annotated[
        str | None, Option(help="A method: every other's difference from it, task by task, with standard errors.")
    ] = None,
) -> None:
    """Tables in the paper's shape, with the published figures beside ours.

    Examples
    --------
    lpp bench report results/
    lpp bench report results/ --format html -o report/
    lpp bench report results/ --format json > report.json
    lpp bench report results/ --against "LP++ (default)"
    """
    from ...bench import report as reports
    from ...bench.results import Results

    opened = Results(results, create=False)
    if output is None:
        print(reports.report(opened, form.value, against=against))
        return
    written = reports.write_report(opened, output, form.value, against=against, check=replaced)
    say("written: [bold]{}[/]", written)


def replaced(path: Path) -> None:
    """Refuse to replace what is no file of a benchmark's report."""
    check_replaced(path, "-o", "a report of a benchmark")
