"""A function as a command of `lpp`: examples in its help, errors as one line on standard error, an exit status."""

import errno
import functools
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from .console import complain, warn
from .interrupt import STATUS, is_interruption, listen

Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
_NAMED = inspect.Parameter.KEYWORD_ONLY


def add_command(app: typer.Typer, function: Callable[..., None], kept: str = "") -> None:
    """Add a command. Lines below "Examples" in its docstring stand at the end of its help.

    Parameters
    ----------
    app
        Where to add it, under the function's name.
    function
        What to run.
    kept
        Which finished work is kept if the command is interrupted, such as "cells". If an option `store` is given, it is
        "embeddings".
    """
    about, _, lines = inspect.cleandoc(function.__doc__ or "").partition("\n\nExamples\n--------\n")
    app.command(help=about, epilog=examples(*lines.splitlines()))(_guarded(function, kept))


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n\n".join(["Examples:", *lines])


def _guarded(function: Callable[..., None], kept: str) -> Callable[..., None]:
    """The function, with errors as one line on standard error and an exit status: 1, or 130 after Ctrl-C.

    It also gets the option `--debug`. A parameter whose class is a dataclass becomes one option per field.
    """
    signature = inspect.signature(function, eval_str=True)
    found = signature.parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in found if is_dataclass(one.annotation)}

    @functools.wraps(function)
    def run(debug: bool, **options: Any) -> None:
        warnings.showwarning = _show_warning
        try:
            listen()
            given = dict(options)
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            function(**given)
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
                rest = "embeddings" if options.get("store") else kept
                also = f", and finished {rest} are kept: the same command goes on from there" if rest else ""
                complain(f"interrupted; nothing half-written is left{also}.")
                raise typer.Exit(STATUS) from None
            if debug:
                traceback.print_exc()
            complain(_in_words(error) + _way_out(error, options))
            raise typer.Exit(1) from None

    parameters = [option for one in found for option in _options(one)]
    parameters.append(inspect.Parameter("debug", _NAMED, default=False, annotation=Debug))
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(run)["__signature__"] = signature.replace(parameters=parameters)  # What typer makes options of.
    return run


def _options(one: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter itself; if its class is a dataclass, a parameter per field."""
    if not is_dataclass(one.annotation):
        return [one]
    kinds = get_type_hints(one.annotation, include_extras=True)
    return [
        inspect.Parameter(field.name, one.kind, default=field.default, annotation=kinds[field.name])
        for field in fields(one.annotation)
    ]


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
