"""A function as a command of `lpp`: examples in its help, errors as one line on standard error, an exit status."""

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .console import complain, use_json, warn
from .interrupt import STATUS, is_interruption, listen


def _common(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """The options of all commands; typer makes options of a function's parameters only."""


@cache
def _common_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_common)
    return typer.main.get_command(app).params[:2]


class Command(TyperCommand):
    """A command whose errors are one line on standard error; it exits with 1 then, or with 130 after Ctrl-C.

    Lines below "Examples" in its docstring stand at the end of its help. It has the options `--json` and `--debug`.
    """

    has_json = True
    kept = ""
    """Which finished work is kept if it is interrupted; with the option `--store`, embeddings are."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        about, _, lines = (options.get("help") or "").partition("\n\nExamples\n--------\n")
        options |= {"help": about, "epilog": examples(*lines.splitlines())}
        super().__init__(*arguments, **options)
        self.params += _common_options() if self.has_json else _common_options()[1:]

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        warnings.showwarning = _show_warning
        options, debug = ctx.params, ctx.params.pop("debug")
        use_json(options.pop("as_json", False))
        try:
            listen()
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # The pipe is closed: exit silently.
            raise typer.Exit(1) from None
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
                raise  # Errors of files have a name. This one is about standard output; `main` reports it.
            if is_interruption(error):
                warnings.simplefilter("ignore")  # joblib warns about interrupted tasks, which the user wanted.
                rest = "embeddings" if options.get("store") else self.kept
                also = f", and finished {rest} are kept: the same command goes on from there" if rest else ""
                complain(f"interrupted; nothing half-written is left{also}.")
                raise typer.Exit(STATUS) from None
            if debug:
                traceback.print_exc()
            complain(_in_words(error) + _way_out(error, options))
            raise typer.Exit(1) from None


def add_command(app: typer.Typer, function: Callable[..., None], **attributes: Any) -> None:
    """Add a function as a command of its name, with attributes of `Command`."""
    app.command(cls=type("Command", (Command,), attributes))(function)


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *lines])


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Warnings for users as a remark; those for programmers as Python shows them."""
    if issubclass(category, UserWarning):
        warn(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *where[:2]))


def _way_out(error: BaseException, options: dict[str, Any]) -> str:
    from ..encoders.pixels.decoding import ImageError

    skippable = isinstance(error, ImageError) and "on_error" in options
    return " (--on-error skip goes on without such images.)" if skippable else ""


def _in_words(error: BaseException) -> str:
    """An error without "[Errno 13]", and without the name of a Python class unless it is our own mistake."""
    from ..encoders import EncoderError

    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
        return f"{where}{error.strerror}."
    if isinstance(error, ValueError | OSError | EncoderError | ImportError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error} (this is a bug: please report it with what --debug prints)"
