"""How much memory a fit takes."""

import ctypes
import gc
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
