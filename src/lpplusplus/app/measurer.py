"""How good is the newest classifier? A separate thread measures it, so that the next change need not wait."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ..images.classifier import ImageClassifier

log = logging.getLogger(__name__)
SECONDS_TO_STOP = 5
"""Time that the end of the program waits for a running fit. Nothing is lost if the fit is killed."""


class StaleError(Exception):
    """The work is not needed any more: something newer is wanted."""


class Measurer:
    """Measures one classifier after the other; the newest wins.

    Parameters
    ----------
    publish
        Called with a classifier and its measurements.
    """

    def __init__(self, publish: Callable[..., None]) -> None:
        self._publish = publish
        self._wake = threading.Condition()
        self._wanted: ImageClassifier | None = None
        self._pending = self._stopping = False
        self._thread = threading.Thread(target=self._run, name="lpplusplus-measure", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread soon."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(SECONDS_TO_STOP)

    def measure(self, clf: ImageClassifier | None) -> None:
        """Measure this one instead of any other; None if there is nothing to measure."""
        with self._wake:
            self._wanted, self._pending = clf, True
            self._wake.notify_all()

    def cancel(self) -> None:
        """Stop the running measurement."""
        with self._wake:
            self._wanted, self._pending = None, False
            self._wake.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the newest classifier is measured; returns whether it is."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._pending or self._stopping, timeout)

    def _run(self) -> None:
        after_people(10)
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._pending or self._stopping)
                clf = self._wanted
                if self._stopping:
                    return
            try:
                self._measure(clf)
            except StaleError:
                pass
            except Exception as error:
                log.warning("not measured: %s", error, exc_info=not isinstance(error, ValueError | RuntimeError))
                self._publish(clf, problem=" ".join(str(error).split()) or repr(error))
            self._publish(clf, measuring=False)
            with self._wake:
                if self._wanted is clf:
                    self._pending = False
                    self._wake.notify_all()

    def _measure(self, clf: ImageClassifier | None) -> None:
        def still(*_: Any) -> None:
            if self._wanted is not clf or self._stopping:
                raise StaleError

        nothing: dict[str, Any] = {"insight": None, "held": None, "measured": None, "check": None, "curve": None}
        labels = None if clf is None else clf.support_.labels
        if clf is None or labels is None or len(np.unique(labels)) < 2:  # Of one class every answer is right.
            self._publish(clf, **nothing)
            return
        self._publish(clf, measuring=True)
        insight = clf.look_into(still)
        self._publish(clf, insight=insight, held=clf.held_out_, measured=clf)
        still()
        self._publish(clf, check=clf.check(still))
        self._publish(clf, curve=clf.study_ and clf.study_.curve(still))


def after_people(by: int) -> None:
    """Give the page and the browser priority over this thread and the threads that it starts."""
    if sys.platform == "linux":  # Elsewhere this would change the whole process, with the page.
        with suppress(OSError):
            os.nice(by)
