"""The results of a benchmark: one SQLite file with a row for each cell. Rows are never changed.

A row is written as soon as its cell has ended, so a killed run loses only the cells that were running. Several
processes may share a file: cells are claimed before they are run, and claims of a process that has ended are void.
"""

import json
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import psutil

from .._core.errors import BriefError
from .._core.files import canonical_json
from ..images.errors import shown
from .cell import Cell

FORMAT = 1
FILE = "results.sqlite"
NOT_RECORDED = "not recorded"
"""Selection of a method that does not say what it chose."""
UNSURE = "nothing to choose"
"""What rows written before said of every method without an update, an epoch or a C, rightly or not."""
STALE_SECONDS = 60.0
"""A claim ends when its owner has not renewed it for this time."""
_YEAR_9999 = 253_370_764_800

_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (cell TEXT NOT NULL, status TEXT NOT NULL, row TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS one_success ON results (cell) WHERE status = 'ok';
CREATE TABLE IF NOT EXISTS claims (cell TEXT PRIMARY KEY, owner TEXT NOT NULL, seen REAL NOT NULL);
CREATE TABLE IF NOT EXISTS draws (hash TEXT PRIMARY KEY, draw TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS rows_stay BEFORE UPDATE ON results
    BEGIN SELECT RAISE(ABORT, 'results are never changed'); END;
"""


class ResultsError(BriefError, ValueError):
    """A results folder cannot be used; the message says why."""


@dataclass(frozen=True)
class Row:
    """The result of a cell."""

    cell: Cell
    status: str
    """"ok" or "failed"."""
    accuracy: float | None = None
    """On the test images, from 0 to 1."""
    calibration_error: float | None = None
    fit_seconds: float | None = None
    """Time of the fit with any search, on embeddings."""
    predict_seconds: float | None = None
    encode_seconds: float | None = None
    """Time for embedding the images of the data set; None if features came from a file."""
    peak_mib: float | None = None
    """Peak memory of the fit, minus what was in use before; None if the system does not tell."""
    selection: str = ""
    """What the method chose and on which data, such as "update by validation", or that it does not say."""
    chosen: float | None = None
    """The selected update, epoch or C."""
    parameter_count: int | None = None
    black_box: bool = True
    """Whether the method needs nothing but embeddings."""
    support_images: int = 0
    validation_images: int = 0
    test_images: int = 0
    draw: str = ""
    """SHA-256 of the draw."""
    curve: dict[str, list[float]] = field(default_factory=dict)
    """Columns of the fit's history."""
    versions: dict[str, str] = field(default_factory=dict)
    traceback: str = ""
    finished: float = 0.0
    """Seconds since 1970."""


class Results:
    """The results in a folder, which is made if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(folder)
    ...     cell = Cell("birds", "rn50", "LP++", 4, 1, "LPPlusPlus")
    ...     for free in results.claim([cell]):
    ...         results.add(Row(free, "ok", accuracy=0.9))
    ...     [row.accuracy for row in results.rows()], results.done([cell]) == {cell.key}
    ([0.9], True)
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        if not create and not self.path.exists():
            raise ResultsError(f"{self.folder} has no {FILE}: run a benchmark into it first.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        with self._connect() as database:
            database.executescript(_TABLES)
            database.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (str(FORMAT),))
            (found,) = database.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
        if found != str(FORMAT):
            raise ResultsError(f"{self.path} has format {found}, this lpplusplus reads {FORMAT}: upgrade lpplusplus.")

    def rows(self, *, failed: bool = False) -> list[Row]:
        """All successes, in the order they were written; with `failed`, the last failure of each unsuccessful cell."""
        with self._connect() as database:
            found = database.execute("SELECT cell, status, row FROM results ORDER BY rowid").fetchall()
        if not failed:
            return [self._row(text) for _, status, text in found if status == "ok"]
        solved = {cell for cell, status, _ in found if status == "ok"}
        last = {cell: text for cell, status, text in found if status != "ok" and cell not in solved}
        return [self._row(text) for text in last.values()]

    def _row(self, text: str) -> Row:
        """A row as it was written; one that another program has changed is refused."""
        try:
            content = json.loads(text)
            cell = Cell.from_dict(content.pop("cell"))
            row = Row(cell, **{name: value for name, value in content.items() if name in _TYPES[Row]})
            for part in (cell, row):
                for name, kind in _TYPES[type(part)].items():
                    if not _fits(value := getattr(part, name), kind):
                        raise ValueError(f"{name} is {shown(value)}")
            if not 0 <= row.finished < _YEAR_9999:
                raise ValueError(f"finished is {row.finished}")
            _ = cell.key  # Raises ValueError for parameters such as NaN, which no cell has.
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ResultsError(f"{self.path} has a row that cannot be read ({error}): run that cell again.") from error
        return row

    def done(self, cells: Iterable[Cell]) -> set[str]:
        """Keys of the cells that have succeeded."""
        with self._connect() as database:
            solved = {cell for (cell,) in database.execute("SELECT cell FROM results WHERE status = 'ok'")}
        return solved & {cell.key for cell in cells}

    def add(self, *rows: Row) -> None:
        """Write rows, all of them or none, and give up our claims of their cells.

        A second success of a cell is not written.
        """
        with self._connect() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT OR IGNORE INTO results VALUES (?, ?, ?)",
                [(row.cell.key, row.status, canonical_json(vars(row) | {"cell": row.cell.as_dict()})) for row in rows],
            )
            self._give_up(database, (row.cell for row in rows))

    def claim(self, cells: Sequence[Cell]) -> list[Cell]:
        """Claim cells to run them; those that are done, or claimed by a running process, are left out."""
        now, free = time.time(), []
        with self._connect() as database:
            database.execute("BEGIN IMMEDIATE")
            for cell in cells:
                solved = database.execute("SELECT 1 FROM results WHERE cell = ? AND status = 'ok'", (cell.key,))
                taken = database.execute(
                    "SELECT owner FROM claims WHERE cell = ? AND seen > ?", (cell.key, now - STALE_SECONDS)
                ).fetchone()
                if not solved.fetchone() and (not taken or taken[0] == self.owner or _is_gone(taken[0])):
                    database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (cell.key, self.owner, now))
                    free.append(cell)
        return free

    def release(self, cells: Iterable[Cell]) -> None:
        """Give up claims."""
        with self._connect() as database:
            self._give_up(database, cells)

    def _give_up(self, database: sqlite3.Connection, cells: Iterable[Cell]) -> None:
        database.executemany(
            "DELETE FROM claims WHERE cell = ? AND owner = ?", [(cell.key, self.owner) for cell in cells]
        )

    def renew(self) -> None:
        """Renew all claims; to be called more often than every `STALE_SECONDS`."""
        with self._connect() as database:
            database.execute("UPDATE claims SET seen = ? WHERE owner = ?", (time.time(), self.owner))

    def keep_draw(self, digest: str, draw: dict[str, Any]) -> None:
        """Keep a draw under its SHA-256."""
        with self._connect() as database:
            database.execute("INSERT OR IGNORE INTO draws VALUES (?, ?)", (digest, canonical_json(draw)))

    def draws(self) -> dict[str, dict[str, Any]]:
        """All draws by their SHA-256."""
        with self._connect() as database:
            found = database.execute("SELECT hash, draw FROM draws").fetchall()
        try:
            draws = {digest: json.loads(draw) for digest, draw in found}
            for draw in draws.values():
                if not isinstance(draw, dict):
                    raise ValueError(f"it is {shown(draw)}")
            return draws
        except (ValueError, TypeError, RecursionError) as error:
            raise ResultsError(f"{self.path} has a draw that cannot be read ({error}): move it away.") from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """A new connection, so that threads and processes share nothing but the file."""
        database = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = FULL")
            with database:
                yield database
        except sqlite3.OperationalError as error:  # For example, the disk is full; the error names no file.
            raise ResultsError(f"{self.path}: {error}.") from error
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise ResultsError(f"{self.path} is not a results file, or damaged ({error}): move it away.") from error
        finally:
            database.close()


def _is_gone(owner: str) -> bool:
    """Whether the owner of a claim was a process of this machine that has ended."""
    host, _, rest = owner.rpartition("/")[0].partition("/")
    return host == socket.gethostname() and rest.isdecimal() and not psutil.pid_exists(int(rest))


_TYPES: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (Cell, Row)}
"""Types of the fields, by name."""


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value from JSON has the type of a field."""
    inner = get_args(kind)
    if isinstance(kind, UnionType):
        return any(_fits(value, one) for one in inner)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if kind is float:
        return type(value) in (int, float) and abs(value) < 1e300
    return kind in (Any, Cell) or type(value) is kind
