"""A report as a markdown, LaTeX or JSON document; `page` has the one in HTML."""

from __future__ import annotations

import json
import re

from .content import TITLE, Content
from .formats import as_json, latex, latex_text, markdown, markdown_text

FORMAT = 1
"""Of the JSON document."""


def markdown_document(content: Content, figures: str | None = None) -> str:
    """GitHub's flavour; `figures` is the folder that has them, beside the document."""
    parts = [f"# {TITLE}", *(markdown_text(sentence) for sentence in content.summary)]
    if content.tables:
        parts += ["## Tables", "\n".join(f"- {markdown_text(line)}" for line in content.reading)]
        parts += [markdown(table).rstrip() for table in content.tables]
    if (figures and content.pictures) or content.remarks:
        parts.append("## Figures")
        if figures:
            parts += [
                f"![{markdown_text(one.title)}]({figures}/{one.key}.png)\n\n{markdown_text(one.caption)}"
                for one in content.pictures
            ]
        parts += [markdown_text(remark) for remark in content.remarks]
    if content.protocol or content.protocol_tables:
        parts.append("## Protocol")
        parts += ["\n".join(f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in content.protocol)]
        parts += [markdown(table).rstrip() for table in content.protocol_tables]
    if content.versions:
        parts += ["## Versions", ", ".join(f"{markdown_text(a)} {markdown_text(b)}" for a, b in content.versions)]
    if content.failures:
        parts.append("## Failures")
        for one in content.failures:
            fence = _fence(one.traceback)
            parts.append(
                f"<details><summary>{_tag_text(one.what)}: {_tag_text(one.reason)}</summary>\n\n"
                f"{fence}text\n{one.traceback}\n{fence}\n\n</details>"
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def latex_document(content: Content, figures: str | None = None) -> str:
    """A document to compile as it is, or to take tables from; `figures` as for markdown."""
    parts = [
        "\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[T1]{fontenc}\n\\usepackage{textcomp}\n"
        "\\usepackage[a4paper,landscape,margin=15mm]{geometry}\n\\usepackage{booktabs,adjustbox,graphicx}",
        rf"\title{{{TITLE}}}" + "\n" + r"\date{}",
        r"\begin{document}" + "\n" + r"\maketitle",
        "\n".join(latex_text(sentence) for sentence in content.summary),
    ]
    if content.tables:
        parts += [r"\section{Tables}", "\n".join(latex_text(line) for line in content.reading)]
        parts += [latex(table).rstrip() for table in content.tables]
    if (figures and content.pictures) or content.remarks:
        parts += [r"\clearpage", r"\section{Figures}"]
        if figures:
            parts += [
                f"\\begin{{figure}}[htbp]\n\\centering\n\\includegraphics[width=.6\\linewidth]{{{figures}/{one.key}.png}}\n"
                f"\\caption{{{latex_text(one.caption)}}}\n\\label{{fig:{one.key}}}\n\\end{{figure}}"
                for one in content.pictures
            ]
        parts += [latex_text(remark) for remark in content.remarks]
    parts.append(r"\clearpage")
    if content.protocol:
        lines = "\n".join(f"\\item {latex_text(name)}: {latex_text(value)}" for name, value in content.protocol)
        parts += [r"\section{Protocol}", f"\\begin{{itemize}}\n{lines}\n\\end{{itemize}}"]
    parts += [latex(table).rstrip() for table in content.protocol_tables]
    if content.versions:
        parts += [r"\section{Versions}", ", ".join(f"{latex_text(a)} {latex_text(b)}" for a, b in content.versions)]
    if content.failures:
        parts.append(r"\section{Failures}")
        for one in content.failures:
            lines = r" \\" + "\n"
            text = lines.join(_code(line) for line in one.traceback.splitlines() if line.strip())
            parts.append(
                f"\\paragraph{{{latex_text(one.what)}}} {latex_text(one.reason)}\n\n"
                f"{{\\footnotesize\\ttfamily\\raggedright\\noindent {text}\\par}}"
            )
    parts.append(r"\end{document}")
    return "\n\n".join(part for part in parts if part) + "\n"


def json_document(content: Content) -> str:
    """Unrounded figures, for programs."""
    return json.dumps(
        {
            "format": FORMAT,
            "summary": content.summary,
            "reading": content.reading,
            "cells": [_record(content, row) for row in content.cells.rows],
            "tables": [as_json(table) for table in content.tables],
            "protocol": dict(content.protocol),
            "protocol_tables": [as_json(table) for table in content.protocol_tables],
            "versions": dict(content.versions),
            "failures": [{"what": one.what, "traceback": one.traceback} for one in content.failures],
        },
        allow_nan=False,
        ensure_ascii=False,
        indent=1,
    )


def _record(content: Content, row: tuple[object, ...]) -> dict[str, object]:
    return {column.name: value for column, value in zip(content.cells.columns, row, strict=True)}


def _fence(text: str) -> str:
    """Longer than any run of backticks inside."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def _tag_text(text: str) -> str:
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return "~" * indent + latex_text(line)
