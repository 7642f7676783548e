"""Clocks and scales for a noisy machine.

Three habits make the numbers comparable. Contestants run in turns rather than one after the
other, because a neighbour's load or a clock change that lasts a minute would otherwise fall on one
of them. Medians are reported, because noise only ever adds time and adds it in bursts. And a speed
is read next to the matrix-product rate of the same machine at the same shapes, the one limit that
no implementation can pass.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R")

_MIB = 2**20
_SAMPLE_SECONDS = 0.002
_SHORTEST_TIMING = 0.02


def median(seconds: Iterable[float]) -> float:
    """Median of some timings; of an even number, the mean of the middle two."""
    return float(statistics.median(seconds))


def show(found: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """Print what was measured, by part and name."""
    if as_json:
        print(json.dumps(found))
        return
    for name, values in found.items():
        print(name)
        for key, value in values.items():
            print(f"  {key:28}{value:.3g}" if isinstance(value, float) else f"  {key:28}{value}")


def interleave(
    contestants: Mapping[str, Callable[[], object]], repeats: int, *, warmup: int = 1
) -> dict[str, list[float]]:
    """Time several callables in turns.

    Each round starts one contestant further on, so that nobody always runs after the same
    neighbour, with the caches that neighbour leaves behind. Garbage is collected before each run,
    outside the clock.

    Parameters
    ----------
    contestants : mapping of str to callable
        What to time, by name. Return values are dropped.
    repeats : int
        Timed rounds.
    warmup : int
        Untimed rounds before them, for thread pools, first compilations and page faults.

    Returns
    -------
    dict of str to list of float
        Seconds, one per round and in the order of the rounds: entry ``r`` of every list was
        measured in the same round, so that ratios may be taken pairwise.

    Examples
    --------
    >>> times = interleave({"short": lambda: sum(range(10)), "long": lambda: sum(range(10**5))}, 3)
    >>> [len(t) for t in times.values()]
    [3, 3]
    >>> median(times["short"]) < median(times["long"])
    True
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    for _ in range(warmup):
        for run in contestants.values():
            run()
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            seconds[name].append(_seconds(contestants[name]))
    return seconds


def _seconds(run: Callable[[], object]) -> float:
    gc.collect()
    clock = time.perf_counter()
    run()
    return time.perf_counter() - clock


def gemm_rate(
    m: int,
    k: int,
    n: int,
    dtype: str = "float32",
    *,
    threads: int | None = None,
    repeats: int = 7,
) -> float:
    """Rate of ``(m, k) @ (k, n)`` in numpy, in GF/s (``2 m k n`` operations a product).

    Small products are looped until a timing lasts 20 ms, so that the clock does not matter.

    Parameters
    ----------
    m, k, n : int
        The shapes of the step under study: the rate of a thin product is far from that of a
        square one.
    dtype : str
        Type of both factors.
    threads : int, optional
        BLAS threads during the measurement; needs threadpoolctl. By default whatever is set.
    repeats : int
        Timings, of which the median counts.
    """
    rng = np.random.default_rng(0)
    left = rng.standard_normal((m, k)).astype(dtype)
    right = rng.standard_normal((k, n)).astype(dtype)
    out = np.empty((m, n), dtype)
    with _blas_threads(threads):
        np.matmul(left, right, out=out)
        once = _seconds(lambda: np.matmul(left, right, out=out))
        loops = max(1, int(np.ceil(_SHORTEST_TIMING / max(once, 1e-9))))

        def products() -> None:
            for _ in range(loops):
                np.matmul(left, right, out=out)

        seconds = median(_seconds(products) for _ in range(repeats)) / loops
    return 2e-9 * m * k * n / seconds


@contextlib.contextmanager
def _blas_threads(threads: int | None) -> Iterator[None]:
    """Limit the BLAS pools for a while; nothing at all when ``threads`` is None."""
    if threads is None:
        yield
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError(
            f"threads={threads} needs threadpoolctl (pip install threadpoolctl); without it leave "
            "threads=None and set OPENBLAS_NUM_THREADS before Python starts"
        ) from error
    with threadpool_limits(limits=threads, user_api="blas"):
        yield


def peak_extra_memory(run: Callable[[], R]) -> tuple[R, float]:
    """Call ``run`` and say how much higher the resident memory rose meanwhile, in MiB.

    The kernel keeps the highest resident size of a process (``VmHWM``) and lets it be reset, so
    that the peak is exact however short it was; no thread disturbs the call. Where the reset is
    refused, as in some containers, a thread samples the resident size every 2 ms and may miss
    peaks shorter than that. A forked child would start from a cleaner heap, but forking after
    torch or an OpenMP library has started its threads can hang the child for good.

    Before the call, garbage is collected and the C allocator is asked to give its free memory
    back: otherwise the call would reuse, unseen, what an earlier one had freed. What a library
    allocates once (a BLAS pool, a compiled function) counts for the first call only: warm up
    before measuring. Do not time a call that a thread samples.

    Parameters
    ----------
    run : callable
        Takes no argument. Its result counts as long as it is alive, hence in the peak too.

    Returns
    -------
    tuple
        The result of ``run`` and the peak during the call less the size before it, in MiB.

    Examples
    --------
    >>> block, mib = peak_extra_memory(lambda: np.ones(8 * 2**20, dtype=np.uint8))
    >>> 7 < mib < 20
    True
    """
    gc.collect()
    _trim_heap()
    if _reset_peak():
        before = _status_mib("VmRSS")
        result = run()
        return result, max(0.0, _status_mib("VmHWM") - before)
    before = _resident_mib()
    with _Sampler() as sampler:
        result = run()
    return result, max(0.0, sampler.peak - before)


def _trim_heap() -> None:
    """Return free memory to the system where the C library can (glibc); else do nothing."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> bool:
    """Set ``VmHWM`` back to the present size (``5`` in clear_refs, see proc(5)), if allowed."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    # A sandbox may accept the write and ignore it: then the old, higher peak is still there.
    return _status_mib("VmHWM") - _status_mib("VmRSS") < 1.0


def _status_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return float("inf")


def _resident_mib() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError as error:
        raise OSError("peak_extra_memory reads /proc/self/statm and so needs Linux") from error
    import resource

    return pages * resource.getpagesize() / _MIB


class _Sampler:
    """Highest resident size seen by a thread while the ``with`` block runs."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, _resident_mib())

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.peak = max(self.peak, _resident_mib())
        self._done.set()
        self._thread.join()
