"""A project: a folder of photos on disk, and the page's own files.

    birds/
        robin/ wren/ …      a folder per class, as `lpp train` takes it
        unsorted/           photos without a class; so are photos directly in birds/
        classifier.lpp      the newest classifier
        .lpp/               settings, journal, embeddings, thumbnails; what was removed

Everything except `.lpp/` may be changed without the page. Links are not followed, and nothing is written through one:
so a folder from somebody else can neither show nor change files outside of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from .._core.files import atomic_write
from ..encoders import DEFAULT_ENCODER
from ..images.errors import StoreError, shown
from ..images.journal import JOURNAL, Change, Moves, Taken, open_journal
from ..images.safe_paths import FolderError, folder_name, insides, numbered, place_in, refuse_links, safe_name
from ..images.sources.class_names import check_names, prompt_names
from ..images.sources.folders import HIDDEN, UNSORTED, readable
from ..images.store.writer import exclusive
from .folder import Listing, class_names, counted, read_listing

CLASSIFIER = "classifier.lpp"
CHANGES = {
    "add_class": "new class {name}",
    "rename": "{name} is now {to}",
    "remove_class": "class {name} removed",
    "add": "{photos} added to {to}",
    "move": "{photos} moved to {to}",
    "sort": "{photos} sorted",
    "remove": "{photos} removed",
}
"""What each kind of change is called."""


class NoClassError(FolderError):
    """There is no class of that name."""


class Project:
    """A folder that one page works on; close it, or use it as a context manager.

    Parameters
    ----------
    folder
        Created if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.root = Path(folder).resolve()
        self.hidden = self.root / HIDDEN
        self._lock, self._open = threading.RLock(), ExitStack()
        if self.root.exists() and not self.root.is_dir():
            raise FolderError(f"{self.root} is a file: name a folder.")
        try:
            for folder in (self.hidden, self.root / UNSORTED):
                refuse_links([folder])
                folder.mkdir(parents=True, exist_ok=True)
            refuse_links(insides(self.hidden))
            self._open.enter_context(exclusive(self.hidden))
        except StoreError:
            raise FolderError(f"{self.root} is open in another page: close that one first.") from None
        except OSError as error:
            raise FolderError(f"{self.root} cannot be used ({error.strerror or error}).") from error
        try:
            self.journal = open_journal(self.hidden / JOURNAL, self._place, self._instead)
            """Its `last` change is what `undo` would undo, its `next` what `redo` would do again."""
            self.settings: dict[str, Any] = {"encoder": DEFAULT_ENCODER, "kept": []} | self._read_settings()
            self._clear_incoming()
        except BaseException:
            self._open.close()
            raise

    def close(self) -> None:
        """Let another process open it."""
        with self._lock:
            self.journal.close()
            self._open.close()

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def classifier(self) -> Path:
        """File of the newest classifier."""
        return self.root / CLASSIFIER

    def path_of(self, relative: str) -> Path:
        """Where a photo or a class is; refused if it is hidden, outside of the folder, or behind a link."""
        path = self._place(relative)
        if any(part.startswith(".") for part in PurePosixPath(relative).parts):
            raise FolderError(f"{shown(relative)} is hidden.")
        return path

    def own(self, *parts: str) -> Path:
        """A path below `.lpp/` to write to; its folder is made. Refused if it is behind a link."""
        path = self._place("/".join((HIDDEN, *parts)))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _place(self, relative: str) -> Path:
        """As `path_of`, also for hidden files."""
        return place_in(self.root, relative, "project")

    # Reading the folder

    def listing(self) -> Listing:
        """All photos, in the order of `lpp train`; never in the middle of a change by the page."""
        with self._lock:
            return read_listing(self.root)

    def classes(self) -> list[str]:
        """Names of the classes, in order."""
        return class_names(self.root)

    # Changes

    def add_class(self, name: str) -> str:
        """Add a class; returns the name of its folder."""
        with self._lock:
            name = self._check_name(name, self.classes())
            empty = f"{self._bin()}/{name}"
            self._place(empty).mkdir(parents=True)
            self.journal.do({"what": "add_class", "name": name}, [(empty, name)])
            return name

    def rename(self, old: str, new: str) -> str:
        """Rename a class; returns the new name of its folder."""
        with self._lock:
            self._check_class(old, sorted_=True)
            new = self._check_name(new, [other for other in self.classes() if other != old])
            if new == old:
                return new
            between = [] if new.casefold() != old.casefold() else [f"{HIDDEN}/incoming/{secrets.token_hex(8)}"]
            steps = [old, *between, new]  # Some file systems take "robin" and "Robin" for the same name.
            self.journal.do({"what": "rename", "name": old, "to": new}, pairwise(steps))
            return new

    def remove_class(self, name: str) -> None:
        """Remove a class with its photos."""
        with self._lock:
            self._check_class(name, sorted_=True)
            self.journal.do({"what": "remove_class", "name": name}, [(name, f"{self._bin()}/{name}")])

    def add(self, class_name: str, files: Iterable[tuple[str, Path]]) -> list[str]:
        """Move files from `incoming` into a class, or into `unsorted`; `files` are their new names and present paths.

        Returns their paths in the project. They come by way of `removed/`, where they wait after an undo.
        """
        with self._lock:
            self._check_class(class_name)
            free, bin_ = self._free_names(), self._bin()
            moves: list[tuple[str, str]] = []
            arrived: list[tuple[Path, Path]] = []
            try:
                for name, path in files:
                    target = free(f"{class_name}/{safe_name(name)}")
                    waiting = f"{bin_}/{target}"
                    place = self._place(waiting)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(path, place)
                    arrived.append((path, place))
                    moves.append((waiting, target))
                if moves:
                    self.journal.do({"what": "add", "count": len(moves), "to": class_name}, moves)
            except BaseException:
                for path, place in arrived:
                    with suppress(OSError):
                        os.rename(place, path)
                raise
            return [target for _, target in moves]

    def move(self, photos: Sequence[str], to: str) -> list[str]:
        """Move photos to a class, or to `unsorted`; returns their new paths."""
        return self._move(dict.fromkeys(photos, to), {"what": "move", "to": to}, [to])

    def sort(self, classes: Mapping[str, str]) -> list[str]:
        """Move photos, each to its class, as one change; returns their new paths."""
        return self._move(classes, {"what": "sort"}, [*classes.values()])

    def _move(self, where: Mapping[str, str], about: Mapping[str, str], classes: Sequence[str]) -> list[str]:
        with self._lock:
            for name in dict.fromkeys(classes):
                self._check_class(name)
            self._check_photos(where)
            free = self._free_names()
            elsewhere = {photo: to for photo, to in where.items() if photo.partition("/")[0] != to or "/" not in photo}
            moves = [(photo, free(f"{to}/{photo.rpartition('/')[2]}")) for photo, to in elsewhere.items()]
            if moves:
                self.journal.do({**about, "count": len(moves)}, moves)
            return [target for _, target in moves]

    def remove(self, photos: Sequence[str]) -> None:
        """Remove photos; they are kept where undo finds them."""
        with self._lock:
            self._check_photos(photos)
            bin_ = self._bin()
            moves = [(photo, f"{bin_}/{photo}") for photo in dict.fromkeys(photos)]
            if moves:
                self.journal.do({"what": "remove", "count": len(moves)}, moves)

    def undo(self) -> Change | None:
        """Undo the last change, also one from an earlier run of the program."""
        with self._lock:
            return self.journal.undo()

    def redo(self) -> Change | None:
        """Redo the change that was undone last."""
        with self._lock:
            return self.journal.redo()

    def incoming(self) -> Path:
        """A new name for a file on its way into the project."""
        return self.own("incoming", secrets.token_hex(8))

    def tried(self) -> Path:
        """A new name for a photo that is only asked about. Those are deleted when the project is opened again."""
        return self.own("tried", secrets.token_hex(8))

    def keep(self, **settings: Any) -> None:
        """Keep settings."""
        with self._lock:
            new = self.settings | settings
            with atomic_write(self.own("settings.json")) as file:
                file.write(json.dumps(new).encode())
            self.settings = new

    def keep_label(self, photo: str) -> None:
        """Note that a photo's label is right, even if it looks wrong. The note belongs to the photo's content."""
        with self._lock:
            self._check_photos([photo])
            label = photo.partition("/")[0]
            if "/" not in photo or label == UNSORTED:
                raise FolderError(f"{shown(photo)} has no class.")
            note = f"{hashlib.sha256(self.path_of(photo).read_bytes()).hexdigest()}:{label}"
            self.keep(kept=list(dict.fromkeys([*self.settings["kept"], note])))

    # Helpers

    def _check_name(self, name: str, others: Sequence[str]) -> str:
        """The folder name of a class; refused if it is not possible, or means the same as another class."""
        name, problem = folder_name(name), None
        if name.casefold() in {other.casefold() for other in others}:
            problem = f"there is a class {shown(name)} already"
        elif (self.root / name).is_symlink() or (self.root / name).is_file():
            problem = f"there is a file {shown(name)} in the folder"
        if problem:
            raise FolderError(f"{problem}.")
        check_names(prompt_names(sorted([*others, name])), "this project")
        return name

    def _check_class(self, name: str, *, sorted_: bool = False) -> None:
        if "/" in name or not self.path_of(name).is_dir() or (sorted_ and name == UNSORTED):
            raise NoClassError(f"there is no class {shown(name)}.")

    def _check_photos(self, photos: Iterable[str]) -> None:
        for photo in photos:
            if not self.path_of(photo).is_file() or not readable(os.path.splitext(photo)[1]):
                raise FolderError(f"there is no photo {shown(photo)}.")

    def _free_names(self) -> Callable[[str], str]:
        """A function that gives free paths, never the same one twice."""
        given: set[str] = set()

        def free(wanted: str) -> str:
            path = numbered(wanted, lambda path: path.casefold() in given or os.path.lexists(self._place(path)))
            given.add(path.casefold())
            return path

        return free

    def _instead(self, source: str, target: str, taken: Taken) -> Moves:
        """For the journal: what was removed comes back beside what has its place by now."""
        here, there = self._place(source), self._place(target)
        if not source.startswith(f"{HIDDEN}/"):
            return ()
        if not (here.is_dir() and there.is_dir()):
            return [(source, numbered(target, taken))]
        files = sorted(path.relative_to(here).as_posix() for path in here.rglob("*") if not path.is_dir())
        return [(f"{source}/{name}", numbered(f"{target}/{name}", taken)) for name in files]

    def _bin(self) -> str:
        return f"{HIDDEN}/removed/{secrets.token_hex(8)}"

    def _read_settings(self) -> dict[str, Any]:
        try:
            found = json.loads((self.hidden / "settings.json").read_bytes())
            return {"encoder": str(found["encoder"]), "kept": [str(note) for note in found["kept"]]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}

    def _clear_incoming(self) -> None:
        """Clear up after a process that was killed: incomplete uploads go, complete ones wait in `removed/`."""
        needed, bin_ = self.journal.named, self._bin()
        with suppress(OSError):  # A full disk must not keep the project closed.
            for path in self.own("incoming", "x").parent.iterdir():
                if path.name.startswith("."):
                    path.unlink()  # `atomic_write` had not finished it.
                elif f"{HIDDEN}/incoming/{path.name}" not in needed:
                    place = self._place(f"{bin_}/{path.name}")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(path, place)
            for path in self.own("tried", "x").parent.iterdir():
                path.unlink()


def about_change(change: Change) -> str:
    """What a change is called. A journal may come from somebody else: then it may lack a word."""
    try:
        return CHANGES[str(change.about["what"])].format(
            **change.about, photos=counted(int(change.about.get("count", 0)))
        )
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return "…"


def about_turn(change: Change) -> str:
    """What an undo or redo did, and how much of it could not be done."""
    what = about_change(change)
    return f"{what}, except {change.left} that somebody had moved or replaced" if change.left else what
