"""How much memory a fit takes, and a limit on its time."""

import ctypes
import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class PeakMemory:
    """Highest resident memory inside a `with` block, minus the resident memory before it.

    Memory that was freed earlier is given back to the system first. So it counts if the block takes it again.

    Attributes
    ----------
    mib
        In MiB, set at the end of the block; None on systems other than Linux, where it is not known.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     size = len(bytes(range(256)) * 2**17)
    >>> memory.mib is None or memory.mib > 30
    True
    """

    mib: float | None = None
    _before: float | None = None

    def __enter__(self) -> "PeakMemory":
        gc.collect(1)  # Not all generations: that takes longer than a short fit.
        try:
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is what is resident now.
            self._before = _resident("VmRSS")
        except (OSError, AttributeError, TypeError):  # Another C library, another system.
            pass
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            self.mib = max(0.0, _resident("VmHWM") - self._before)


def _resident(name: str) -> float:
    """A line of the process's status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


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
