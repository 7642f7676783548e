"""All commands of `lpp` under one roof, and what happens when one fails."""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import typer

from ..encoders import EncoderError
from . import bench
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
        from .. import __version__

        print(f"lpp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Few-shot image classification with LP++: a folder of photos in, a classifier out."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with errors as one line on standard error and an exit status: 1, or 130 after Ctrl-C."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            warnings.simplefilter("ignore")  # joblib's, of tasks that were cut off: that is what was asked for.
            kept = "cells are" if command.__module__ == bench.__name__ else "embeddings of a store are"
            complain(
                f"interrupted; nothing half-written is left, and finished {kept} kept: the same command goes on "
                f"from there."
            )
            raise typer.Exit(130) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Nobody reads on: exit without a word.
            raise typer.Exit(1) from None
        except Exception as error:
            if options.get("debug"):
                traceback.print_exc()
            complain(_what(error) + _way_out(error, options))
            raise typer.Exit(1) from None

    return run


def _way_out(error: Exception, options: dict[str, Any]) -> str:
    from ..pixels.decoding import ImageError

    skippable = isinstance(error, ImageError) and "on_error" in options
    return " (--on-error skip goes on without such images.)" if skippable else ""


def _what(error: Exception) -> str:
    """An error in words; without "[Errno 13]", and without the name of a Python class unless it is our own mistake."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
        return f"{where}{error.strerror}."
    if isinstance(error, ValueError | OSError | EncoderError | ImportError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error} (this is a bug: please report it with what --debug prints)"


_COMMANDS: tuple[Callable[..., None], ...] = (demo, train, predict, evaluate, embed, inspect, encoders)
for _command in _COMMANDS:
    app.command()(guarded(_command))

_bench = typer.Typer(help="Compare methods on data sets, under one protocol.", no_args_is_help=True)
_BENCH: tuple[Callable[..., None], ...] = (
    bench.demo,
    bench.run,
    bench.report,
    bench.paper,
    bench.datasets,
    bench.draws,
)
for _command in _BENCH:
    _bench.command()(guarded(_command))
app.add_typer(_bench, name="bench")
