"""Reports on benchmark results: tables in the paper's shape with the published figures beside ours, and figures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...persistence import atomic_write
from ..results import Cell, Results
from . import formats
from .content import Content, gather
from .documents import json_document, latex_document, markdown_document
from .page import page

__all__ = ["FORMATS", "report", "write_report"]

FORMATS = {
    "markdown": "report.md",
    "latex": "report.tex",
    "html": "report.html",
    "csv": "report.csv",
    "json": "report.json",
}
"""What a report can be, and the file it is written to."""
FIGURES = "figures"


def report(results: Results, format: str = "markdown", *, planned: Iterable[Cell] = ()) -> str:
    """The report as text: only that of "html" has its figures inside.

    "csv" is one long table, a line for each data set, backbone, method and number of shots; "json" has that and all
    else. `planned` are the cells that there ought to be, where that is known, so that what was never run is missed.

    Examples
    --------
    >>> import tempfile
    >>> from lpplusplus.bench.results import Cell, Results, Row
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(folder)
    ...     for seed, accuracy in enumerate((0.9, 0.8)):
    ...         results.add(Row(Cell("birds", "rn50", "LP++ (default)", 4, seed, "LPPlusPlus"), "ok", accuracy))
    ...     print(report(results, "csv").splitlines()[1][:31])
    birds,rn50,LP++ (default),4,2,,
    """
    _check(format)
    return _text(gather(results, planned, figures=format == "html"), format, None)


def write_report(
    results: Results, folder: str | os.PathLike[str], format: str = "markdown", *, planned: Iterable[Cell] = ()
) -> Path:
    """Write the report to `FORMATS[format]` in a folder and say where.

    Figures go to `figures/` as PNG and SVG, but for "html", which has them inside. "csv" also has every table in
    `tables/`. Each file appears only when it is complete; the report itself is the last.
    """
    _check(format)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    content = gather(results, planned)
    if format != "html" and content.pictures:
        (place / FIGURES).mkdir(exist_ok=True)
        for picture in content.pictures:
            _write(place / FIGURES / f"{picture.key}.png", picture.png())
            _write(place / FIGURES / f"{picture.key}.svg", picture.svg().encode())
    if format == "csv" and content.tables:
        (place / "tables").mkdir(exist_ok=True)
        for table in content.tables:
            _write(place / "tables" / f"{table.key}.csv", formats.csv(table).encode())
    return _write(place / FORMATS[format], _text(content, format, FIGURES).encode())


def _check(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(map(repr, FORMATS))}.")


def _text(content: Content, format: str, figures: str | None) -> str:
    match format:
        case "html":
            return page(content)
        case "markdown":
            return markdown_document(content, figures)
        case "latex":
            return latex_document(content, figures)
        case "csv":
            return formats.csv(content.cells)
        case _:
            return json_document(content)


def _write(path: Path, content: bytes) -> Path:
    with atomic_write(path) as file:
        file.write(content)
    return path
