"""A limit on the time that something takes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` in the block when it takes longer; between two steps of Python, so a single call may go on.

    Only in a process's main thread, where workers run their cells, and not on Windows, which lacks the signal; else
    there is no limit.

    Examples
    --------
    >>> import time
    >>> with time_limit(0.05):
    ...     time.sleep(5)
    Traceback (most recent call last):
    TimeoutError: it took longer than 0.05 s.
    """
    able = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    if seconds is None or not able:
        yield
        return

    message, late = f"it took longer than {seconds:g} s.", []

    def stop(*_: object) -> None:
        late.append(True)
        raise TimeoutError(message)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:
        if late:  # Whatever became of it on its way: an import that it interrupts ends in an ImportError.
            raise TimeoutError(message) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise TimeoutError(message)
