"""Options that several commands of `lpp bench` have."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

RootFolder = Annotated[
    Path | None, Option("--root", help="Folder with the data sets, one folder each, laid out as CoOp has them.")
]
Catalogs = Annotated[
    list[Path] | None, Option("--catalog", help="A file with data sets of your own, in the catalog's form.")
]
NewResults = Annotated[Path, Option("--output", "-o", help="Folder for results.")]
Jobs = Annotated[
    int | None, Option("--jobs", "-j", min=1, help="Cells at once; by default as many as there are cores.")
]
Draws = Annotated[
    int | None,
    Option("--draws", "--tasks", min=1, help="Draws for each number of shots, instead of the plan's number."),
]
ResultsFolder = Annotated[Path, Argument(help="A results folder.")]
