"""The command `lpp`, and Ctrl-C before a command has begun and while it works."""

import io
import os
import signal
import sys

STATUS = 130
"""Exit status after Ctrl-C, as shells have it."""


def _leave(*_: object) -> None:
    os._exit(STATUS)


def leave_at_once() -> None:
    """Let Ctrl-C end the process silently until `listen`: an interrupted import would show a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Jobs in a shell's background ignore it.
        signal.signal(signal.SIGINT, _leave)


def listen() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again: there is something to clean up now."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_interruption(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or an import error caused by it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def main() -> None:
    """Run `lpp`; exits with 0, with 1 after an error, 2 for a wrong command line, 130 after Ctrl-C."""
    leave_at_once()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A file name may hold what the terminal cannot show.
    try:
        from .lpp import app
    except ImportError as error:
        missing = error.name or str(error)
        print(f'lpp needs {missing}, which is not installed: pip install "lpplusplus[images]"', file=sys.stderr)
        sys.exit(1)
    try:
        try:
            app(prog_name="lpp")
        finally:
            sys.stdout.flush()  # Otherwise a full disk behind ">" would show a traceback at the end.
    except OSError as error:  # Commands handle errors of the files that they open.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"lpp: standard output: {error.strerror}.", file=sys.stderr)
        sys.exit(1)
