"""What all tabs of the page share: the project, its learner, and long jobs. Also what one tab shows."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
from numpy.typing import NDArray

from .._core.parameters import Progress
from ..deploy.latest_worker import LatestWorker
from .learner import Learner
from .project import Project
from .snapshot import Snapshot, answer

TABS = {
    "classes": "Classes",
    "try": "Try it",
    "review": "Review",
    "suggest": "Suggest",
    "understand": "Understand",
    "export": "Export",
}
MOST_TRIED = 20
"""Most photos that were tried and are kept, to show their answers or add them to a class."""
Work = Callable[[Progress], str | None]


@dataclass
class ViewState:
    """What one tab shows. What a reload should keep is in its address."""

    tab: str = "classes"
    photo: str | None = None
    """The photo that is open in the dialog."""
    renaming: str | None = None
    more: dict[str, int] = field(default_factory=dict)
    """How many more photos of a class are shown."""
    at: str | None = None
    """The photo that is being labelled."""
    cell: tuple[str, str] | None = None
    """Label and answer, of the confusion matrix."""
    tried: str | None = None

    def address(self) -> str:
        """The part that is kept in the address."""
        truth, answer = self.cell or (None, None)
        kept = {"tab": self.tab, "at": self.at, "truth": truth, "answer": answer, "tried": self.tried}
        return urlencode({name: value for name, value in kept.items() if value is not None})

    @classmethod
    def read(cls, address: str) -> ViewState:
        """What an address names; what makes no sense is left out."""
        found = dict(parse_qsl(address[:5000]))
        tab = found.get("tab", "")
        cell = (found["truth"], found["answer"]) if {"truth", "answer"} <= set(found) else None
        return cls(tab if tab in TABS else "classes", at=found.get("at"), cell=cell, tried=found.get("tried"))


@dataclass(frozen=True)
class Job:
    """Something that takes a while, such as an export."""

    kind: str
    done: int = 0
    total: int = 0
    problem: str | None = None
    result: str | None = None
    """Name of the file that it made."""
    over: bool = False

    @property
    def slot(self) -> str:
        """Where the page shows its progress."""
        return f"job-{self.kind.replace(' ', '-')}"


@dataclass(frozen=True)
class _Tried:
    name: str
    path: Path
    row: NDArray[np.float32]


class AppState:
    """The state of one running `lpp app`.

    Parameters
    ----------
    project, learner
        The project that the page shows, and its learner.
    """

    def __init__(self, project: Project, learner: Learner) -> None:
        self.project, self.learner = project, learner
        self.jobs: dict[str, Job] = {}
        self.changes = 0
        """Grows whenever a job starts or ends, and with every change of a setting."""
        self.drawn: dict[str, dict[str, list[float]]] = {}
        """For UMAP and PCA, the point of each photo on the map (`jobs`)."""
        self._open = ExitStack()
        self._workers: dict[str, LatestWorker[Work]] = {}
        self._tried: OrderedDict[str, _Tried] = OrderedDict()
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], object]] = set()
        learner.on_news = self._tell

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call `listener`, on any thread, after every change of what the page shows."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def changed(self) -> None:
        """Show what is new."""
        with self._lock:
            self.changes += 1
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            for listener in self._listeners:
                listener()

    def close(self) -> None:
        """Stop all jobs."""
        self._open.close()

    def start(self, kind: str, work: Work) -> None:
        """Run a job in a separate thread, unless it runs already. `work` returns the name of a file, or None."""
        with self._lock:
            if self.busy(kind):
                return
            if kind not in self._workers:
                self._workers[kind] = self._open.enter_context(LatestWorker(
                    partial(self._run, kind), name=f"lpplusplus-{kind}", stop_within=0,
                    on_error=lambda _, problem: self._note(kind, problem=problem, over=True),
                ))  # fmt: skip
            self.jobs[kind] = Job(kind)
            self._workers[kind].want(work)
        self.changed()

    def _run(self, kind: str, work: Work, still: Callable[[], None]) -> None:
        def progress(done: int, total: int) -> None:
            still()
            self._note(kind, done=done, total=total)

        result = work(progress)
        still()
        self._note(kind, result=result, over=True)

    def cancel(self, kind: str) -> None:
        """End a job as soon as possible."""
        if self.busy(kind):
            self._workers[kind].cancel()
            self._note(kind, over=True)

    def busy(self, kind: str) -> bool:
        """Whether a job is running."""
        return kind in self.jobs and not self.jobs[kind].over

    def _note(self, kind: str, **changes: Any) -> None:
        with self._lock:
            self.jobs[kind] = replace(self.jobs[kind], **changes)
        if "over" in changes:
            self.changed()
        else:  # Progress is shown in a slot of its own.
            self._tell()

    def show_map(self, kind: str, points: dict[str, list[float]]) -> None:
        """Show a map with these points."""
        self.drawn[kind] = points
        self.changed()

    def keep(self, path: str, label: str) -> None:
        """Note that a photo's label is right, whatever it looks like; not if it has another one by now."""
        if path.partition("/")[0] == label:
            self.project.keep_label(path)
        self.changed()

    def is_kept(self, path: str, label: str) -> bool:
        """Whether `keep` was called for this photo with this label."""
        digest = self.learner.digest(path)
        return digest is not None and f"{digest}:{label}" in self.project.settings["kept"]

    def try_photo(self, name: str, path: Path) -> str | None:
        """Embed a photo, kept until `MOST_TRIED` others were tried; returns its key, or None without an encoder."""
        row = self.learner.embed_file(path)
        if row is None:
            return None
        key = secrets.token_hex(8)
        with self._lock:
            self._tried[key] = _Tried(name, path, row)
            while len(self._tried) > MOST_TRIED:
                self._tried.popitem(last=False)[1].path.unlink(missing_ok=True)
        return key

    def reply(self, now: Snapshot, key: str | None) -> dict[str, Any] | None:
        """The answer of the present classifier about a photo that was tried."""
        tried = self._tried.get(key or "")
        if tried is None or now.model is None or tried.row.shape[1] != now.model.n_features_in_:
            return None
        return answer(now, tried.row)

    def tried_file(self, key: str) -> Path | None:
        """Where a photo that was tried is."""
        tried = self._tried.get(key)
        return None if tried is None else tried.path

    def take_tried(self, key: str, to: str) -> None:
        """Add a photo that was tried to a class."""
        tried = self._tried.get(key)
        if tried is not None:
            self.project.add(to, [(tried.name, tried.path)])
            self._tried.pop(key, None)
