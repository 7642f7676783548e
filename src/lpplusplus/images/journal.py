"""Changes of a folder that can be undone. Every change is a list of moves, written to the journal before the first one.

A line of the journal is a change, an undo, a redo, or "done": the moves of the line before were made. The process may
be killed at any moment: opening the journal finishes a last line that is not done. A line that cannot be written whole,
or whose moves cannot be made, is taken back. Nothing is ever deleted, except a copy whose original is there with the
same bytes; removing is moving.

The page's project and the folders of `lpp sort` have one each.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._core.files import copy_file, move_file, same_content
from .errors import shown
from .safe_paths import FolderError

Moves = Sequence[tuple[str, str]]
Taken = Callable[[str], bool]
JOURNAL = "journal.jsonl"
"""Its usual name."""
VERSION = 2
"""Written into every line but "done"; lines of version 1 have no "done" after them."""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class MoveError(FolderError):
    """A change is in the journal, but cannot be made."""


@dataclass(frozen=True)
class Change:
    """What was moved where, as paths in the folder; and its description for people."""

    number: int
    about: Mapping[str, Any]
    moves: Moves
    """As they were made last: by the change itself, by its undo, or by its redo."""
    how: str = "move"
    """A key of `WAYS`: what was done from the first path of each move to the second."""
    unmade: Moves = ()
    """What was left alone just now, because somebody had moved or replaced it."""

    @property
    def left(self) -> int:
        """How many paths were left alone."""
        return len(self.unmade)


class UndoJournal:
    """The changes of one folder.

    Parameters
    ----------
    path
        File with a line of JSON for each change.
    place
        Gives the place of a path on disk; raises if it is outside of the folder. A journal may come from somebody else.
    instead
        Gives moves that are possible instead of one whose target is taken, from source, target, and a function that
        tells whether a path is taken. None if the source should stay where it is.
    unchanged
        Tells of a change and a path that it made whether the file there is still the same; if not, an undo leaves it.
    only_look
        Read what was done, and neither finish nor change anything.
    """

    def __init__(
        self,
        path: Path,
        place: Callable[[str], Path],
        instead: Callable[[str, str, Taken], Moves] = lambda *_: (),
        unchanged: Callable[[Change, str], bool] = lambda *_: True,
        *,
        only_look: bool = False,
    ) -> None:
        self.path, self._place, self._instead, self._unchanged = path, place, instead, unchanged
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._end = 0
        """Bytes of the file that count."""
        self._unmarked: int | None = None
        """Number of a change that was made, while "done" could not be written."""
        if (unfinished := self._read(only_look)) is not None and not only_look:
            self._apply(unfinished, again=True)
            self._mark(unfinished.number)

    @property
    def last(self) -> Change | None:
        """The change that `undo` would undo."""
        return self._done[-1] if self._done else None

    @property
    def next(self) -> Change | None:
        """The change that `redo` would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def changes(self) -> Sequence[Change]:
        """All changes that are not undone, the first one first."""
        return tuple(self._done)

    @property
    def named(self) -> set[str]:
        """All paths that an undo or redo may need."""
        return {path for change in (*self._done, *self._undone) for pair in change.moves for path in pair}

    def do(self, about: Mapping[str, Any], moves: Iterable[tuple[str, str]], how: str = "move") -> Change:
        """Write a change to the journal, then make it."""
        number = max((change.number for change in (*self._done, *self._undone)), default=0) + 1
        change = Change(number, about, tuple(moves), how)
        change = self._make({"change": number, "about": about}, change)
        self._done.append(change)
        self._undone.clear()
        return change

    def undo(self) -> Change | None:
        """Undo the last change; None if there is none."""
        return self._turn("undo", self._done, self._undone)

    def redo(self) -> Change | None:
        """Do again what was undone last; None if nothing was."""
        return self._turn("redo", self._undone, self._done)

    def close(self) -> None:
        """Write, and take back, what could not be written or taken back before."""
        if self._unmarked is not None:
            self._mark(self._unmarked)
        self._cut()

    def _turn(self, word: str, came: list[Change], went: list[Change]) -> Change | None:
        """Make the moves of the last of `came` backwards."""
        if not came:
            return None
        moves, left = self._possible(came[-1])
        change = self._make({word: came[-1].number}, replace(came[-1], moves=moves, how=WAYS[came[-1].how].back))
        change = replace(change, unmade=(*left, *change.unmade))
        came.pop()
        went.append(change)
        return change

    def _possible(self, change: Change) -> tuple[Moves, Moves]:
        """The moves backwards whose source is there and whose target is free, and the others."""
        after: dict[str, bool] = {}
        possible: list[tuple[str, str]] = []
        left: list[tuple[str, str]] = []

        def exists(path: str) -> bool:
            return after[path] if path in after else os.path.lexists(self._place(path))

        for source, target in _back(change.moves):
            some: Moves = ()
            if exists(source) and self._unchanged(change, source):
                taken = change.how == "move" and exists(target)
                some = self._instead(source, target, exists) if taken else [(source, target)]
            if not some:
                left.append((source, target))
            for pair in some:
                after[pair[0]], after[pair[1]] = False, True
                possible.append(pair)
        return tuple(possible), tuple(left)

    def _make(self, line: Mapping[str, Any], change: Change) -> Change:
        """Write a line and make its moves: both or neither. The change, with what was left alone."""
        before = self._end
        how = {} if change.how == "move" else {"how": change.how}
        self._write({**line, **how, "moves": change.moves, "version": VERSION})
        try:
            made = self._apply(change)
        except FolderError:
            self._end = before
            self._cut()
            raise
        self._mark(change.number)
        return replace(change, unmade=tuple(pair for pair in change.moves if pair not in made))

    def _apply(self, change: Change, *, again: bool = False) -> set[tuple[str, str]]:
        """Move files that exist to places that are free: all, or, if one of them cannot be moved, none.

        `again` after a kill, when some were moved. Returns what was moved now.
        """
        way, made = WAYS[change.how], dict[tuple[str, str], None]()
        try:
            for source, target in change.moves:
                if way.go(self._place(source), self._place(target), again):
                    made[source, target] = None
        except (OSError, FolderError) as error:
            for here, there in reversed(made):
                with suppress(OSError):
                    WAYS[way.back].go(self._place(there), self._place(here), False)
            if isinstance(error, FolderError):
                raise
            raise MoveError(
                f"{shown(source)} cannot be moved to {shown(target)} ({error.strerror or error}): mend that. If this "
                f"is said each time, you may remove {self.path}; then nothing before can be undone."
            ) from error
        return {*made}

    def _cut(self) -> None:
        """Take back what is behind the last line that counts."""
        with suppress(OSError):
            if os.path.getsize(self.path) > self._end:
                os.truncate(self.path, self._end)

    def _mark(self, number: int) -> None:
        """Note that the last line is done. No harm without it, as long as nobody moves files back by hand."""
        try:
            self._write({"done": number}, sync=False)
            self._unmarked = None
        except OSError:
            self._unmarked = number

    def _write(self, line: Mapping[str, Any], *, sync: bool = True) -> None:
        """Append a line; if that fails, the file is as it was."""
        content = json.dumps(line, ensure_ascii=True).encode() + b"\n"
        handle = os.open(self.path, _APPEND, 0o666)
        try:
            self._end = min(self._end, os.fstat(handle).st_size)
            try:
                os.ftruncate(handle, self._end)  # In case an earlier failure left something.
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if sync:
                    os.fsync(handle)
            except BaseException as error:
                with suppress(OSError):
                    os.ftruncate(handle, self._end)
                if isinstance(error, OSError):  # It names no file.
                    raise OSError(error.errno, error.strerror, str(self.path)) from error
                raise
            self._end += len(content)
        finally:
            os.close(handle)

    def _read(self, only_look: bool) -> Change | None:
        """Fill both stacks; returns the last line's change if its moves may not have been made."""
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        self._end = content.rfind(b"\n") + 1
        if self._end < len(content) and not only_look:  # Killed while it was written: no move was made.
            os.truncate(self.path, self._end)
        unfinished: Change | None = None
        line: Mapping[str, Any] = {}
        for text in content[: self._end].splitlines():
            line = json.loads(text)
            unfinished = self._take(line)
        if unfinished is not None and "version" not in line and not self._begun(unfinished.moves):
            return None  # Either killed before the first move or, more likely, done and moved back by hand.
        return unfinished

    def _begun(self, moves: Moves) -> bool:
        """Whether some of the moves were made."""
        return any(os.path.lexists(self._place(b)) and not os.path.lexists(self._place(a)) for a, b in moves)

    def _take(self, line: Mapping[str, Any]) -> Change | None:
        if "done" in line:
            return None
        if "change" in line:
            how, moves = line.get("how", "move"), self._checked(line["moves"])
            if type(line["change"]) is not int or how not in WAYS:
                raise ValueError("the number of a change is not a whole number, or it was made in an unknown way")
            change = Change(line["change"], dict(line["about"]), moves, how)
            self._done.append(change)
            self._undone.clear()
            return change
        came, went = (self._done, self._undone) if "undo" in line else (self._undone, self._done)
        change = came.pop()
        if change.number != line.get("undo", line.get("redo")):
            raise ValueError("a line is missing")
        moves = self._checked(line["moves"]) if "moves" in line else _back(change.moves)
        change = replace(change, moves=moves, how=WAYS[change.how].back)
        went.append(change)
        return change

    def _checked(self, moves: Any) -> Moves:
        """The moves of a line; raises if one of them leaves the folder, or puts a folder into itself."""
        pairs = tuple((str(source), str(target)) for source, target in moves)
        if any(f"{one}/".startswith(f"{other}/") for pair in pairs for one, other in (pair, pair[::-1])):
            raise ValueError("a folder is moved into itself")
        for path in (path for pair in pairs for path in pair):
            self._place(path)
        return pairs


def open_journal(path: Path, *about: Any, only_look: bool = False) -> UndoJournal:
    """The journal of a folder; arguments as for `UndoJournal`. A damaged one is set aside: only undo is lost."""
    try:
        return UndoJournal(path, *about, only_look=only_look)
    except MoveError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        aside = path.with_suffix(f".{secrets.token_hex(4)}.damaged")
        if only_look:
            return UndoJournal(aside, *about, only_look=True)
        path.replace(aside)
        return UndoJournal(path, *about)


def _back(moves: Moves) -> Moves:
    return tuple((target, source) for source, target in reversed(moves))


@dataclass(frozen=True)
class _Way:
    """What is done from one path to another, and what undoes it."""

    go: Callable[[Path, Path, bool], bool]
    """Does it and returns True; or leaves everything as it is. The flag: a killed process may have begun."""
    back: str


def _move(here: Path, there: Path, again: bool) -> bool:
    if not os.path.lexists(here):
        return False
    if not os.path.lexists(there):
        there.parent.mkdir(parents=True, exist_ok=True)
        move_file(here, there)
        return True
    # A move to another file system ends with the removal of the original: that was still to be done.
    apart = again and os.lstat(here).st_dev != os.lstat(there).st_dev
    return apart and _remove_copy(here, there, again)


def _copy(here: Path, there: Path, again: bool) -> bool:
    if os.path.lexists(there) or not os.path.lexists(here):
        return False
    there.parent.mkdir(parents=True, exist_ok=True)
    copy_file(here, there)
    return True


def _remove_copy(here: Path, there: Path, again: bool) -> bool:
    """Remove a file that is at the other place, too."""
    if not os.path.lexists(here) or not stat.S_ISREG(os.lstat(here).st_mode) or not same_content(here, there):
        return False
    os.unlink(here)
    return True


def _link(here: Path, there: Path, again: bool) -> bool:
    if os.path.lexists(there) or not os.path.lexists(here):
        return False
    there.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(here, there)
    return True


def _remove_link(here: Path, there: Path, again: bool) -> bool:
    """Remove a link that leads to the other place."""
    if not here.is_symlink() or os.readlink(here) != str(there):
        return False
    os.unlink(here)
    return True


WAYS = {
    "move": _Way(_move, "move"),
    "copy": _Way(_copy, "remove copy"),
    "remove copy": _Way(_remove_copy, "copy"),
    "link": _Way(_link, "remove link"),
    "remove link": _Way(_remove_link, "link"),
}
