"""All commands of `lpp` under one roof, and what happens when one fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click
import typer

from .. import __version__
from .console import complain
from .demo import demo
from .embed import embed
from .encoders import encoders
from .evaluate import evaluate
from .inspect import inspect
from .predict import predict
from .train import train

app = typer.Typer(
    name="lpp",
    help="Few-shot image classification with LP++: a folder of photos in, a classifier out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"lpp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Few-shot image classification with LP++: a folder of photos in, a classifier out."""


for command in (demo, train, predict, evaluate, embed, inspect, encoders):
    app.command()(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    debug = "--debug" in arguments
    try:
        status = app(list(arguments), standalone_mode=False)
    except click.exceptions.Abort:
        return _interrupted()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        sys.stderr.close()  # The reader of our output has gone; saying so to it would fail again.
        return 1
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        if debug:
            traceback.print_exc()
        complain(str(error) or repr(error))
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        complain(f"{type(error).__name__}: {error}. This is a bug; with --debug it shows where.")
        return 1
    return status if isinstance(status, int) else 0


def _interrupted() -> int:
    complain("interrupted; nothing half-written is left, and finished embeddings of a store are kept.")
    return 130
