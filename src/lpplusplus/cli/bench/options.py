"""Options that several commands of `lpp bench` have."""

from pathlib import Path
from typing import Annotated

import typer

RootFolder = Annotated[
    Path | None, typer.Option("--root", help="Folder with the data sets, one folder each, laid out as CoOp has them.")
]
Catalogs = Annotated[
    list[Path] | None, typer.Option("--catalog", help="A file with data sets of your own, in the catalog's form.")
]
NewResults = Annotated[Path, typer.Option("--output", "-o", help="Folder for results.", show_default=False)]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Cells at once; by default as many as there are cores.")
]
Draws = Annotated[
    int | None,
    typer.Option("--draws", "--tasks", min=1, help="Draws for each number of shots, instead of the plan's number."),
]
ResultsFolder = Annotated[Path, typer.Argument(help="A results folder.", show_default=False)]
