"""All commands of `lpp` under one roof."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from .app import app as app_
from .bench import app as bench
from .change import add, merge, remove, rename
from .check import check, suggest
from .command import add_command, examples
from .demo import demo
from .embed import embed
from .evaluate import evaluate
from .export import export, pull, push
from .inspect import encoders, inspect
from .map import map as map_
from .predict import predict
from .serve import label_studio, serve
from .sort import sort
from .train import train

_EXAMPLES = examples("lpp demo", "lpp train photos/ -o birds.lpp", "lpp predict birds.lpp new/*.jpg")
_PACKAGE = Path(__file__).parents[1]
_DOCS = next((folder for folder in (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs") if folder.is_dir()), None)
"""In the wheel, and in a clone."""

app = typer.Typer(
    name="lpp",
    epilog=_EXAMPLES + (f"\n\nDocumentation: {_DOCS / 'index.md'}" if _DOCS else ""),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        print(f"lpp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Few-shot image classification with LP++: a folder of images in, a classifier out."""


_COMMANDS = (
    demo, app_, train, predict, sort, evaluate, check, suggest, map_, add, remove, rename, merge, embed, inspect,
    encoders, export, serve, push, pull, label_studio,
)  # fmt: skip
_KEPT = {embed: "embeddings", sort: "photos"}
for _function in _COMMANDS:
    add_command(app, _function, kept=_KEPT.get(_function, ""))
app.add_typer(bench, name="bench")
