"""What a classifier is trained on, and how it changes: more photos, fewer, other names. Nothing here trains.

A fit depends on the order of its photos, because of rounding and folds. Photos sorted by class and name, as in a
folder, stay sorted. So a classifier to which photos were added is, bit for bit, the one trained on all of them at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.task import Task
from .embeddings import DIGEST, Embeddings, Origin
from .errors import SourceError, shown
from .sources import open_images
from .sources.class_names import check_label, check_names, listed
from .sources.folders import EXTENSIONS
from .sources.stored_file import content_of
from .words import short


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a classifier is trained on."""

    support: Embeddings
    validation: Embeddings | None = None
    text: NDArray[np.float32] | None = None
    """(K, D) or, with several templates, (templates, K, D)."""
    unlabelled: NDArray[np.float32] | None = None
    """(n, D) photos without a label."""


def all_classes(mine: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    """All classes. If `mine` are sorted, the result is; otherwise new ones come last.

    >>> all_classes(["ant", "cat"], ["bee", "cat"]), all_classes(["cat", "ant"], ["bee"])
    (('ant', 'bee', 'cat'), ('cat', 'ant', 'bee'))
    """
    everything = [*mine, *(label for label in dict.fromkeys(more) if label not in set(mine))]
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
    label_of = dict(zip(mine.digests(), mine.labels.tolist(), strict=True))
    fresh = []
    for row, digest in enumerate(more.digests()):
        there = label_of.get(digest)
        if there is None:
            fresh.append(row)
        elif there != more.labels[row]:
            raise SourceError(
                f"{more.paths[row]} is in the classifier already, as {shown(there)} and not as "
                f"{shown(str(more.labels[row]))}: remove it first (remove, with photos), if that was wrong."
            )
    return more.subset(fresh)


def joined(mine: TrainingData, more: TrainingData) -> TrainingData:
    """Both. Names and text of classes that both have are those of `mine`."""
    assert mine.support.labels is not None
    classes = all_classes(mine.support.classes, more.support.classes)
    named = [dict(zip(one.support.classes, one.support.names, strict=True)) for one in (more, mine)]
    names = named[0] | named[1]
    check_names({label: names[label] for label in classes}, "together with what is there")
    if (mine.text is None) != (more.text is None) and set(classes) != set(mine.support.classes):
        which = "the new" if more.text is None else "the present"
        raise SourceError(f"{which} classes have no text embeddings, and others have: give them for all, or for none.")
    text = mine.text
    if text is not None and more.text is not None:
        order = [*mine.support.classes, *more.support.classes]
        text = np.concatenate([text, more.text], axis=-2)[..., [order.index(label) for label in classes], :]
    held = [one.validation for one in (mine, more) if one.validation is not None]
    about: dict[str, Any] = {"classes": classes, "names": tuple(names[label] for label in classes), "text": None}
    validation = None if not held else held[0] if len(held) == 1 else stacked(held)
    support = _like(mine.support, replace(stacked([mine.support, more.support]), **about))
    free = [one.unlabelled for one in (mine, more) if one.unlabelled is not None]
    unlabelled = np.concatenate(free) if free else None
    return TrainingData(support, validation and replace(validation, **about), text, unlabelled)


def _keys(found: Embeddings) -> list[tuple[int, str]]:
    position = {label: i for i, label in enumerate(found.classes)}
    labels = [] if found.labels is None else found.labels.tolist()
    return [(position[label], path.rpartition("/")[2]) for label, path in zip(labels, found.paths, strict=True)]


def _like(before: Embeddings, found: Embeddings) -> Embeddings:
    """`found` sorted by class and name, if `before` is; else unchanged."""
    keys = _keys(before)
    if keys != sorted(keys):
        return found
    keys = _keys(found)
    return found.subset(sorted(range(len(keys)), key=keys.__getitem__))


def stacked(parts: Sequence[Embeddings]) -> Embeddings:
    """Parts one after the other, with the classes of the first; all have labels, or none."""
    labels = [part.labels for part in parts if part.labels is not None]
    known = [part.hashes.shape[1] if part.hashes is not None else DIGEST for part in parts]
    hashes = [
        part.hashes[:, : min(known)]
        if part.hashes is not None
        else np.frombuffer(b"".join(part.digests()), np.uint8).reshape(-1, DIGEST)
        for part in parts
    ]
    items = [part.items or [Path(path) for path in part.paths] for part in parts]
    return replace(
        parts[0],
        X=np.concatenate([part.X for part in parts]),
        labels=np.concatenate(labels),
        paths=[path for part in parts for path in part.paths],
        hashes=np.concatenate(hashes),
        positions=None,
        items=[item for some in items for item in some],
        skipped=[problem for part in parts for problem in part.skipped],
        ignored=sum(part.ignored for part in parts),
        reused=sum(part.reused for part in parts),
        computed=sum(part.computed for part in parts),
    )


def without_classes(mine: TrainingData, classes: Iterable[str]) -> TrainingData:
    """All classes but these, and their photos."""
    gone = [str(label) for label in classes]
    check_known(mine.support, gone)
    left = [i for i, label in enumerate(mine.support.classes) if label not in gone]
    if len(left) < 2:
        raise SourceError(f"without {listed(gone)} there are {len(left)} class(es): a classifier needs at least two.")
    about: dict[str, Any] = {name: tuple(getattr(mine.support, name)[i] for i in left) for name in ("classes", "names")}

    def rest(images: Embeddings | None) -> Any:
        if images is None or images.labels is None:
            return None
        kept = images.subset(~np.isin(images.labels, gone))
        return replace(kept, **about, text=None) if len(kept) else None

    support = rest(mine.support)
    if support is None:
        raise SourceError(f"without {listed(gone)} there is no photo: a classifier needs some.")
    text = None if mine.text is None else mine.text[..., left, :]
    return TrainingData(support, rest(mine.validation), text, mine.unlabelled)


def without_photos(mine: TrainingData, photos: Any) -> TrainingData:
    """All photos but these: files, compared by content, or names of photos as in `paths`."""
    support = mine.support
    assert support.labels is not None
    gone = _rows_of(support, photos)
    left = support.subset(~np.isin(np.arange(len(support)), gone))
    lost = sorted(set(support.labels.tolist()) - set([] if left.labels is None else left.labels.tolist()))
    if lost:
        raise SourceError(f"these are all photos of {listed(lost)}: remove the class, or leave it one.")
    return replace(mine, support=left)


def _rows_of(support: Embeddings, photos: Any) -> list[int]:
    """Rows of the photos; refused if one of them is not in `support`."""
    given = [photos] if isinstance(photos, str | os.PathLike) else list(photos)
    by_digest: dict[bytes, list[int]] = {}
    for row, digest in enumerate(support.digests()):
        by_digest.setdefault(digest, []).append(row)
    by_name: dict[str, list[int]] = {}
    for row, kept in enumerate(support.paths):
        for name in {kept, short(kept)}:
            by_name.setdefault(name, []).append(row)
    found: list[int] = []
    missing: list[str] = []
    for one in given:
        path = Path(one)
        named = by_name.get(path.as_posix(), [])
        if not path.exists():
            rows = named if len(named) == 1 else []
            if len(named) > 1:
                raise SourceError(f"{len(named)} photos are called {shown(str(one))}: give the file itself.")
            found += rows
            missing += [] if rows else [str(one)]
            continue
        for file in _files(path):
            rows = by_digest.get(hashlib.sha256(content_of(file)).digest()[:DIGEST], [])
            found += rows
            missing += [] if rows else [str(file)]
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


def renamed(mine: TrainingData, old: str, new: str, name: str, row: NDArray[np.float32] | None) -> TrainingData:
    """Class `old` as `new`, called `name` in prompts, with the text embedding(s) `row`."""
    check_known(mine.support, [old])
    check_label(new, "the new label")
    if new != old and new in mine.support.classes:
        raise SourceError(f"there is a class {shown(new)} already: take another label.")
    position = mine.support.classes.index(old)
    labels = [new if label == old else label for label in mine.support.classes]
    names = [name if i == position else one for i, one in enumerate(mine.support.names)]
    check_names(dict(zip(labels, names, strict=True)), "the new names")
    was_sorted = list(mine.support.classes) == sorted(mine.support.classes)
    order = sorted(range(len(labels)), key=lambda i: labels[i]) if was_sorted else list(range(len(labels)))
    text = mine.text
    if text is not None and row is not None:
        text = text.copy()
        text[..., position : position + 1, :] = row
    about: dict[str, Any] = {"classes": tuple(labels[i] for i in order), "names": tuple(names[i] for i in order)}

    def changed(images: Embeddings | None) -> Any:
        if images is None or images.labels is None:
            return images
        said = np.array([new if label == old else label for label in images.labels.tolist()], np.str_)
        return replace(images, labels=said, text=None, **about)

    return TrainingData(
        _like(mine.support, changed(mine.support)),
        changed(mine.validation),
        None if text is None else text[..., order, :],
        mine.unlabelled,
    )


def check_known(support: Embeddings, labels: Iterable[str]) -> None:
    """Raise for a class that `support` does not have."""
    unknown = [shown(label) for label in labels if label not in support.classes]
    if unknown:
        raise SourceError(
            f"there is no class {listed(unknown)}; there are {listed([str(one) for one in support.classes])}."
        )


def kept_in(
    task: Task | None,
    classes: Sequence[str],
    names: tuple[str, ...],
    origin: Origin | None,
    digests: bytes,
    about: dict[str, Any],
) -> TrainingData | None:
    """What a file says a classifier was trained on; KeyError, TypeError or ValueError unless it fits together."""
    if task is None:
        return None

    def images(X: NDArray[Any], labels: Any, paths: list[str]) -> Embeddings:
        if len(paths) != len(X) or X.ndim > 3 or not all(isinstance(path, str) for path in paths):
            raise ValueError("paths are not those of the images")
        rows = X if X.ndim == 3 else X[:, None]
        return Embeddings(rows, labels.astype(np.str_), paths, tuple(classes), names, origin)

    hashes = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST)
    support = replace(images(task.X, task.labels, about["photos"]), hashes=hashes)
    if len(hashes) != len(support) or isinstance(task.text, list):
        raise ValueError("digests are not those of the images, or text is not that of templates")
    held = None if task.X_val is None else images(task.X_val, task.classes[task.y_val], about["validated_on"])
    return TrainingData(support, held, task.text, task.unlabelled)
