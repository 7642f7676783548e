"""A report as text. Markdown, LaTeX and HTML have a template each, in `templates/`; every value in them is escaped.

Only JSON and CSV have unrounded numbers.
"""

import csv
import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from .content import TITLE, ReportContent
from .table import Table, printable

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
