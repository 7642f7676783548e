"""A thread that keeps up with the folder: embeds what is new, fits, measures. The newest state of the folder wins.

The order is that of what people wait for: an answer first, then how good it is, then what to label next, and last what
takes longest. A change of the folder ends whatever is under way; what was embedded until then is kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core.backend import unit_rows
from .._core.base import FewShotClassifier
from ..deploy.export.none_of_these import FALSE_ALARMS, threshold
from ..encoders import Encoder, open_encoder
from ..encoders.class_text import DEFAULT_TEMPLATE, class_texts
from ..encoders.pixels.decoding import open_image
from ..images.checking import Check
from ..images.classifier import ImageClassifier
from ..images.embeddings import Embeddings
from ..images.evaluation import Answers
from ..images.insight import Insight, folds_of
from ..images.learning_curve import held_out_curve
from ..images.sources.class_names import check_names, prompt_names
from ..images.suggesting import Suggestion, suggestions
from ..methods.zero_shot import ZeroShot
from ..probe.estimator import LPPlusPlus
from .photos import LIMITS
from .project import Listing, Photo, Project
from .rows import Rows

log = logging.getLogger(__name__)
SECONDS_BETWEEN_LOOKS = 1.0
"""At the folder. Longer where looking takes long, so that it costs a twentieth of a core at most."""
PORTION = 64
"""Photos that are embedded before it looks whether the folder has changed."""
SAVED_EVERY = 512
"""Photos that a kill can lose the embeddings of."""
MOST_SUGGESTED = 200
NEAREST = 4
Phase = Literal["idle", "opening", "embedding", "learning", "measuring"]


class _StaleError(Exception):
    """The folder is no longer what is being worked on."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known at one moment. The page shows this and nothing else.

    Attributes
    ----------
    number
        Grows with everything that changes.
    listing
        The folder.
    model, labels
        What answers, and its classes in order; None before there are two classes.
    classifier
        The same, if photos were learned, not only names.
    insight, held, check, curve
        What was measured of `measured`, the classifier that is the present one or the one before.
    suggested
        Which of the unsorted photos to label next.
    unreadable
        Photos that cannot be read, and why.
    phase, done, total
        What is under way.
    problem
        Why the last attempt failed.
    seconds
        From the change of the folder that was noticed to its classifier.
    """

    number: int
    listing: Listing
    encoder: str
    model: FewShotClassifier | None = None
    labels: tuple[str, ...] = ()
    classifier: ImageClassifier | None = None
    measured: ImageClassifier | None = None
    insight: Insight | None = None
    held: Answers | None = None
    check: Check | None = None
    curve: tuple[list[int], dict[str, list[float]]] | None = None
    suggested: tuple[Suggestion, ...] = ()
    unreadable: dict[str, str] = field(default_factory=dict)
    phase: Phase = "idle"
    done: int = 0
    total: int = 0
    problem: str | None = None
    seconds: float | None = None

    @property
    def learned(self) -> int:
        """Number of photos that the present classifier has learned."""
        return 0 if self.classifier is None else len(self.classifier.support_)


@dataclass(frozen=True)
class Reply:
    """What is said of one photo."""

    answers: tuple[tuple[str, float], ...]
    """Labels and probabilities, the likeliest first."""
    none: bool | None
    """Whether it shows none of the classes; None where there are too few photos to tell."""
    nearest: tuple[str, ...]
    """The training photos that it looks most like."""


class Learner:
    """Learns a project; a context manager that runs the thread.

    Parameters
    ----------
    project
        What to learn.
    saved
        Whether to write the classifier and the embeddings to disk.
    """

    def __init__(self, project: Project, *, saved: bool = True) -> None:
        self.project, self._saved = project, saved
        self.snapshot = Snapshot(0, project.listing(), str(project.settings["encoder"]))
        self._rows: Rows | None = None
        self._rows_of = ""
        self._texts: dict[str, NDArray[np.float32]] = {}
        self._wake = threading.Condition()
        self._looked: Listing | None = None
        self._wanted = self._done = 0
        self._stopping = self._paused = False
        self._trusted = ""
        self._thread = threading.Thread(target=self._run, name="lpplusplus-app", daemon=True)

    def __enter__(self) -> Learner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join()

    def look(self) -> None:
        """Look at the folder now, since it was changed."""
        with self._wake:
            self._wanted += 1
            self._paused = False
            self._wake.notify_all()
        self._publish(listing=self.project.listing())

    def cancel(self) -> None:
        """End what is under way, until the folder changes or somebody asks again (`look`)."""
        with self._wake:
            self._wanted += 1
            self._paused = True
            self._wake.notify_all()

    @property
    def paused(self) -> bool:
        """Whether it was cancelled and waits for a change."""
        return self._paused

    def use(self, encoder: str) -> None:
        """Change the encoder, by the will of a person and not of a file; then everything is embedded again."""
        self._trusted = encoder
        self.project.keep(encoder=encoder)
        self.look()

    def wait(self, timeout: float | None = None) -> bool:
        """Until everything is done that the folder asks for; whether it was."""
        with self._wake:
            return self._wake.wait_for(lambda: self._done == self._wanted or self._stopping, timeout)

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
            except _StaleError:
                continue
            except Exception as error:  # The classifier before it still answers.
                log.warning("not learned: %s", error, exc_info=not isinstance(error, ValueError | RuntimeError))
                self._publish(problem=" ".join(str(error).split()) or repr(error))
            self._publish(phase="idle", done=0, total=0)
            with self._wake:
                self._done = wanted
                self._wake.notify_all()

    def _work(self, listing: Listing, wanted: int, began: float) -> None:
        def still(done: int = 0, total: int = 0) -> None:
            if self._wanted != wanted or self._stopping:
                raise _StaleError
            if total:
                self._publish(done=done, total=total)

        rows = self._open()
        self._publish(problem=None)
        photos = [photo for some in listing.classes.values() for photo in some]
        if tuple(listing.classes) != self.snapshot.labels and rows.missing(photos):
            self._fit(rows, listing, photos, began)  # New names answer at once, by what is there already.
        self._embed(rows, _evenly(listing), listing, still)
        self._publish(phase="learning", done=0, total=0)
        clf = self._fit(rows, listing, photos, began)
        still()
        if clf is not None and self._saved:
            clf.save(self.project.classifier)
        if clf is not None:
            self._publish(phase="measuring")
            insight = clf.look_into(still)
            self._publish(insight=insight, held=clf.held_out_, measured=clf)
        else:
            self._publish(insight=None, held=None, measured=None, check=None, curve=None)
        self._embed(rows, listing.unsorted, listing, still)
        self._publish(suggested=self._suggest(rows, listing))
        if self._saved:
            rows.save(listing)
        if clf is not None and clf.held_out_ is not None:
            self._publish(phase="measuring")
            self._publish(check=clf.check(still))
            still()
            assert clf.support_.labels is not None
            self._publish(curve=held_out_curve(clf.support_, clf.class_text_, folds_of(clf.support_), still))
            if self._saved:
                clf.save(self.project.classifier)  # With what was found out.
        elif clf is not None:
            self._publish(check=clf.check(still), curve=None)

    def _open(self) -> Rows:
        spec = str(self.project.settings["encoder"])
        if self._rows is None or self._rows_of != spec:
            self._publish(phase="opening")
            # What the folder says may come from somebody else: then nothing is fetched, and no photo sent.
            by = None if spec == self._trusted else str(self.project.hidden / "settings.json")
            encoder: Encoder = open_encoder(spec, named_by=by)
            self._rows, self._rows_of = Rows(self.project, encoder), spec
            self._texts.clear()
            self._publish(encoder=spec)
        return self._rows

    def _embed(self, rows: Rows, photos: Sequence[Photo], listing: Listing, still: Callable[[int, int], None]) -> None:
        missing = rows.missing(photos)
        since = 0
        for first in range(0, len(missing), PORTION):
            self._publish(phase="embedding", done=first, total=len(missing))
            still(first, len(missing))
            portion = missing[first : first + PORTION]
            rows.embed(portion)
            since += len(portion)
            if since >= SAVED_EVERY and self._saved:
                rows.save(listing)
                since = 0
        everywhere = listing.where().values()
        self._publish(unreadable={one.path: rows.bad[one.key] for one in everywhere if one.key in rows.bad})

    def _text(self, rows: Rows, names: Sequence[str]) -> NDArray[np.float32]:
        new = [name for name in names if name not in self._texts]
        if new:
            made = class_texts(rows.encoder, new, DEFAULT_TEMPLATE)
            self._texts |= dict(zip(new, made, strict=True))
        return np.stack([self._texts[name] for name in names])

    def _fit(self, rows: Rows, listing: Listing, photos: list[Photo], began: float) -> ImageClassifier | None:
        """Fit, and say so; None without photos, when names alone answer."""
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
        now = time.perf_counter() - began
        self._publish(model=clf.classifier_, labels=labels, classifier=clf, seconds=now)
        return clf

    def _suggest(self, rows: Rows, listing: Listing) -> tuple[Suggestion, ...]:
        now, found = self.snapshot, rows.of(listing.unsorted)
        if now.model is None or not len(found):
            return ()
        if now.classifier is not None:
            return tuple(now.classifier.suggest(found, MOST_SUGGESTED))
        none = np.empty((0, rows.origin.dim), np.float32)
        said = np.asarray(now.model.predict_proba(found.rows))
        return tuple(suggestions(found, said, list(now.labels), none, np.empty(0, np.intp), MOST_SUGGESTED))

    def embeddings(self, photos: Sequence[Photo]) -> Embeddings | None:
        """Of those photos that are embedded already, for the map; None before the encoder is open."""
        return None if self._rows is None else self._rows.of(photos)

    def digest(self, path: str) -> str | None:
        """What a photo is known by after it was moved."""
        photo = self.snapshot.listing.where().get(path)
        return None if self._rows is None or photo is None else self._rows.digest(photo)

    def _publish(self, **changes: Any) -> None:
        with self._wake:
            self.snapshot = replace(self.snapshot, number=self.snapshot.number + 1, **changes)
            self._wake.notify_all()


def answered(now: Snapshot, rows: NDArray[np.float32]) -> Reply | None:
    """What a snapshot's classifier says of one embedding, (1, D)."""
    if now.model is None:
        return None
    (chances,) = np.asarray(now.model.predict_proba(rows))
    order = np.argsort(-chances, kind="stable")
    answers = tuple((now.labels[i], float(chances[i])) for i in order)
    none: bool | None = None
    nearest: tuple[str, ...] = ()
    if now.classifier is not None:
        support = now.classifier.support_
        likeness = np.asarray(unit_rows(support.rows)) @ np.asarray(unit_rows(rows))[0]
        nearest = tuple(support.paths[i] for i in np.argsort(-likeness, kind="stable")[:NEAREST])
        limit = threshold(now.model)
        if isinstance(now.model, LPPlusPlus) and limit is not None and np.isfinite(limit):
            none = bool(np.asarray(now.model.none_of_these(rows, FALSE_ALARMS))[0])
    return Reply(answers, none, nearest)


def _evenly(listing: Listing) -> list[Photo]:
    """All photos that have a class, a few of each class first."""
    columns = list(listing.classes.values())
    longest = max(map(len, columns), default=0)
    return [photos[row] for row in range(longest) for photos in columns if row < len(photos)]
