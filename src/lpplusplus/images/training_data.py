"""What a classifier is trained on, and how it changes: more photos, fewer, other names.

A fit depends on the order of its photos, because of rounding and folds. Photos sorted by class and name, as in a
folder, stay sorted. So a classifier to which photos were added is, bit for bit, the one trained on all of them at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._core import checks
from .._core.base import FewShotClassifier
from .._core.task import Task
from .._core.threads import lazy
from .embeddings import DIGEST, Embeddings, Origin
from .errors import SourceError, shown
from .sources import open_images
from .sources.class_names import check_label, check_names, listed
from .sources.folders import EXTENSIONS
from .sources.image_set import content_of

Method = TypeVar("Method", bound=FewShotClassifier)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Photos with their labels, and class names: a `Task`, and which photo each of its rows is."""

    support: Embeddings
    validation: Embeddings | None = None
    text: NDArray[np.float32] | None = None
    """(K, D) or, with several templates, (templates, K, D)."""
    unlabelled: NDArray[np.float32] | None = None
    """(n, D) photos without a label."""

    @lazy
    def task(self) -> Task:
        """The arrays, which are not copied: what methods are fitted on and keep, and what a file has."""
        classes, held = np.array(self.support.classes), self.validation
        return Task(
            self.support.X,
            checks.encode_labels(self._labels, classes, "y"),
            classes,
            self.text,
            None if held is None else held.rows,
            None if held is None else checks.encode_labels(np.asarray(held.labels), classes, "y_val"),
            unlabelled=self.unlabelled,
        )

    @property
    def _labels(self) -> NDArray[np.str_]:
        assert self.support.labels is not None
        return self.support.labels

    @property
    def present(self) -> list[str]:
        """Classes that have photos; the others are known by their names only."""
        there = set(self._labels.tolist())
        return [label for label in self.support.classes if label in there]

    def rows(self, index: Any) -> TrainingData:
        """Some of the labelled photos, with all names; nothing to validate on."""
        return TrainingData(self.support.subset(index), None, self.text)

    def without_names(self) -> TrainingData:
        """The labelled photos alone, of the classes that have some."""
        return TrainingData(replace(self.support, classes=tuple(self.present)))

    def fitted(self, method: Method) -> Method:
        """The method fitted on this. It keeps `task`, not a copy."""
        task, extra = self.task, {}
        if task.X_val is not None:
            extra = {"X_val": task.X_val, "y_val": task.classes[task.y_val]}
        if task.unlabelled is not None:
            extra["unlabelled"] = task.unlabelled
        model: Method = clone(method).fit(task.X, self._labels, text=task.text, classes=task.classes, **extra)
        if "task_" in vars(model):
            model.task_ = task
        return model

    @classmethod
    def read(
        cls,
        task: Task,
        classes: Sequence[str],
        names: tuple[str, ...],
        origin: Origin | None,
        about: dict[str, Any],
    ) -> TrainingData:
        """What a file says; KeyError, TypeError or ValueError unless it fits together."""

        def images(X: NDArray[Any], y: Any, paths: list[str], digests: str | None) -> Embeddings:
            hashes = None if digests is None else np.frombuffer(bytes.fromhex(digests), np.uint8).reshape(-1, DIGEST)
            fits = X.ndim <= 3 and len(X) == len(paths) and (hashes is None or len(hashes) == len(X))
            if not fits or not all(isinstance(path, str) for path in paths):
                raise ValueError("paths or digests are not those of the images")
            labels = np.array(classes)[y]
            return Embeddings(
                X if X.ndim == 3 else X[:, None], labels, paths, tuple(classes), names, origin, hashes=hashes
            )

        if isinstance(task.text, list):
            raise ValueError("text is not that of templates")
        held = None
        if task.X_val is not None:  # The digests of validation images were not always kept.
            held = images(task.X_val, task.y_val, about["validated_on"], about.get("validation_digests"))
        support = images(task.X, task.y, about["photos"], about["trained_on"])
        data = cls(support, held, task.text, task.unlabelled)
        data.__dict__["task"] = task
        return data

    def joined(self, more: TrainingData) -> TrainingData:
        """Both. Names and text of classes that both have are those of this one."""
        mine, its = self.support, more.support
        classes = all_classes(mine.classes, its.classes)
        names = dict(zip((*its.classes, *mine.classes), (*its.names, *mine.names), strict=True))
        check_names({label: names[label] for label in classes}, "together with what is there")
        text = self.text
        if (text is None) != (more.text is None) and set(classes) != set(mine.classes):
            which = "the new" if more.text is None else "the present"
            raise SourceError(
                f"{which} classes have no text embeddings, and others have: give them for all, or for none."
            )
        if text is not None and more.text is not None:
            order = [*mine.classes, *its.classes]
            text = np.concatenate([text, more.text], axis=-2)[..., [order.index(label) for label in classes], :]
        about: dict[str, Any] = {"classes": classes, "names": tuple(names[label] for label in classes), "text": None}
        held = [images for images in (self.validation, more.validation) if images is not None]
        free = [rows for rows in (self.unlabelled, more.unlabelled) if rows is not None]
        return TrainingData(
            _like(mine, replace(stacked([mine, its]), **about)),
            replace(stacked(held), **about) if held else None,
            text,
            np.concatenate(free) if free else None,
        )

    def without_classes(self, labels: Sequence[str]) -> TrainingData:
        """All classes but these, and their photos."""
        check_known(self.support, labels)
        left = [label for label in self.support.classes if label not in labels]
        if len(left) < 2:
            raise SourceError(
                f"without {listed(labels)} there are {len(left)} class(es): a classifier needs at least two."
            )
        if not set(left) & set(self.present):
            raise SourceError(f"without {listed(labels)} there is no photo: a classifier needs some.")
        named = dict(zip(self.support.classes, self.support.names, strict=True))
        return self._with_classes([(label, label, named[label]) for label in left], self.text)

    def without_photos(self, photos: Any) -> TrainingData:
        """All photos but these: files, compared by content, or names of photos as in `paths`."""
        left = self.support.subset(~np.isin(np.arange(len(self.support)), _rows_of(self.support, photos)))
        lost = sorted(set(self.present) - set(np.asarray(left.labels).tolist()))
        if lost:
            raise SourceError(f"these are all photos of {listed(lost)}: remove the class, or leave it one.")
        return replace(self, support=left)

    def renamed(self, old: str, new: str, name: str, row: NDArray[np.float32] | None) -> TrainingData:
        """Class `old` as `new`, called `name` in prompts, with the text embedding(s) `row`."""
        check_known(self.support, [old])
        check_label(new, "the new label")
        before = self.support.classes
        if new != old and new in before:
            raise SourceError(f"there is a class {shown(new)} already: take another label.")
        classes = [
            (label, new, name) if label == old else (label, label, words)
            for label, words in zip(before, self.support.names, strict=True)
        ]
        check_names({label: words for _, label, words in classes}, "the new names")
        if list(before) == sorted(before):
            classes.sort(key=lambda about: about[1])
        text = self.text
        if text is not None and row is not None:
            text, position = text.copy(), before.index(old)
            text[..., position : position + 1, :] = row
        data = self._with_classes(classes, text)
        return replace(data, support=_like(self.support, data.support))

    def _with_classes(self, classes: Sequence[tuple[str, str, str]], text: Any) -> TrainingData:
        """With these classes: the label of each, its new label, and its name. The order may be another."""
        new = {old: label for old, label, _ in classes}
        about: dict[str, Any] = {"classes": tuple(new.values()), "names": tuple(words for *_, words in classes)}

        def changed(images: Embeddings | None) -> Any:
            if images is None or images.labels is None:
                return None
            kept = np.isin(images.labels, list(new))
            images = images if kept.all() else images.subset(kept)
            labels = np.array([new[label] for label in np.asarray(images.labels).tolist()], np.str_)
            return replace(images, labels=labels, text=None, **about) if len(images) else None

        order = [self.support.classes.index(old) for old in new]
        return TrainingData(
            changed(self.support),
            changed(self.validation),
            None if text is None else text[..., order, :],
            self.unlabelled,
        )


def all_classes(mine: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    """All classes. If `mine` are sorted, the result is; otherwise new ones come last.

    >>> all_classes(["ant", "cat"], ["bee", "cat"]), all_classes(["cat", "ant"], ["bee"])
    (('ant', 'bee', 'cat'), ('cat', 'ant', 'bee'))
    """
    everything = list(dict.fromkeys([*mine, *more]))
    return tuple(sorted(everything) if list(mine) == sorted(mine) else everything)


def new_ones(mine: Embeddings, more: Embeddings, where: str) -> Embeddings:
    """The photos of `more` that `mine` does not have. One that `mine` has under another label is refused."""
    assert mine.labels is not None
    assert more.labels is not None
    if more.X.shape[1:] != mine.X.shape[1:]:
        raise SourceError(
            f"{where} has (views, dimensions) {more.X.shape[1:]} of each image, the classifier {mine.X.shape[1:]}: "
            f"embed both alike."
        )
    labels_of: dict[bytes, list[str]] = {}
    for digest, label in zip(mine.digests(), mine.labels.tolist(), strict=True):
        labels_of.setdefault(digest, []).append(label)
    fresh = []
    for row, digest in enumerate(more.digests()):
        there = labels_of.get(digest)
        if there is None:
            fresh.append(row)
        elif more.labels[row] not in there:
            raise SourceError(
                f"{more.paths[row]} is in the classifier already, as {shown(there[0])} and not as "
                f"{shown(str(more.labels[row]))}: remove it first (remove, with photos), if that was wrong."
            )
    return more.subset(fresh)


def _like(before: Embeddings, images: Embeddings) -> Embeddings:
    """`images` sorted by class and name, if `before` is; else unchanged."""

    def keys(of: Embeddings) -> list[tuple[int, str]]:
        position = {label: i for i, label in enumerate(of.classes)}
        labels = np.asarray(of.labels).tolist()
        return [(position[label], path.rpartition("/")[2]) for label, path in zip(labels, of.paths, strict=True)]

    if keys(before) != sorted(keys(before)):
        return images
    unsorted = keys(images)
    order = sorted(range(len(unsorted)), key=unsorted.__getitem__)
    return images if order == list(range(len(order))) else images.subset(order)


def stacked(parts: Sequence[Embeddings]) -> Embeddings:
    """Parts one after the other, with the classes of the first; all have labels, or none."""
    hashes = [part.hashes if part.hashes is not None else _digests(part) for part in parts]
    width = min(part.shape[1] for part in hashes)
    counts = {name: sum(getattr(part, name) for part in parts) for name in ("ignored", "reused", "computed")}
    return replace(
        parts[0],
        X=np.concatenate([part.X for part in parts]),
        labels=np.concatenate([part.labels for part in parts if part.labels is not None]),
        paths=_chained(part.paths for part in parts),
        hashes=np.concatenate([part[:, :width] for part in hashes]),
        positions=None,
        items=_chained(part.items or [Path(path) for path in part.paths] for part in parts),
        skipped=_chained(part.skipped for part in parts),
        **counts,
    )


def _chained(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def _digests(images: Embeddings) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(images.digests()), np.uint8).reshape(-1, DIGEST)


def _rows_of(support: Embeddings, photos: Any) -> list[int]:
    """Rows of the photos; refused if one of them is not in `support`."""
    rows_of: dict[bytes | str, list[int]] = {}
    for row, (digest, kept) in enumerate(zip(support.digests(), support.paths, strict=True)):
        keys_of: set[bytes | str] = {digest, kept, short(kept)}
        for key in keys_of:
            rows_of.setdefault(key, []).append(row)
    found: list[int] = []
    missing: list[str] = []
    for photo in [photos] if isinstance(photos, str | os.PathLike) else photos:
        path = Path(photo)
        keys: dict[Any, bytes | str] = {photo: path.as_posix()}
        if path.exists():
            keys = {file: hashlib.sha256(content_of(file)).digest()[:DIGEST] for file in _files(path)}
        elif len(rows_of.get(path.as_posix(), ())) > 1:
            count = len(rows_of[path.as_posix()])
            raise SourceError(f"{count} photos are called {shown(str(photo))}: give the file itself.")
        found += [row for key in keys.values() for row in rows_of.get(key, ())]
        missing += [str(name) for name, key in keys.items() if key not in rows_of]
    if missing:
        raise SourceError(
            f"{listed(missing)}: not among the {len(support)} photos of this classifier. A photo is known by its "
            f"content, or by its name as `lpp check` shows it."
        )
    return found


def _files(path: Path) -> list[Any]:
    if path.is_file() and path.suffix.lower() in EXTENSIONS:
        return [path]
    return list(open_images(path, labels=False).items)


def check_known(support: Embeddings, labels: Iterable[str]) -> None:
    """Raise for a class that `support` does not have."""
    unknown = [shown(label) for label in labels if label not in support.classes]
    if unknown:
        raise SourceError(f"there is no class {listed(unknown)}; there are {listed(list(support.classes))}.")


def short(path: str) -> str:
    """The end of a path: `robin/1.jpg`. The rest is the same for all, and may be private.

    >>> short("/home/ada/photos/robin/1.jpg"), short("1.jpg")
    ('robin/1.jpg', '1.jpg')
    """
    return "/".join(path.split("/")[-2:])
