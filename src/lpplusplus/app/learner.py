"""A thread that follows the folder: embeds new photos, fits, suggests. The newest state of the folder wins.

What people wait for comes first: a classifier, then suggestions what to label next. Another thread measures how good
the newest classifier is, so that changes need not wait for it. A change of the folder stops the running work; finished
embeddings are kept.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..deploy.latest_worker import LatestWorker, SupersededError
from ..encoders import open_encoder
from ..encoders.class_text import DEFAULT_TEMPLATE, class_texts
from ..encoders.pixels.decoding import open_image
from ..images.answers import answers
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings
from ..images.sources.class_names import check_names, prompt_names
from ..images.suggesting import Suggestion, already_there, suggestions
from ..methods.zero_shot import ZeroShot
from .folder import Listing, Photo
from .photos import LIMITS
from .project import Project
from .rows import ProjectRows
from .snapshot import PROGRESS, Snapshot, sure_of

SECONDS_BETWEEN_LOOKS = 1.0
"""Between two looks at the folder; longer if a look takes long, so that looking takes at most 5 % of a core."""
PORTION = 32
"""Photos that are embedded before the next check whether the folder has changed."""
MANY = 256
"""With more photos to embed, the page and the browser get priority; fewer are done quickly."""
SAVED_EVERY = 512
"""Embeddings are saved after this many photos, so a kill loses no more."""
MOST_SUGGESTED = 200
SECONDS_TO_STOP = 5
"""Time that the end of the program waits for a running measurement. Nothing is lost if it is killed."""


class Learner:
    """Learns a project; a context manager that runs its threads.

    Parameters
    ----------
    project
        What to learn.
    saved
        Whether to write the classifier and the embeddings to disk.
    """

    def __init__(self, project: Project, *, saved: bool = True) -> None:
        self.project, self._saved = project, saved
        self.on_news: Callable[[], None] = lambda: None
        """Called, on any thread, after every new snapshot."""
        self.snapshot = Snapshot(project.listing(), str(project.settings["encoder"]))
        self.paused = False
        """Whether it was cancelled and waits for a change."""
        self._rows: ProjectRows | None = None
        self._rows_of = ""
        self._texts: dict[str, NDArray[np.float32]] = {}
        self._looked: Listing | None = None
        self._trusted = ""
        self._looking, self._publishing, self._saving = threading.RLock(), threading.RLock(), threading.Lock()
        self._worker = LatestWorker(
            self._learn, name="lpplusplus-app", poll=partial(self.look, polling=True),
            on_error=lambda _, problem: self._publish(problem=problem, phase="idle", done=0, total=0),
        )  # fmt: skip
        self._measurer = LatestWorker(
            self._measure, name="lpplusplus-measure", setup=lambda: after_people(10), stop_within=SECONDS_TO_STOP,
            on_error=lambda clf, problem: self._measured(clf, problem=problem),
        )  # fmt: skip

    def __enter__(self) -> Learner:
        self._open = ExitStack()
        self._open.enter_context(self._measurer)
        self._open.enter_context(self._worker)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def look(self, *, polling: bool = False) -> None:
        """Look at the folder now, since it was changed; or, if nobody says so, whether it was."""
        with self._looking:  # What is wanted last was seen last.
            began = time.perf_counter()
            listing = self.project.listing()
            self._worker.pause = max(SECONDS_BETWEEN_LOOKS, 20 * (time.perf_counter() - began))
            if polling and listing == self._looked:
                return
            self._looked, self.paused = listing, False
            self._publish(listing=listing)
            self._worker.want(listing)

    def cancel(self) -> None:
        """Stop the work until the folder changes or `look` is called."""
        self.paused = True
        self._worker.cancel()
        self._measurer.cancel()

    def use(self, encoder: str) -> None:
        """Change the encoder. A person chose it, not a file. Everything is embedded again."""
        self._trusted = encoder
        self.project.keep(encoder=encoder)
        self.look()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all work is done; returns whether it is."""
        return self._worker.wait(timeout) and self._measurer.wait(timeout)

    def embed_file(self, path: Path) -> NDArray[np.float32] | None:
        """The embedding of a photo that is not in the project, (1, D); None before the encoder is open."""
        rows = self._rows
        return None if rows is None else rows.encoder.encode_images([open_image(path, LIMITS)])

    # The threads

    def _learn(self, listing: Listing, still: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            rows = self._encoder()
            self._publish(problem=None)
            if tuple(listing.classes) != self.snapshot.labels and rows.missing(listing.labelled):
                self._fit(rows, listing, began)  # At once, with the embeddings that exist.
            self._embed(rows, _evenly(listing), listing, still)
            self._publish(phase="learning", done=0, total=0)
            clf = self._fit(rows, listing, began)
            still()
            self._save(clf)
            self._measurer.want(clf)
            self._embed(rows, listing.unsorted, listing, still)
            found = rows.of(listing.unsorted)
            self._publish(suggested=self._suggest(found), sure=sure_of(self.snapshot, found))
            if self._saved:
                rows.save(listing)
        except SupersededError:
            if not self.paused:  # The newer work says what it does.
                raise
        self._publish(phase="idle", done=0, total=0)

    def _save(self, clf: ImageClassifier | None) -> None:
        """Save a classifier, unless there is a newer one."""
        with self._saving:
            if self._saved and clf is not None and clf is self.snapshot.classifier:
                clf.save(self.project.classifier)

    def _measure(self, clf: ImageClassifier | None, still: Callable[[], None]) -> None:
        labels = None if clf is None else clf.support_.labels
        if clf is None or labels is None or len(np.unique(labels)) < 2:  # Of one class every answer is right.
            self._measured(clf, insight=None, held=None, measured=None, check=None, curve=None)
            return

        def ticked(*_: object) -> None:
            still()

        try:
            self._measured(clf, measuring=True)
            insight = clf.look_into(ticked)
            self._measured(clf, insight=insight, held=clf.held_out_, measured=clf)
            still()
            self._measured(clf, check=clf.check(ticked))
            self._measured(clf, curve=clf.study_ and clf.study_.curve(ticked))
        finally:
            self._measured(clf, measuring=False)
        still()
        self._save(clf)  # With the measurements.

    def _measured(self, clf: ImageClassifier | None, **found: Any) -> None:
        """Publish the measurements of a classifier, unless there is a newer one."""
        with self._publishing:
            if clf is self.snapshot.classifier:
                self._publish(**found)

    def _encoder(self) -> ProjectRows:
        spec = str(self.project.settings["encoder"])
        if self._rows is None or self._rows_of != spec:
            self._publish(phase="opening")
            # The folder's settings may come from somebody else: then nothing is fetched, and no photo sent.
            by = None if spec == self._trusted else str(self.project.hidden / "settings.json")
            self._rows, self._rows_of = ProjectRows(self.project, open_encoder(spec, named_by=by)), spec
            self._texts.clear()
            self._publish(encoder=spec)
        return self._rows

    def _embed(self, rows: ProjectRows, photos: Sequence[Photo], listing: Listing, still: Callable[[], None]) -> None:
        missing = rows.missing(photos)
        since = 0
        with ThreadPoolExecutor(1, initializer=after_people, initargs=(10,)) as aside:
            for first in range(0, len(missing), PORTION):
                still()
                self._publish(phase="embedding", done=first, total=len(missing))
                portion = missing[first : first + PORTION]
                if len(missing) > MANY:
                    aside.submit(rows.embed, portion).result()
                else:
                    rows.embed(portion)
                since += len(portion)
                if since >= SAVED_EVERY and self._saved:
                    rows.save(listing)
                    since = 0
        everywhere = listing.where().values()
        bad = {one.path: rows.bad[one.key] for one in everywhere if one.key in rows.bad}
        self._publish(unreadable=bad, embedded=sum(one in rows for one in everywhere))

    def _text(self, rows: ProjectRows, names: Sequence[str]) -> NDArray[np.float32]:
        new = [name for name in names if name not in self._texts]
        if new:
            made = class_texts(rows.encoder, new, DEFAULT_TEMPLATE)
            self._texts |= dict(zip(new, made, strict=True))
        return np.stack([self._texts[name] for name in names])

    def _fit(self, rows: ProjectRows, listing: Listing, began: float) -> ImageClassifier | None:
        """Fit and publish the classifier; None without photos, when the names alone give the answers."""
        labels = tuple(listing.classes)
        if len(labels) < 2:
            self._publish(model=None, labels=labels, classifier=None, seconds=None)
            return None
        names = prompt_names(labels)
        check_names(names, "this project")
        text = self._text(rows, list(names.values()))
        support = rows.of(listing.labelled, labelled=True)
        support = replace(support, classes=labels, names=tuple(names.values()), text=text)
        if not len(support):
            model = ZeroShot().fit(text=text, classes=list(labels))
            self._publish(model=model, labels=labels, classifier=None, seconds=time.perf_counter() - began)
            return None
        clf = ImageClassifier(rows.encoder).fit(support)
        rows.share(support)
        now = time.perf_counter() - began
        self._publish(model=clf.classifier_, labels=labels, classifier=clf, seconds=now)
        return clf

    def _suggest(self, found: Embeddings) -> tuple[Suggestion, ...]:
        now = self.snapshot
        if now.model is None or not len(found):
            return ()
        if now.classifier is not None:
            return (*now.classifier.suggest(found, MOST_SUGGESTED), *already_there(found, now.classifier.support_))
        return tuple(suggestions(answers(now.model, found), None, MOST_SUGGESTED))

    def embeddings(self, photos: Sequence[Photo]) -> Embeddings | None:
        """Embeddings of the photos that have one, for the map; None before the encoder is open."""
        return None if self._rows is None else self._rows.of(photos)

    def digest(self, path: str) -> str | None:
        """A digest of a photo, which stays the same if it is moved."""
        photo = self.snapshot.listing.where().get(path)
        return None if self._rows is None or photo is None else self._rows.digest(photo)

    def _publish(self, **changes: Any) -> None:
        with self._publishing:
            now = self.snapshot
            more = any(value != getattr(now, name) for name, value in changes.items() if name not in PROGRESS)
            self.snapshot = replace(now, version=now.version + more, **changes)
        self.on_news()


def _evenly(listing: Listing) -> list[Photo]:
    """All photos that have a class, a few of each class first."""
    return [photo for some in zip_longest(*listing.classes.values()) for photo in some if photo is not None]


def after_people(by: int) -> None:
    """Give the page and the browser priority over this thread and the threads that it starts."""
    if sys.platform == "linux":  # Elsewhere this would change the whole process, with the page.
        with suppress(OSError):
            os.nice(by)
