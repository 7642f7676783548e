"""Changes of a folder that can be undone. Every change is a list of moves, written to the journal before the first one.

A line of the journal is a change, an undo or a redo. The process may be killed at any moment: opening the journal
finishes its last line. Nothing is ever deleted; removing is moving.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..images.errors import SourceError, shown

Moves = Sequence[tuple[str, str]]


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


class UndoJournal:
    """The changes of one folder.

    Parameters
    ----------
    path
        File with a line of JSON for each change.
    place
        Gives the place of a path on disk; raises if it is outside of the folder. A journal may come from somebody else.
    """

    def __init__(self, path: Path, place: Callable[[str], Path]) -> None:
        self.path, self._place = path, place
        self._done: list[Change] = []
        self._undone: list[Change] = []
        last = self._read()
        if last is not None:
            self._apply(last)

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
        self._write({"change": number, "about": about, "moves": change.moves})
        self._apply(change.moves)
        self._done.append(change)
        self._undone.clear()
        return change

    def undo(self) -> Change | None:
        """Undo the last change; None if there is none."""
        if not self._done:
            return None
        change = self._done[-1]
        self._write({"undo": change.number})
        self._apply(_back(change))
        self._undone.append(self._done.pop())
        return change

    def redo(self) -> Change | None:
        """Do again what was undone last; None if nothing was."""
        if not self._undone:
            return None
        change = self._undone[-1]
        self._write({"redo": change.number})
        self._apply(change.moves)
        self._done.append(self._undone.pop())
        return change

    def _apply(self, moves: Moves) -> None:
        """Move files that exist to places that are free. Files that were moved by hand stay where they are."""
        for source, target in moves:
            here, there = self._place(source), self._place(target)
            if os.path.lexists(here) and not os.path.lexists(there):
                try:
                    there.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(here, there)
                except OSError as error:
                    raise MoveError(
                        f"{here} cannot be moved to {shown(target)} ({error.strerror or error}), as {self.path} says: "
                        f"mend that, or remove this file; then nothing before can be undone."
                    ) from error

    def _write(self, line: Mapping[str, Any]) -> None:
        with open(self.path, "ab") as file:
            file.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> Moves | None:
        """Fill both stacks; returns the moves of the last line, which may be unfinished."""
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        whole = content.rpartition(b"\n")[0] + b"\n" if b"\n" in content else b""
        if len(whole) < len(content):  # Killed while it was written: no move was made.
            with open(self.path, "r+b") as file:
                file.truncate(len(whole))
        last: Moves | None = None
        for line in whole.splitlines():
            last = self._take(json.loads(line))
        return last

    def _take(self, line: Mapping[str, Any]) -> Moves:
        if "change" in line:
            moves = tuple((str(source), str(target)) for source, target in line["moves"])
            for path in (path for pair in moves for path in pair):
                self._place(path)
            if type(line["change"]) is not int:
                raise ValueError("the number of a change is not a whole number")
            self._done.append(Change(line["change"], dict(line["about"]), moves))
            self._undone.clear()
            return moves
        came, went = (self._done, self._undone) if "undo" in line else (self._undone, self._done)
        change = came.pop()
        if change.number != line.get("undo", line.get("redo")):
            raise ValueError("a line is missing")
        went.append(change)
        return _back(change) if "undo" in line else change.moves


def _back(change: Change) -> Moves:
    return [(target, source) for source, target in reversed(change.moves)]
