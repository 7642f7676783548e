"""A table as markdown, LaTeX, CSV, JSON or HTML. Every text is escaped; only JSON and CSV keep unrounded numbers."""

from __future__ import annotations

import csv as csv_module
import html as html_module
import io
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from .tables import Column, Table, Value

NOTHING = "–"

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "√": r"$\surd$",
    "–": "--",
    "−": "$-$",
}


def written(value: Value, kind: str) -> str:
    """An entry as people read it.

    >>> written(63.427, "percent"), written(-0.5, "points"), written(0.0123, "seconds"), written(None, "percent")
    ('63.43', '−0.50', '12.3 ms', '–')
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if kind == "percent":
        return f"{value:.2f}"
    if kind == "points":
        return f"{value:+.2f}".replace("-", "−")
    if kind == "seconds":
        return duration(value)
    if kind == "mib":
        return f"{value:,.0f} MiB" if value >= 10 else f"{value:.1f} MiB"
    if kind == "loss":
        return f"{value:.3f}"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def duration(seconds: float) -> str:
    """Seconds in a unit that suits them.

    >>> [duration(x) for x in (0.0004, 0.25, 3.21, 75.0, 7200.0)]
    ['0.4 ms', '250 ms', '3.21 s', '75 s', '2.0 h']
    """
    if seconds < 0.0995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def markdown(table: Table, level: int = 3) -> str:
    """GitHub's flavour; groups of columns become part of their names."""
    lines = [f"{'#' * level} {markdown_text(table.title)}", ""]
    lines.append("| " + " | ".join(markdown_text(column.full_name) for column in table.columns) + " |")
    lines.append("|" + "|".join("---" if column.kind == "text" else "--:" for column in table.columns) + "|")
    lines += ["| " + " | ".join(markdown_text(text) for text in _texts(table, row)) + " |" for row in table.rows]
    lines += ["", *(f"- {markdown_text(note)}" for note in table.notes)]
    return "\n".join(lines).rstrip() + "\n"


def latex(table: Table) -> str:
    """A `table` environment of booktabs, shrunk to the line where it is wider."""
    columns = table.columns
    lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{latex_text(table.title)}}}"]
    lines += [rf"\label{{tab:{table.key}}}", r"\begin{adjustbox}{max width=\linewidth}"]
    lines.append(r"\begin{tabular}{" + "".join("l" if column.kind == "text" else "r" for column in columns) + "}")
    lines.append(r"\toprule")
    if any(column.group for column in columns):
        heads, rules, first = [], [], 1
        for name, width in _groups(table):
            heads.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(name)}}}" if name else " &" * (width - 1))
            rules += [rf"\cmidrule(lr){{{first}-{first + width - 1}}}"] if name else []
            first += width
        lines += [" & ".join(heads) + r" \\", " ".join(rules)]
    lines += [" & ".join(latex_text(column.name) for column in columns) + r" \\", r"\midrule"]
    lines += [" & ".join(latex_text(text) for text in _texts(table, row)) + r" \\" for row in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}"]
    lines += [rf"\par\smallskip\raggedright\footnotesize {latex_text(' '.join(table.notes))}"] if table.notes else []
    return "\n".join([*lines, r"\end{table}", ""])


def csv(table: Table) -> str:
    """RFC 4180 with a header; empty where there is nothing."""
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\r\n")
    writer.writerow([column.full_name for column in table.columns])
    for row in table.rows:
        writer.writerow(["" if value is None else value for value in row])
    return text.getvalue()


def as_json(table: Table) -> dict[str, Any]:
    """For `json.dumps`."""
    return {
        "key": table.key,
        "title": table.title,
        "columns": [{"name": one.name, "group": one.group, "kind": one.kind} for one in table.columns],
        "rows": [list(row) for row in table.rows],
        "notes": list(table.notes),
    }


def html(table: Table, level: int = 3) -> str:
    """A section with the table in a box that scrolls sideways."""
    columns = table.columns
    heads = ""
    if any(column.group for column in columns):
        cells = "".join(
            f'<th colspan="{width}"{_class("group" if name else "")} scope="colgroup">{html_text(name)}</th>'
            for name, width in _groups(table)
        )
        heads = f"<tr>{cells}</tr>"
    starts = _starts(table)
    marks = [
        " ".join(filter(None, ("" if one.kind == "text" else "n", "g" if i in starts else "")))
        for i, one in enumerate(columns)
    ]
    names = "".join(
        f'<th{_class(mark)} scope="col">{html_text(column.name)}</th>'
        for mark, column in zip(marks, columns, strict=True)
    )
    body = ""
    for row in table.rows:
        first, *rest = _texts(table, row)
        cells = "".join(f"<td{_class(mark)}>{html_text(text)}</td>" for mark, text in zip(marks[1:], rest, strict=True))
        body += f'<tr><th scope="row">{html_text(first)}</th>{cells}</tr>\n'
    notes = "".join(f"<li>{html_text(note)}</li>" for note in table.notes)
    below = f'<ul class="notes">{notes}</ul>\n' if notes else ""
    return (
        f'<section class="table" id="table-{html_text(table.key)}">\n<h{level}>{html_text(table.title)}</h{level}>\n'
        f'<div class="scroll" tabindex="0"><table>\n<thead>{heads}<tr>{names}</tr></thead>\n<tbody>\n{body}</tbody>\n'
        f"</table></div>\n{below}</section>\n"
    )


def html_text(text: object) -> str:
    """Escaped for element content and quoted attributes."""
    return html_module.escape(str(text), quote=True)


def markdown_text(text: object) -> str:
    r"""Escaped, on one line.

    >>> markdown_text("<b>|a_b*")
    '&lt;b&gt;\\|a\\_b\\*'
    """
    line = " ".join(str(text).split())
    for mark in "\\`*_[]|$#":
        line = line.replace(mark, "\\" + mark)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latex_text(text: object) -> str:
    r"""Escaped, on one line.

    >>> latex_text("95 % ± of a_b")
    '95 \\% $\\pm$ of a\\_b'
    """
    return "".join(_LATEX.get(mark, mark) for mark in " ".join(str(text).split()))


def _texts(table: Table, row: tuple[Value, ...]) -> list[str]:
    return [written(value, column.kind) for value, column in zip(row, table.columns, strict=True)]


def _groups(table: Table) -> Iterator[tuple[str, int]]:
    """Headings over the columns, each with its width."""
    for name, members in groupby(table.columns, key=_group_name):
        yield name, len(list(members))


def _starts(table: Table) -> set[int]:
    """Columns where a group begins."""
    names = [column.group for column in table.columns]
    return {i for i in range(1, len(names)) if names[i] != names[i - 1]}


def _group_name(column: Column) -> str:
    return column.group


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
