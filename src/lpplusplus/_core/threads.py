"""How the cores are used: row blocks in parallel, one BLAS thread each.

Matrix products dominate, but a softmax between two of them would run on one core if its rows were not divided here.
Dividing them also keeps small tasks from paying for BLAS threads that they cannot use. Numpy releases the interpreter
lock in both, so plain threads are enough. Tensors are left to torch's own threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import threadpoolctl

from .backend import Array, is_foreign

Result = TypeVar("Result")

WORTH_A_THREAD = 2.0e7
"""With fewer floating-point operations than this, giving work to a thread costs more than it saves."""
WORTH_COMPANY = WORTH_A_THREAD / 10
"""With fewer operations per pass, not even whole runs gain from parallel threads: they mostly wait for Python."""


class Team:
    """A fixed number of workers. The division of work depends on that number only, so results repeat bit for bit."""

    def __init__(self, size: int, pool: ThreadPoolExecutor | None = None) -> None:
        self.size, self._pool = size, pool

    def map(self, work: Callable[[int], Result]) -> list[Result]:
        """`[work(0), …, work(size - 1)]`, in parallel; the calling thread does the first."""
        if self.size == 1 or self._pool is None:
            return [work(0)]
        others = [self._pool.submit(work, i) for i in range(1, self.size)]
        return [work(0), *(other.result() for other in others)]

    def each(self, work: Callable[[int], Result], count: int) -> list[Result]:
        """`[work(0), …, work(count - 1)]`, as many at once as BLAS had threads. They must not use the team."""
        return list((map if self._pool is None else self._pool.map)(work, range(count)))

    def share(self, n: int, worker: int) -> slice:
        """The part of `range(n)` for `worker`."""
        return slice(n * worker // self.size, n * (worker + 1) // self.size)

    def matmul(self, a: Array, b: Array) -> Array:
        """`a @ b`, divided among the workers along the longer side of the result."""
        if self.size == 1 or self._pool is None:
            return a @ b
        out = np.empty((a.shape[0], b.shape[1]), dtype=a.dtype)

        def work(worker: int) -> None:
            if a.shape[0] >= b.shape[1]:
                part = self.share(a.shape[0], worker)
                np.matmul(a[part], b, out=out[part])
            else:
                part = self.share(b.shape[1], worker)
                np.matmul(a, b[:, part], out=out[:, part])

        self.map(work)
        return out


ALONE = Team(1)


@contextmanager
def team(data: Array, operations: float) -> Iterator[Team]:
    """Workers for passes of `operations` floating-point operations over `data`.

    There are as many as BLAS had threads before, so `threadpoolctl` and `OMP_NUM_THREADS` are respected.
    """
    if is_foreign(data):
        yield ALONE
        return
    with single_threaded_blas() as allowed, ThreadPoolExecutor(allowed) as pool:
        alone = allowed == 1 or operations < WORTH_COMPANY
        yield ALONE if alone else Team(min(allowed, max(1, int(operations / WORTH_A_THREAD))), pool)


def rows_per_chunk(n_classes: int) -> int:
    """Rows of logits that a worker holds at once: about 8 MiB of float32, where products run at full speed."""
    return int(min(4096, max(256, 2**21 // n_classes)))


def give_back_memory() -> None:
    """Give the memory of freed arrays back to the system: glibc keeps blocks of up to 32 MiB for later."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def fork_safe_lock() -> threading.RLock:
    """A lock that no thread holds in a forked child: a fork waits until the lock is free."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


_lock = fork_safe_lock()
_holders: list[int] = []
_limit: Any = None


@contextmanager
def single_threaded_blas() -> Iterator[int]:
    """Limit BLAS to one thread; yields how many it had before, or 1 if it is limited already.

    The limit is a property of the process. Fits in several threads share one limit, and the last of them removes it. If
    each restored the limit that it had found, the process would stay limited.
    """
    global _limit
    thread = threading.get_ident()
    with _lock:
        allowed = 1
        if not _holders:
            blas = _controller()
            allowed = max((library["num_threads"] for library in blas.info()), default=1)
            with _any_thread_may_change_blas():
                _limit = blas.limit(limits=1)
        _holders.append(thread)
    try:
        yield allowed
    finally:
        with _lock:
            _holders.remove(thread)
            _lift_if_unused()


def _lift_if_unused() -> None:
    global _limit
    if not _holders and _limit is not None:
        with _any_thread_may_change_blas():
            _limit.restore_original_limits()
        _limit = None


def _after_fork() -> None:
    """In the child only the thread that forked exists: release what the other threads held."""
    _holders[:] = [thread for thread in _holders if thread == threading.get_ident()]
    _lift_if_unused()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def _any_thread_may_change_blas() -> Iterator[None]:
    """Let this thread change the limit, even if another one set it.

    From version 3.8 on, threadpoolctl lets only one thread change OpenBLAS, the first that did, and ignores all others.
    """
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    let_go = getattr(openblas, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    try:
        yield
    finally:
        let_go(force=True)


@lru_cache(maxsize=1)
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


if TYPE_CHECKING:
    lazy = cached_property
else:

    class lazy:  # noqa: N801  (Used as a decorator, like `property`.)
        """`functools.cached_property` without its lock.

        Up to Python 3.11 all objects of a class share one lock. Then fits in threads wait for each other, and a process
        that is forked in the meantime waits for ever. Here, two threads that need an attribute at once both compute it.
        """

        def __init__(self, compute):
            self._compute, self.__doc__ = compute, compute.__doc__

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            # The next time Python finds the value in the object and does not call this.
            value = instance.__dict__[self._compute.__name__] = self._compute(instance)
            return value
