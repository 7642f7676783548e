"""Photos into folders by what they show. Nothing is ever lost.

    sorted/
        robin/ wren/ …   a folder per class
        unsure/          photos that may show several classes, or none of them
        unsure.html      each of these with what it may show
        .lpp-sort/       the journal and a lock

Photos are answered and placed some hundreds at a time: first all their new names are found, then these are written to
the journal, then the files are copied, linked or moved. So memory does not grow with their number, and a process that
is killed leaves a list of what is still to be done. No file is ever written over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from .._core.files import atomic_write, same_content, sealed
from .._core.parameters import Progress
from .answers import FALSE_ALARMS, Answers, Question, answers, check_question
from .errors import SourceError, StoreError, shown
from .journal import JOURNAL, Moves, Taken, open_journal
from .photo_files import COMPANIONS, companions, date_of, state_of
from .safe_paths import FolderError, folder_name, is_text, numbered, place_in, refuse_links, safe_name
from .sources.folders import EXTENSIONS
from .store.writer import exclusive

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError
    from .classifier import ImageClassifier

OWN, UNSURE, PAGE = ".lpp-sort", "unsure", "unsure.html"
AT_ONCE = 512
"""Photos that are answered and placed together."""
FEWEST_CANDIDATES, MOST_CANDIDATES = 3, 8
"""Classes that are named for an unsure photo."""
USUAL, BY_DATE = "{class}/{name}", "{class}/{year}-{month}/{name}"
"""Patterns of names."""
Way = Literal["copy", "move", "link"]


@dataclass(frozen=True)
class Placed:
    """A photo and its new place."""

    photo: Path
    to: str
    """Path in the folder."""
    folder: str
    """That of its class, or `UNSURE`."""
    candidates: Sequence[tuple[str, float]]
    """Classes that it may show with their probabilities, the likeliest first; a single one if that is certain."""
    none_of_these: bool
    there: bool
    """Whether the same file was there already, so that nothing was done."""
    companions: int
    """How many files go with it."""

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {
            "photo": self.photo.as_posix(),
            "to": self.to,
            "class": None if self.folder == UNSURE else self.candidates[0][0],
            "candidates": [{"label": label, "probability": chance} for label, chance in self.candidates],
            "none_of_these": self.none_of_these,
            "there_already": self.there,
            "companions": self.companions,
        }


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is not one of names, or that would put unsure photos among the others."""
    rest, parts = re.sub(r"\{(class|year|month|day|name)\}", "", pattern), pattern.split("/")
    if "{" in rest or "}" in rest:
        raise SourceError(f"{shown(pattern)}: a name can have {{class}}, {{year}}, {{month}}, {{day}} and {{name}}.")
    if "{class}" not in pattern or not parts[-1].endswith("{name}"):
        raise SourceError(f"{shown(pattern)} must have {{class}} in it and end in {{name}}, such as {BY_DATE}.")
    if any(not part or part.startswith(".") or "\\" in part for part in parts):
        raise SourceError(f"{shown(pattern)} is no path in a folder.")


def _named(pattern: str, folder: str, photo: Path) -> str:
    """The path that a photo should get; a name that this package cannot show gets another."""
    fields = {"class": folder, "name": photo.name}
    if not is_text(photo.name) or "\\" in photo.name or photo.name[1:2] == ":":
        fields["name"] = safe_name(photo.name)
    if re.search(r"\{(year|month|day)\}", pattern):
        taken = date_of(photo)
        fields |= {"year": f"{taken.year:04}", "month": f"{taken.month:02}", "day": f"{taken.day:02}"}
    return re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], pattern)


class SortedFolder:
    """A folder that photos are sorted into; close it, or use it as a context manager.

    Parameters
    ----------
    folder
        Created if it does not exist.
    only_look
        Change nothing, and create nothing.
    """

    def __init__(self, folder: str | os.PathLike[str], *, only_look: bool = False) -> None:
        self.root = Path(folder).resolve()
        self.only_look, self._open = only_look, ExitStack()
        own = self.root / OWN
        if self.root.exists() and not self.root.is_dir():
            raise FolderError(f"{self.root} is a file: name a folder.")
        refuse_links([own, own / JOURNAL, own / ".lock"])
        if not only_look:
            try:
                own.mkdir(parents=True, exist_ok=True)
                self._open.enter_context(exclusive(own))
            except StoreError:
                raise FolderError(f"another lpp sort is working on {self.root}: wait for it, or end it.") from None
            except OSError as error:
                raise FolderError(f"{self.root} cannot be used ({error.strerror or error}).") from error
        try:
            self._journal = open_journal(own / JOURNAL, self._place, self._instead, only_look=only_look)
        except BaseException:
            self._open.close()
            raise
        self._old_names: set[str] = set()
        self._planned: dict[str, Path] = {}
        """New names that no file has yet, and whose they are."""
        self._seen: dict[str, Any] = {}
        for change in self._journal.changes:
            seen = change.about.get("seen")
            self._seen |= seen if isinstance(seen, dict) else {}

    def close(self) -> None:
        """Let another process open it."""
        if not self.only_look:
            self._journal.close()
        self._open.close()

    def __enter__(self) -> SortedFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sorted_before(self, photo: Path) -> bool:
        """Whether it was sorted into this folder, and has not changed since; wherever its copy is now."""
        was = self._seen.get(photo.as_posix())
        return was is not None and was == state_of(photo)

    def sort(self, way: Way, photos: Sequence[tuple[Path, str]], said: Answers, pattern: str) -> list[Placed]:
        """Place photos, each in the folder named beside it, about which `said` has the answers."""
        also, order = companions(photo for photo, _ in photos), said.order
        moves: list[tuple[str, str]] = []
        placed = []
        for row, (photo, folder) in enumerate(photos):
            files = [(photo, photo.suffix), *also.get(photo, [])]
            new, to = self._free(files, _named(pattern, folder, photo))
            moves += [(path.as_posix(), target) for path, target in new]
            none = said.none is not None and bool(said.none[row])
            about = (_candidates(said, row, order[row].tolist(), folder == UNSURE), none)
            placed.append(Placed(photo, to, folder, *about, photo not in dict(new), len(files) - 1))
        if not self.only_look and moves:
            new_ones = [one for one in placed if not one.there]
            seen = {} if way == "move" else {one.photo.as_posix(): state_of(one.photo) for one in new_ones}
            unsure = {one.to: one.candidates for one in new_ones if one.folder == UNSURE}
            try:
                self._journal.do({"what": "sort", "seen": seen, "unsure": unsure}, moves, way)
            except FolderError:
                self._remove_empty(target for _, target in moves)
                raise
            finally:
                self._planned.clear()
            self._seen |= seen
        return placed

    def undo(self, progress: Progress | None = None) -> tuple[int, list[str]]:
        """Put everything back: the number of files, and the paths of those that are left where they are."""
        named = self._old_names = self._journal.named
        back, left, total = 0, list[str](), len(self._journal.changes)
        while (change := self._journal.undo()) is not None:
            back += len(set(change.moves) - set(change.unmade))
            left += [here for here, _ in change.unmade if os.path.lexists(self._place(here))]
            if progress is not None:
                progress(total - len(self._journal.changes), total)
        self.write_page()
        self._remove_empty(named)
        for name in (JOURNAL, ".lock", ""):
            with suppress(OSError):
                path = self.root / OWN / name
                path.unlink() if name else path.rmdir()
        return back, left

    def write_page(self) -> int:
        """Write the page about the unsure photos that are still where they were put; returns how many there are."""
        unsure: dict[str, Any] = {}
        for change in self._journal.changes:
            those = change.about.get("unsure")
            unsure |= those if isinstance(those, dict) else {}
        there = [(path, some) for path, some in unsure.items() if self._place(path).exists()]
        page = self.root / PAGE
        ours = page.is_file() and not page.is_symlink() and sealed(page.read_bytes(), "unsure")
        if there and (ours or not os.path.lexists(page)):
            from .report import unsure_page

            with atomic_write(page) as file:
                file.write(unsure_page(there).encode())
        elif ours and not there:
            page.unlink()
        return len(there)

    def _free(self, files: Sequence[tuple[Path, str]], wanted: str) -> tuple[list[tuple[Path, str]], str]:
        """New names of a photo and what goes with it, without those that are there with this content; and the photo's.

        All get the same number behind their name if one of them needs it.
        """
        stem = wanted[: len(wanted) - len(os.path.splitext(wanted)[1])]
        for number in count(1):
            names = [stem + (f"-{number}" if number > 1 else "") + tail for _, tail in files]
            there = [self._is_there(path, name) for (path, _), name in zip(files, names, strict=True)]
            if there[0] is None and any(one is not None for one in there):
                continue  # What goes with another photo must not be taken for what goes with this one.
            if False not in there:
                break
        new = [(path, name) for (path, _), name, one in zip(files, names, there, strict=True) if one is None]
        self._planned |= {name.casefold(): path for path, name in new}
        return new, names[0]

    def _remove_empty(self, paths: Iterable[str]) -> None:
        """Remove folders of these paths that have nothing in them."""
        inside = (PurePosixPath(path) for path in paths if not _is_outside(path))
        for folder in sorted({above for path in inside for above in path.parents}, key=lambda one: -len(one.parts)):
            if folder.parts:
                with suppress(OSError):
                    (self.root / folder).rmdir()

    def _is_there(self, path: Path, name: str) -> bool | None:
        """Whether this file has that name already; False if another has it, None if it is free."""
        planned = self._planned.get(name.casefold())
        if planned is not None:
            return same_content(path, planned)
        place = self._place(name)
        return same_content(path, place) if os.path.lexists(place) else None

    def _place(self, path: str) -> Path:
        """Where a path of the journal is. A journal may come from somebody else: outside there are only photos."""
        if not _is_outside(path):
            return place_in(self.root, path, may_be_link=True)
        name = path.rpartition("/")[2]
        suffix = os.path.splitext(name)[1].lower()
        if os.path.normpath(path) != str(Path(path)) or name.startswith(".") or suffix not in EXTENSIONS | COMPANIONS:
            raise FolderError(f"{shown(path)} is no photo, and does not belong to one.")
        return Path(path)

    def _instead(self, source: str, target: str, taken: Taken) -> Moves:
        """For the journal: a photo whose old name is taken comes back beside that, unless it is the same.

        It does not take the old name of another one.
        """
        if same_content(self._place(source), self._place(target)):
            return ()
        return [(source, numbered(target, lambda path: taken(path) or path in self._old_names))]


def _is_outside(path: str) -> bool:
    return os.path.isabs(path)


def folders_of(classes: Iterable[str]) -> dict[str, str]:
    """The folder of each class; refused if a class cannot have one."""
    folders = {label: folder_name(label) for label in classes}
    wrong = [label for label, folder in folders.items() if folder.casefold() in (UNSURE, OWN)]
    if wrong:
        raise FolderError(f"{UNSURE} is the folder of photos that are not sorted: lpp rename the class {wrong[0]}.")
    return folders


def sort_photos(
    clf: ImageClassifier, photos: Sequence[Path], folder: SortedFolder, *, way: Way = "copy", pattern: str = USUAL,
    sure: float | None = 0.9, skipped: Callable[[ImageError], None], progress: Progress | None = None,
) -> Iterator[list[Placed]]:  # fmt: skip
    """Sort photos, some hundreds at a time; gives what was placed.

    Parameters
    ----------
    clf, sure, skipped, progress
        As in `answered`.
    photos
        As `find_photos` gives them.
    folder
        If it was opened to look, nothing is done.
    way
        What to do with the files.
    pattern
        Path in the folder; see `check_pattern`.
    """
    from ..encoders.pixels.decoding import ImageError

    check_pattern(pattern)
    folders = folders_of(map(str, clf.classes_.tolist()))
    if way == "move":
        for link in filter(Path.is_symlink, photos):
            skipped(ImageError(link, "is a link to a photo, which would lead nowhere if it was moved."))
        photos = [photo for photo in photos if not photo.is_symlink()]
    for some, said in answered(clf, photos, sure, skipped, progress):
        chosen = [(photo, UNSURE if label is None else folders[label]) for photo, label in some]
        yield folder.sort(way, chosen, said, pattern)


def answered(
    clf: ImageClassifier,
    photos: Sequence[Path],
    sure: float | None,
    skipped: Callable[[ImageError], None],
    progress: Progress | None = None,
) -> Iterator[tuple[list[tuple[Path, str | None]], Answers]]:
    """Photos with their class, None where that is unsure; some hundreds at a time, with the answers about them.

    Parameters
    ----------
    clf
        What answers.
    photos
        What about.
    sure
        A photo has a class if its prediction set of this coverage has one class only, and it shows one of the classes.
        None gives each photo its likeliest class.
    skipped
        Called with each photo that cannot be read.
    progress
        Called as `progress(done, total)`.
    """
    from .embedder import embed
    from .sources import from_list

    question = Question() if sure is None else Question(sets=sure, none=FALSE_ALARMS)
    check_question(clf, question)
    encoder = clf.open_encoder()
    for start in range(0, len(photos), AT_ONCE):
        told = None if progress is None else partial(_tell, progress, start, len(photos))
        found = embed(from_list(photos[start : start + AT_ONCE]), encoder, on_error=clf.on_error, progress=told)
        for error in found.skipped:
            skipped(error)
        if len(found):
            said = answers(clf, found, question)
            yield [(Path(path), _class(said, row)) for row, path in enumerate(found.paths)], said


def _tell(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _class(said: Answers, row: int) -> str | None:
    """The class of a photo; None if that is unsure."""
    none = said.none is not None and bool(said.none[row])
    if none or (said.sets is not None and said.sets[row].sum() != 1):
        return None
    chosen = said.probabilities[row] if said.sets is None else said.sets[row]
    return said.classes[int(chosen.argmax())]


def _candidates(said: Answers, row: int, order: Sequence[int], unsure: bool) -> list[tuple[str, float]]:
    """Its class; if that is unsure, its prediction set, which has the likeliest classes, but some of them at least."""
    size = 0 if said.sets is None else int(said.sets[row].sum())
    some = order[: min(max(size, FEWEST_CANDIDATES), MOST_CANDIDATES)] if unsure else order[:1]
    return [(said.classes[k], round(float(said.probabilities[row, k]), 4)) for k in some]
