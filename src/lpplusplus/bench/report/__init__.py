"""Reports on benchmark results: tables in the paper's shape with the published figures beside ours, and figures."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..._core.files import atomic_write
from ..cell import Cell
from ..results import Results
from .content import ReportContent, report_content
from .documents import FIGURES, csv_document, html_document, json_document, latex_document, markdown_document

__all__ = ["FORMATS", "report", "write_report"]

FORMATS: dict[str, tuple[str, Callable[[ReportContent], str]]] = {
    "markdown": ("report.md", markdown_document),
    "latex": ("report.tex", latex_document),
    "html": ("report.html", html_document),
    "csv": ("report.csv", lambda content: csv_document(content.cells)),
    "json": ("report.json", json_document),
}
"""Formats of a report: for each the file name, and the function that writes it."""


def report(
    results: Results, format: str = "markdown", *, planned: Iterable[Cell] = (), against: str | None = None
) -> str:
    """The report as text. Only "html" has figures, which are inside.

    "csv" is one long table: a line for each data set, encoder, method and number of shots. "json" has that and
    everything else. `planned` are the cells of the plan, if known: those that were never run are reported as missing.
    `against` names a method; tables of the paired differences of all others from it come first.

    Examples
    --------
    >>> import tempfile
    >>> from lpplusplus.bench.cell import Cell, Row
    >>> from lpplusplus.bench.results import Results
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(folder)
    ...     for seed, accuracy in enumerate((0.9, 0.8)):
    ...         results.add(Row(Cell("birds", "rn50", "LP++ (default)", 4, seed, "LPPlusPlus"), "ok", accuracy))
    ...     print(report(results, "csv").splitlines()[1][:31])
    birds,rn50,LP++ (default),4,2,,
    """
    _, document = _format(format)
    return document(report_content(results, planned, figures=format == "html", against=against))


def write_report(
    results: Results,
    folder: str | os.PathLike[str],
    format: str = "markdown",
    *,
    planned: Iterable[Cell] = (),
    against: str | None = None,
    check: Callable[[Path], None] = lambda path: None,
) -> Path:
    """Write the report to its file of `FORMATS` in a folder and return the path.

    Figures go to `figures/` as PNG and SVG; "html" has them inside instead. "csv" also writes every table to
    `tables/`. Each file appears only when it is complete, the report itself last. `check` is called with each path
    before the first is written, and may raise.
    """
    name, document = _format(format)
    place = Path(folder)
    content = report_content(results, planned, against=against)
    files: dict[Path, bytes] = {}
    if format != "html":
        for plot in content.plots:
            files[place / FIGURES / f"{plot.key}.png"] = plot.png()
            files[place / FIGURES / f"{plot.key}.svg"] = plot.svg().encode()
    if format == "csv":
        files |= {place / "tables" / f"{table.key}.csv": csv_document(table).encode() for table in content.tables}
    files[place / name] = document(content).encode()
    for path in files:
        check(path)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(text)
    return place / name


def _format(format: str) -> tuple[str, Callable[[ReportContent], str]]:
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(map(repr, FORMATS))}.")
    return FORMATS[format]
