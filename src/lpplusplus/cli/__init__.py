"""The command `lpp`."""

import io
import os
import sys

from .interrupt import leave_at_once


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
