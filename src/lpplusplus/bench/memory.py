"""How much memory a fit takes."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any


class PeakMemory:
    """Highest resident memory inside a `with` block beyond that before it.

    Memory that was freed before the block goes back to the system first: taken again inside the block, it counts.

    Attributes
    ----------
    mib
        In MiB, set at the end of the block; None where the system does not tell, which Linux does.

    Examples
    --------
    >>> with PeakMemory() as memory:
    ...     size = len(bytes(range(256)) * 2**17)
    >>> memory.mib is None or memory.mib > 30
    True
    """

    mib: float | None = None
    _before: float | None = None

    def __enter__(self) -> PeakMemory:
        gc.collect(1)  # Not all generations, which takes longer than many a fit.
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
