"""A thread for work of which only the newest matters: fit again, measure again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Job = TypeVar("Job")
log = logging.getLogger(__name__)


class SupersededError(Exception):
    """The work is not needed any more: something newer is wanted, or it was cancelled."""


class LatestWorker(Generic[Job]):
    """Does what is wanted, one job after the other, on a thread. A newer job replaces one that waits.

    A context manager: entering starts the thread. An error ends a job, not the thread: it is kept, logged and told.

    Parameters
    ----------
    work
        Called as `work(job, still)`. `still()` raises `SupersededError` if the job is not the newest any more; work
        that does not call it runs to its end.
    name
        The thread's name.
    on_error
        Called as `on_error(job, sentence)` after an error, on the thread.
    setup
        Called once on the thread, before all jobs.
    poll
        Called on the thread every `pause` seconds in which nothing is wanted; it may want something.
    stop_within
        Seconds that leaving waits for a job that runs; None waits until it ends.
    """

    def __init__(
        self,
        work: Callable[[Job, Callable[[], None]], None],
        *,
        name: str,
        on_error: Callable[[Job, str], None] = lambda job, sentence: None,
        setup: Callable[[], None] = lambda: None,
        poll: Callable[[], None] | None = None,
        stop_within: float | None = None,
    ) -> None:
        self._work, self._on_error, self._setup, self._poll = work, on_error, setup, poll
        self._stop_within = stop_within
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._wanted = self._done = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.pause = 1.0
        self.problem: str | None = None
        """What ended the last job, in a sentence; None after one that was done."""

    def __enter__(self) -> LatestWorker[Job]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(self._stop_within)

    def want(self, job: Job) -> None:
        """Do this next, instead of what waits."""
        with self._changed:
            self._waiting = [job]
            self._wanted += 1
            self._changed.notify_all()

    def cancel(self) -> None:
        """Drop what waits, and stop what runs as soon as it asks."""
        with self._changed:
            self._waiting = []
            self._wanted += 1
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all that was wanted is done, failed or cancelled; returns whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._done == self._wanted or self._stopping, timeout)
            return self._done == self._wanted

    def _run(self) -> None:
        self._setup()
        while True:
            with self._changed:
                pause = None if self._poll is None else self.pause
                self._changed.wait_for(lambda: self._done < self._wanted or self._stopping, pause)
                if self._stopping:
                    return
                number, jobs, self._waiting = self._wanted, self._waiting, []
            if number == self._done and self._poll is not None:
                self._try(self._poll)
                continue
            for job in jobs:
                self._try(self._do, job, number)
            with self._changed:
                self._done = number
                self._changed.notify_all()

    def _do(self, job: Job, number: int) -> None:
        def still() -> None:
            if self._wanted != number or self._stopping:
                raise SupersededError

        try:
            self._work(job, still)
            self.problem = None
        except SupersededError:
            pass
        except Exception as error:
            self.problem = " ".join(str(error).split()) or repr(error)
            self._on_error(job, self.problem)
            raise

    def _try(self, step: Callable[..., None], *arguments: object) -> None:
        """Whatever goes wrong, also in what is told of errors, the thread goes on."""
        try:
            step(*arguments)
        except Exception as error:
            expected = isinstance(error, ValueError | RuntimeError | OSError)
            log.warning("%s: %s", self._thread.name, error, exc_info=not expected)
