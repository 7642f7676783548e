"""Photos as files: which there are, what belongs to each, when they were taken, and when they have arrived whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.pixels import RAW_SUFFIXES
from .errors import SourceError
from .sources import open_images
from .sources.folders import EXTENSIONS

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError

COMPANIONS = RAW_SUFFIXES | {".xmp", ".aae", ".mov", ".mp4", ".thm"}
"""Endings of files that go with the photo of the same name: RAW, settings of editors, a live photo's film."""
QUIET = 3.0
"""Seconds without a change after which a photo is taken for whole."""


def find_photos(
    sources: Iterable[str | os.PathLike[str]], folder: Path | None = None
) -> tuple[list[Path], list[ImageError]]:
    """The photos that were named, each once; and what cannot be read.

    Of a folder all below it, but for those in `folder`, which are sorted already; else images, and lists of them.
    """
    to = "" if folder is None else os.path.join(folder.resolve(), "")
    found: dict[Path, None] = {}
    problems: list[ImageError] = []
    for source in map(Path, sources):
        here = source.resolve() if source.is_dir() else source.parent.resolve() / source.name
        images = open_images(here, labels=False)
        above = to.startswith(os.path.join(here, ""))
        problems += images.problems
        for item in images.items:
            if not isinstance(item, Path):
                raise SourceError(f"{source}: photos in an archive cannot be sorted; unpack it first.")
            path = os.path.abspath(item)
            if not (above and path.startswith(to)):
                found[Path(path)] = None
    return list(found), problems


def companions(photos: Iterable[Path]) -> dict[Path, list[tuple[Path, str]]]:
    """Files that go with each photo, and the end of their names: `a.jpg` has `a.xmp`, `a.jpg.xmp`, `a.cr2`, `a.mov`.

    Those of two photos of one name, such as `a.heic` and `a.jpg`, go with the first.
    """
    inside: dict[Path, list[Path]] = {}
    for photo in photos:
        inside.setdefault(photo.parent, []).append(photo)
    found: dict[Path, dict[str, tuple[Path, str]]] = {}
    for folder, those in inside.items():
        names = {photo.name.lower(): photo for photo in those}
        stems = {photo.stem.lower(): photo for photo in reversed(those)}
        with os.scandir(folder) as scan:
            beside = sorted(entry.name for entry in scan if entry.is_file(follow_symlinks=False))
        for name in beside:
            owner, end = _owner(name, names, stems)
            if owner is not None:
                some = found.setdefault(owner, {})
                if end.lower() not in some or name.startswith(owner.stem):  # Of a.mov and A.mov, that of the photo.
                    some[end.lower()] = (folder / name, end)
    return {photo: [*some.values()] for photo, some in found.items()}


def _owner(name: str, names: Mapping[str, Path], stems: Mapping[str, Path]) -> tuple[Path | None, str]:
    """Whose file it is, and the end of its name; photos by their names and by those without the ending."""
    stem, suffix = os.path.splitext(name)
    inner, before = os.path.splitext(stem)
    if suffix.lower() not in COMPANIONS or name.startswith("."):
        return None, ""
    if before.lower() in EXTENSIONS:  # a.jpg.xmp
        return names.get(stem.lower()), name[len(inner) :]
    stem = inner if before.lower() in RAW_SUFFIXES else stem
    return stems.get(stem.lower()), name[len(stem) :]


def date_of(photo: Path) -> date:
    """When it was taken; the file's own date if the photo does not say."""
    from PIL import Image

    from ..encoders.pixels.decoding import quiet_pillow

    with suppress(Exception), quiet_pillow(), Image.open(photo) as image:  # Broken EXIF raises anything.
        exif = image.getexif()
        return datetime.strptime(str(exif.get_ifd(0x8769).get(0x9003) or exif[0x0132])[:10], "%Y:%m:%d").date()
    return date.fromtimestamp(photo.stat().st_mtime)


def state_of(file: Path) -> list[int] | None:
    """Size and time of the last change; None if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


class Arrivals:
    """Which photos have arrived whole, by looking again and again.

    Nothing tells when a camera or a sync has finished a file. It counts as whole when neither it nor anything that
    belongs to it has changed for some seconds. If it still was not, it cannot be decoded, and is given again when it
    has changed.

    Parameters
    ----------
    clock
        Gives the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Path, tuple[Any, float]] = {}
        """What each photo was like when it was looked at, and since when it is like that."""
        self._given: dict[Path, Any] = {}
        """What it was like when it was given."""

    def look(self, photos: Iterable[Path]) -> list[Path]:
        """Those of these photos that are whole and were not given like that before."""
        now, whole = self._clock(), []
        photos = list(photos)
        also = companions(photos)
        for photo in photos:
            state = [state_of(path) for path in (photo, *(path for path, _ in also.get(photo, [])))]
            was, since = self._since.get(photo, (None, now))
            if state != was:
                self._since[photo] = state, now
            elif now - since >= QUIET and state != self._given.get(photo) and state[0] and state[0][0]:
                self._given[photo] = state
                whole.append(photo)
        for gone in self._since.keys() - set(photos):
            del self._since[gone]
            self._given.pop(gone, None)
        return whole

    @property
    def waiting(self) -> bool:
        """Whether some photo has not been given as it is."""
        return any(state != self._given.get(photo) for photo, (state, _) in self._since.items())


def watch_photos(
    folders: Sequence[Path], to: Path, sorted_before: Callable[[Path], bool], changes: Iterable[Any] | None = None
) -> Iterator[list[Path]]:
    """Photos as they arrive, for ever.

    Parameters
    ----------
    folders
        Where.
    to
        What is in this folder has been sorted.
    sorted_before
        Tells of a photo whether it was sorted.
    changes
        An item each time something has changed, empty if time has passed; by default from `watchfiles`.
    """
    if changes is None:
        from watchfiles import watch

        every = int(1000 * QUIET / 2)
        changes = watch(*folders, watch_filter=None, rust_timeout=every, yield_on_timeout=True, raise_interrupt=True)
    arrivals = Arrivals()
    for change in _first(changes):
        if not change and not arrivals.waiting:
            continue
        photos: list[Path] = []
        for folder in folders:
            with suppress(SourceError):  # There is no photo yet.
                photos += find_photos([folder], to)[0]
        whole = arrivals.look(photo for photo in photos if not sorted_before(photo))
        if whole:
            yield whole


def _first(changes: Iterable[Any]) -> Iterator[Any]:
    """One more in front, for what is there already."""
    yield True
    yield from changes
