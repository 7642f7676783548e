"""The commands of `lpp bench`."""

import typer

from ..command import add_command, examples
from .datasets import datasets
from .demo import demo
from .draws import draws
from .paper import paper
from .report import report
from .run import run

app = typer.Typer(
    help="Compare methods on data sets, under one protocol.",
    epilog=examples("lpp bench demo", "lpp bench run plan.toml --root /data -o results/"),
    no_args_is_help=True,
)
for _function in (demo, run, report, paper, datasets, draws):
    add_command(app, _function, kept="cells" if _function in (demo, run, paper) else "")
