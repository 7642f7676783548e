"""A limit on the time that something takes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` in the block if it takes longer. A single long call outside of Python is not interrupted.

    It works only in the main thread of a process, where workers run their cells. Elsewhere, and on Windows, which lacks
    the signal, there is no limit.

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
        if late:  # The error may have changed on its way: an interrupted import raises ImportError.
            raise TimeoutError(message) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise TimeoutError(message)
