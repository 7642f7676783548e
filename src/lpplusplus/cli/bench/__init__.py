"""`lpp bench`: the fair benchmark, and which data sets there are for it."""

from typing import Any

import typer

from ..command import add_command, examples
from ..console import say, show_json, show_table
from .report import draws, report
from .run import Catalogs, RootFolder, demo, paper, run


def datasets(root: RootFolder = None, more: Catalogs = None) -> None:
    """List the data sets: which are here, and how to get the others.

    Examples
    --------
    lpp bench datasets --root /data
    lpp bench datasets --root /data --catalog mine.toml --json
    """
    from ...bench.datasets import catalog

    rows: list[dict[str, Any]] = []
    for entry in catalog(*(more or ())).values():
        status = None if root is None else entry.status(root)
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "folder": entry.folder,
                "classes": entry.classes,
                **{name: getattr(status, name, None) for name in ("state", "usable")},
                "found": dict(getattr(status, "found", {})),
                "expected": dict(entry.counts),
                "missing": [*getattr(status, "missing", ())],
                "problem": getattr(status, "problem", ""),
                "advice": entry.advice,
            }
        )
    show_json(rows)
    cells = ((row["name"], row["classes"], row["folder"], row["state"] or "–") for row in rows)
    show_table("", ("name", "classes", "folder", "here"), cells, right=("classes",))
    for row in rows:
        if not row["usable"]:
            say("[bold]{}[/]: {}", row["name"], " ".join(part for part in (row["problem"], row["advice"]) if part))


app = typer.Typer(
    help="Compare methods on data sets, under one protocol.",
    epilog=examples("lpp bench demo", "lpp bench run plan.toml --root /data -o results/"),
    no_args_is_help=True,
)
for _function in (demo, run, report, paper, datasets, draws):
    _kept = "cells" if _function in (demo, run, paper) else ""
    add_command(app, _function, kept=_kept, has_json=_function is not report)
