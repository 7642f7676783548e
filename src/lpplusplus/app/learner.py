"""A thread that follows the folder: embeds new photos, fits, suggests. The newest state of the folder wins.

What people wait for comes first: a classifier, then suggestions what to label next. Another thread measures accuracy
(`measurer`), so that changes need not wait for it. A change of the folder stops the running work; finished embeddings
are kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoders import Encoder, open_encoder
from ..encoders.class_text import DEFAULT_TEMPLATE, class_texts
from ..encoders.pixels.decoding import open_image
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings
from ..images.sources.class_names import check_names, prompt_names
from ..images.suggesting import Suggestion, already_there, suggestions
from ..methods.zero_shot import ZeroShot
from .measurer import Measurer, StaleError, after_people
from .photos import LIMITS
from .project import Listing, Photo, Project
from .rows import ProjectRows
from .snapshot import PROGRESS, Snapshot

log = logging.getLogger(__name__)
SECONDS_BETWEEN_LOOKS = 1.0
"""Between two looks at the folder; longer if a look takes long, so that looking takes at most 5 % of a core."""
PORTION = 32
"""Photos that are embedded before the next check whether the folder has changed."""
MANY = 256
"""With more photos to embed, the page and the browser get priority; fewer are done quickly."""
SAVED_EVERY = 512
"""Embeddings are saved after this many photos, so a kill loses no more."""
MOST_SUGGESTED = 200


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
        self.snapshot = Snapshot(0, project.listing(), str(project.settings["encoder"]))
        self._rows: ProjectRows | None = None
        self._rows_of = ""
        self._texts: dict[str, NDArray[np.float32]] = {}
        self._wake = threading.Condition(threading.RLock())
        self._looked: Listing | None = None
        self._wanted = self._done = 0
        self._stopping = self._paused = False
        self._trusted = ""
        self._saving = threading.Lock()
        self._measurer = Measurer(self._measured)
        self._thread = threading.Thread(target=self._run, name="lpplusplus-app", daemon=True)

    def __enter__(self) -> Learner:
        self._thread.start()
        self._measurer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join()
        self._measurer.stop()

    def look(self) -> None:
        """Look at the folder now, since it was changed."""
        with self._wake:
            self._wanted += 1
            self._paused = False
            self._wake.notify_all()
        self._publish(listing=self.project.listing())

    def cancel(self) -> None:
        """Stop the work until the folder changes or `look` is called."""
        with self._wake:
            self._wanted += 1
            self._paused = True
            self._wake.notify_all()
        self._measurer.cancel()

    @property
    def paused(self) -> bool:
        """Whether it was cancelled and waits for a change."""
        return self._paused

    def use(self, encoder: str) -> None:
        """Change the encoder. A person chose it, not a file. Everything is embedded again."""
        self._trusted = encoder
        self.project.keep(encoder=encoder)
        self.look()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all work is done; returns whether it is."""
        with self._wake:
            done = self._wake.wait_for(lambda: self._done == self._wanted or self._stopping, timeout)
        return done and self._measurer.wait(timeout)

    def embed_file(self, path: Path) -> NDArray[np.float32] | None:
        """The embedding of a photo that is not in the project, (1, D); None before the encoder is open."""
        rows = self._rows
        return None if rows is None else rows.encoder.encode_images([open_image(path, LIMITS)])

    # The thread

    def _run(self) -> None:
        pause = SECONDS_BETWEEN_LOOKS
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._done < self._wanted or self._stopping, pause)
                if self._stopping:
                    return
            began = time.perf_counter()
            listing = self.project.listing()
            pause = max(SECONDS_BETWEEN_LOOKS, 20 * (time.perf_counter() - began))
            with self._wake:
                if listing != self._looked and self._done == self._wanted:
                    self._wanted += 1
                    self._paused = False
                wanted, paused = self._wanted, self._paused
            if wanted == self._done:
                continue
            self._looked = listing
            self._publish(listing=listing)
            try:
                if not paused:
                    self._work(listing, wanted, began)
            except StaleError:
                continue
            except Exception as error:  # The last classifier still answers.
                log.warning("not learned: %s", error, exc_info=not isinstance(error, ValueError | RuntimeError))
                self._publish(problem=" ".join(str(error).split()) or repr(error))
            self._publish(phase="idle", done=0, total=0)
            with self._wake:
                self._done = wanted
                self._wake.notify_all()

    def _work(self, listing: Listing, wanted: int, began: float) -> None:
        def still(done: int = 0, total: int = 0) -> None:
            if self._wanted != wanted or self._stopping:
                raise StaleError
            if total:
                self._publish(done=done, total=total)

        rows = self._open()
        self._publish(problem=None)
        photos = [photo for some in listing.classes.values() for photo in some]
        if tuple(listing.classes) != self.snapshot.labels and rows.missing(photos):
            self._fit(rows, listing, photos, began)  # At once, with the embeddings that exist.
        self._embed(rows, _evenly(listing), listing, still)
        self._publish(phase="learning", done=0, total=0)
        clf = self._fit(rows, listing, photos, began)
        still()
        self._save(clf)
        self._measurer.measure(clf)
        self._embed(rows, listing.unsorted, listing, still)
        self._publish(suggested=self._suggest(rows, listing))
        if self._saved:
            rows.save(listing)

    def _save(self, clf: ImageClassifier | None) -> None:
        """Save a classifier, unless there is a newer one."""
        with self._saving:
            if self._saved and clf is not None and clf is self.snapshot.classifier and not self._stopping:
                clf.save(self.project.classifier)

    def _measured(self, clf: ImageClassifier | None, **found: Any) -> None:
        """Publish the measurements of a classifier, unless there is a newer one."""
        with self._wake:
            if clf is self.snapshot.classifier:
                self._publish(**found)
        if not found.get("measuring", True):
            self._save(clf)  # With the measurements.

    def _open(self) -> ProjectRows:
        spec = str(self.project.settings["encoder"])
        if self._rows is None or self._rows_of != spec:
            self._publish(phase="opening")
            # The folder's settings may come from somebody else: then nothing is fetched, and no photo sent.
            by = None if spec == self._trusted else str(self.project.hidden / "settings.json")
            encoder: Encoder = open_encoder(spec, named_by=by)
            self._rows, self._rows_of = ProjectRows(self.project, encoder), spec
            self._texts.clear()
            self._publish(encoder=spec)
        return self._rows

    def _embed(
        self, rows: ProjectRows, photos: Sequence[Photo], listing: Listing, still: Callable[[int, int], None]
    ) -> None:
        missing = rows.missing(photos)
        since = 0
        with ThreadPoolExecutor(1, initializer=after_people, initargs=(10,)) as aside:
            for first in range(0, len(missing), PORTION):
                self._publish(phase="embedding", done=first, total=len(missing))
                still(first, len(missing))
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

    def _fit(self, rows: ProjectRows, listing: Listing, photos: list[Photo], began: float) -> ImageClassifier | None:
        """Fit and publish the classifier; None without photos, when the names alone give the answers."""
        labels = tuple(listing.classes)
        if len(labels) < 2:
            self._publish(model=None, labels=labels, classifier=None, seconds=None)
            return None
        names = prompt_names(labels)
        check_names(names, "this project")
        text = self._text(rows, list(names.values()))
        said = [label for label, some in listing.classes.items() for _ in some]
        support = replace(rows.of(photos, said), classes=labels, names=tuple(names.values()), text=text)
        if not len(support):
            model = ZeroShot().fit(text=text, classes=list(labels))
            self._publish(model=model, labels=labels, classifier=None, seconds=time.perf_counter() - began)
            return None
        clf = ImageClassifier(rows.encoder).fit(support)
        rows.share(support)
        now = time.perf_counter() - began
        self._publish(model=clf.classifier_, labels=labels, classifier=clf, seconds=now)
        return clf

    def _suggest(self, rows: ProjectRows, listing: Listing) -> tuple[Suggestion, ...]:
        now, found = self.snapshot, rows.of(listing.unsorted)
        if now.model is None or not len(found):
            return ()
        if now.classifier is not None:
            return (*now.classifier.suggest(found, MOST_SUGGESTED), *already_there(found, now.classifier.support_))
        none = np.empty((0, rows.origin.dim), np.float32)
        said = np.asarray(now.model.predict_proba(found.rows))
        return tuple(suggestions(found, said, list(now.labels), none, np.empty(0, np.intp), MOST_SUGGESTED))

    def embeddings(self, photos: Sequence[Photo]) -> Embeddings | None:
        """Embeddings of the photos that have one, for the map; None before the encoder is open."""
        return None if self._rows is None else self._rows.of(photos)

    def digest(self, path: str) -> str | None:
        """A digest of a photo, which stays the same if it is moved."""
        photo = self.snapshot.listing.where().get(path)
        return None if self._rows is None or photo is None else self._rows.digest(photo)

    def _publish(self, **changes: Any) -> None:
        with self._wake:
            now = self.snapshot
            more = any(value != getattr(now, name) for name, value in changes.items() if name not in PROGRESS)
            self.snapshot = replace(now, number=now.number + 1, version=now.version + more, **changes)
            self._wake.notify_all()
        self.on_news()


def _evenly(listing: Listing) -> list[Photo]:
    """All photos that have a class, a few of each class first."""
    columns = list(listing.classes.values())
    longest = max(map(len, columns), default=0)
    return [photos[row] for row in range(longest) for photos in columns if row < len(photos)]
