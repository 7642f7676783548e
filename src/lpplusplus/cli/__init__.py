"""The command `lpp`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `lpp`; exits with 0, with 1 after an error, 2 for a wrong command line, 130 after Ctrl-C."""
    try:
        from .app import app
    except ImportError as error:
        missing = error.name or str(error)
        print(f'lpp needs {missing}, which is not installed: pip install "lpplusplus[images]"', file=sys.stderr)
        sys.exit(1)
    app()
