"""Reports on benchmark results: tables in the paper's shape with the published figures beside ours, and figures.

Markdown, LaTeX and HTML have a template each, in `templates/`; every value in them is escaped. Only JSON and CSV have
unrounded numbers.
"""

import csv
import html
import io
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from ..._core.files import atomic_write
from ..cell import Cell
from ..results import Results
from .content import TITLE, ReportContent, report_content
from .table import Table, printable

__all__ = ["FORMATS", "report", "write_report"]

FIGURES = "figures"
"""Folder with the figures of a document that does not contain them."""
JSON_FORMAT = 1
_LATEX = str.maketrans(
    {mark: "\\" + mark for mark in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"}
    | {">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "–": "--", "−": "$-$"}
    | {"±": r"$\pm$", "·": r"$\cdot$", "×": r"$\times$", "α": r"$\alpha$", "β": r"$\beta$"}
    | {"≥": r"$\geq$", "≤": r"$\leq$", "√": r"$\surd$"}
)


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


def html_document(content: ReportContent) -> str:
    """One page with its figures inside."""
    return _render("report.html", content, lambda text: html.escape(printable(text)))


def markdown_document(content: ReportContent) -> str:
    """GitHub's flavour; groups of columns become part of their names."""
    return _render("report.md", content, markdown_text)


def latex_document(content: ReportContent) -> str:
    """A document to compile as it is, or to take tables from."""
    syntax = {"block_start_string": "<%", "block_end_string": "%>"}  # LaTeX has braces of its own.
    syntax |= {"variable_start_string": "<<", "variable_end_string": ">>"}
    return _render("report.tex", content, latex_text, **syntax)


def csv_document(table: Table) -> str:
    """RFC 4180 with a header; missing values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([column.full_name for column in table.columns])
    # Python 3.10 cannot write a null character.
    writer.writerows([printable(value) if isinstance(value, str) else value for value in row] for row in table.rows)
    return text.getvalue()


def json_document(content: ReportContent) -> str:
    """Everything, for programs."""
    names = [column.name for column in content.cells.columns]
    return json.dumps(
        {
            "format": JSON_FORMAT,
            "summary": content.summary,
            "reading": content.reading,
            "cells": [dict(zip(names, row, strict=True)) for row in content.cells.rows],
            "tables": [asdict(table) for table in content.tables],
            "protocol": dict(content.protocol),
            "protocol_tables": [asdict(table) for table in content.protocol_tables],
            "versions": dict(content.versions),
            "failures": [asdict(one) for one in content.failures],
        },
        allow_nan=False,
        ensure_ascii=False,
        indent=1,
    )


def markdown_text(text: object) -> str:
    r"""Escaped, on one line.

    >>> markdown_text("<b>|a_b*")
    '&lt;b&gt;\\|a\\_b\\*'
    """
    return _tag_text(re.sub(r"([\\`*_\[\]|$#])", r"\\\1", str(text)))


def latex_text(text: object) -> str:
    r"""Escaped, on one line.

    >>> latex_text("95 % ± of a_b")
    '95 \\% $\\pm$ of a\\_b'
    """
    return printable(" ".join(str(text).split())).translate(_LATEX)


def _render(template: str, content: ReportContent, escape: Callable[[str], str], **syntax: Any) -> str:
    """Fill a template. Every value is escaped, except what is marked safe and the output of macros."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **syntax,
    )
    environment.filters |= {"printable": printable, "fence": _fence, "code": _code}
    environment.filters["tag"] = lambda text: Markup(_tag_text(text))
    return environment.get_template(template).render(content=content, title=TITLE, figures=FIGURES)


def _tag_text(text: str) -> str:
    """On one line, escaped for an HTML element inside markdown."""
    return html.escape(printable(" ".join(text.split())), quote=False)


def _fence(text: str) -> Markup:
    """Longer than any run of backticks in the text."""
    return Markup("`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0)))


def _code(line: str) -> Markup:
    """A line of LaTeX with its indent."""
    return Markup("~" * (len(line) - len(line.lstrip())) + latex_text(line))


FORMATS: dict[str, tuple[str, Callable[[ReportContent], str]]] = {
    "markdown": ("report.md", markdown_document),
    "latex": ("report.tex", latex_document),
    "html": ("report.html", html_document),
    "csv": ("report.csv", lambda content: csv_document(content.cells)),
    "json": ("report.json", json_document),
}
"""Formats of a report: for each the file name, and the function that writes it."""


def _format(format: str) -> tuple[str, Callable[[ReportContent], str]]:
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(map(repr, FORMATS))}.")
    return FORMATS[format]
