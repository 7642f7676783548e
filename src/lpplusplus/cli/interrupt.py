"""Ctrl-C, before a command has begun and while it works. A file of its own: it is imported before all others."""

import os
import signal

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
