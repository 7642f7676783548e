"""Changes of a folder that can be undone. Every change is a list of moves, written to the journal before the first one.

A line of the journal is a change, an undo, a redo, or "done": the moves of the line before were made. The process may
be killed at any moment: opening the journal finishes a last line that is not done. A line that cannot be written whole,
or whose moves cannot be made, is taken back. Nothing is ever deleted; removing is moving.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..images.errors import SourceError, shown

Moves = Sequence[tuple[str, str]]
Taken = Callable[[str], bool]
VERSION = 2
"""Written into every line but "done"; lines of version 1 have no "done" after them."""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class ProjectError(SourceError):
    """A project cannot be opened, or not be changed that way; the message says what to do."""


class MoveError(ProjectError):
    """A change is in the journal, but cannot be made."""


@dataclass(frozen=True)
class Change:
    """What was moved where, as paths in the folder; and its description for people."""

    number: int
    about: Mapping[str, Any]
    moves: Moves
    """As they were made last: by the change itself, by its undo, or by its redo."""
    left: int = 0
    """How many paths an undo or redo left alone, because somebody had moved or replaced them."""


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
    """

    def __init__(
        self, path: Path, place: Callable[[str], Path], instead: Callable[[str, str, Taken], Moves] = lambda *_: ()
    ) -> None:
        self.path, self._place, self._instead = path, place, instead
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._end = 0
        """Bytes of the file that count."""
        self._unmarked: int | None = None
        """Number of a change that was made, while "done" could not be written."""
        if (unfinished := self._read()) is not None:
            number, moves = unfinished
            self._apply(moves)
            self._mark(number)

    @property
    def last(self) -> Change | None:
        """The change that `undo` would undo."""
        return self._done[-1] if self._done else None

    @property
    def next(self) -> Change | None:
        """The change that `redo` would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def named(self) -> set[str]:
        """All paths that an undo or redo may need."""
        return {path for change in (*self._done, *self._undone) for pair in change.moves for path in pair}

    def do(self, about: Mapping[str, Any], moves: Iterable[tuple[str, str]]) -> Change:
        """Write a change to the journal, then make it."""
        number = max((change.number for change in (*self._done, *self._undone)), default=0) + 1
        change = Change(number, about, tuple(moves))
        self._make({"change": number, "about": about}, change)
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
        moves, left = self._possible(_back(came[-1].moves))
        change = replace(came[-1], moves=moves, left=left)
        self._make({word: change.number}, change)
        came.pop()
        went.append(change)
        return change

    def _possible(self, moves: Moves) -> tuple[Moves, int]:
        """Moves whose source is there and whose target is free, and the number of the others."""
        after: dict[str, bool] = {}
        possible: list[tuple[str, str]] = []
        left = 0

        def exists(path: str) -> bool:
            return after[path] if path in after else os.path.lexists(self._place(path))

        for source, target in moves:
            some: Moves = ()
            if exists(source):
                some = self._instead(source, target, exists) if exists(target) else [(source, target)]
            left += not some
            for pair in some:
                after[pair[0]], after[pair[1]] = False, True
                possible.append(pair)
        return tuple(possible), left

    def _make(self, line: Mapping[str, Any], change: Change) -> None:
        """Write a line and make its moves: both or neither."""
        before = self._end
        self._write({**line, "moves": change.moves, "version": VERSION})
        try:
            self._apply(change.moves)
        except ProjectError:
            self._end = before
            self._cut()
            raise
        self._mark(change.number)

    def _apply(self, moves: Moves) -> None:
        """Move files that exist to places that are free: all, or, if one of them cannot be moved, none."""
        made: list[tuple[Path, Path]] = []
        try:
            for source, target in moves:
                here, there = self._place(source), self._place(target)
                if os.path.lexists(here) and not os.path.lexists(there):
                    there.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(here, there)
                    made.append((here, there))
        except (OSError, ProjectError) as error:
            for here, there in reversed(made):
                with suppress(OSError):
                    os.rename(there, here)
            if isinstance(error, ProjectError):
                raise
            raise MoveError(
                f"{shown(source)} cannot be moved to {shown(target)} ({error.strerror or error}): mend that. If this "
                f"is said when the project is opened, you may remove {self.path}; then nothing before can be undone."
            ) from error

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
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(handle, self._end)
                raise
            self._end += len(content)
        finally:
            os.close(handle)

    def _read(self) -> tuple[int, Moves] | None:
        """Fill both stacks; returns number and moves of the last line if they may not have been made."""
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        self._end = content.rfind(b"\n") + 1
        if self._end < len(content):  # Killed while it was written: no move was made.
            os.truncate(self.path, self._end)
        unfinished: tuple[int, Moves] | None = None
        line: Mapping[str, Any] = {}
        for text in content[: self._end].splitlines():
            line = json.loads(text)
            unfinished = self._take(line)
        if unfinished is not None and "version" not in line and not self._begun(unfinished[1]):
            return None  # Either killed before the first move or, more likely, done and moved back by hand.
        return unfinished

    def _begun(self, moves: Moves) -> bool:
        """Whether some of the moves were made."""
        return any(os.path.lexists(self._place(b)) and not os.path.lexists(self._place(a)) for a, b in moves)

    def _take(self, line: Mapping[str, Any]) -> tuple[int, Moves] | None:
        if "done" in line:
            return None
        if "change" in line:
            moves = self._checked(line["moves"])
            if type(line["change"]) is not int:
                raise ValueError("the number of a change is not a whole number")
            self._done.append(Change(line["change"], dict(line["about"]), moves))
            self._undone.clear()
            return line["change"], moves
        came, went = (self._done, self._undone) if "undo" in line else (self._undone, self._done)
        change = came.pop()
        if change.number != line.get("undo", line.get("redo")):
            raise ValueError("a line is missing")
        moves = self._checked(line["moves"]) if "moves" in line else _back(change.moves)
        went.append(replace(change, moves=moves))
        return change.number, moves

    def _checked(self, moves: Any) -> Moves:
        """The moves of a line; raises if one of them leaves the folder, or puts a folder into itself."""
        pairs = tuple((str(source), str(target)) for source, target in moves)
        if any(f"{one}/".startswith(f"{other}/") for pair in pairs for one, other in (pair, pair[::-1])):
            raise ValueError("a folder is moved into itself")
        for path in (path for pair in pairs for path in pair):
            self._place(path)
        return pairs


def _back(moves: Moves) -> Moves:
    return tuple((target, source) for source, target in reversed(moves))
