"""The results of a benchmark: one SQLite file with a row for each cell that has ended.

A row is written as soon as its cell has ended, so a killed run loses only the cells that were running. A cell that runs
again replaces its row: it had failed, its row was damaged, or its encoder has other weights now. The plans that were
run are kept, so that what is missing can be named.
"""

import json
import os
import sqlite3
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._core.errors import BriefError
from .._core.files import canonical_json
from .cell import Cell, Row
from .checking import record

FORMAT = 1
FILE = "results.sqlite"
NOT_RECORDED = "not recorded"
"""Selection of a method that does not say what it chose."""
UNSURE = "nothing to choose"
"""What rows written before said of every method without an update, an epoch or a C, rightly or not."""
_YEAR_9999 = 253_370_764_800
_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a row that another program has changed may raise."""

_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (cell TEXT NOT NULL, status TEXT NOT NULL, row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS draws (hash TEXT PRIMARY KEY, draw TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS plans (name TEXT PRIMARY KEY, cells BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_cell ON results (cell);
"""


class ResultsError(BriefError, ValueError):
    """A results folder cannot be used; the message says why."""


class Results:
    """The results in a folder, which is made if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(folder)
    ...     cell = Cell("birds", "rn50", "LP++", 4, 1, "LPPlusPlus")
    ...     results.add(Row(cell, "ok", accuracy=0.9))
    ...     [row.accuracy for row in results.rows()], results.done([cell]) == {cell.key}
    ([0.9], True)
    """

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        if not create and not self.path.exists():
            raise ResultsError(f"{self.folder} has no {FILE}: run a benchmark into it first.")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._connect() as database:
            database.executescript(_TABLES)
            database.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (str(FORMAT),))
            (found,) = database.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
        if found != str(FORMAT):
            raise ResultsError(f"{self.path} has format {found}, this lpplusplus reads {FORMAT}: upgrade lpplusplus.")

    def rows(self, *, failed: bool = False) -> list[Row]:
        """All successes, in the order they were written; with `failed`, the last failure of each unsuccessful cell.

        A row that another program has damaged is left out, with a warning.
        """
        with self._connect() as database:
            found = database.execute("SELECT cell, status, row FROM results ORDER BY rowid").fetchall()
        solved = {cell: text for cell, status, text in found if status == "ok"}
        last = {cell: text for cell, status, text in found if status != "ok" and cell not in solved}
        rows, damaged = [], []
        for text in (last if failed else solved).values():
            try:
                rows.append(_row(text))
            except _DAMAGES as error:
                damaged.append(str(error)[:500])
        if damaged:
            warnings.warn(f"{self.path} has {len(damaged)} rows that cannot be read ({damaged[0]}). Run the plan "
                          f"again: these cells run again, and their rows are replaced.", stacklevel=2)  # fmt: skip
        return rows

    def done(self, cells: Iterable[Cell]) -> set[str]:
        """Keys of the cells that have succeeded, as far as known with the weights that they name."""
        wanted = {cell.key: cell.fingerprint for cell in cells}
        with self._connect() as database:
            solved = database.execute("SELECT cell, row FROM results WHERE status = 'ok'").fetchall()
        found = {}
        for key, text in solved:
            if key in wanted:
                with suppress(*_DAMAGES):  # A damaged row is not done.
                    found[key] = _row(text).cell.fingerprint
        return {
            key for key in wanted.keys() & found.keys() if "" in (wanted[key], found[key]) or wanted[key] == found[key]
        }

    def add(self, *rows: Row) -> None:
        """Write rows, all of them or none; each replaces what there is of its cell."""
        with self._connect() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM results WHERE cell = ?", [(row.cell.key,) for row in rows])
            written = [(row.cell.key, row.status, canonical_json(row.as_dict())) for row in rows]
            database.executemany("INSERT INTO results VALUES (?, ?, ?)", written)

    def keep_plan(self, name: str, cells: Iterable[Cell]) -> None:
        """Keep what a plan asks for, instead of what a plan of this name asked for before."""
        content = zlib.compress(canonical_json([cell.as_dict() for cell in cells]).encode())
        with self._connect() as database:
            database.execute("INSERT OR REPLACE INTO plans VALUES (?, ?)", (name, content))

    def planned(self) -> list[Cell]:
        """The cells of all plans that are kept; none if the folder was written before plans were kept."""
        with self._connect() as database:
            plans = [content for (content,) in database.execute("SELECT cells FROM plans")]
        try:
            cells = [Cell.from_dict(cell) for content in plans for cell in json.loads(zlib.decompress(content))]
            return [*{cell.key: cell for cell in cells}.values()]
        except (ValueError, TypeError, AttributeError, zlib.error, RecursionError) as error:
            raise ResultsError(f"{self.path} has a plan that cannot be read ({error}): move it away.") from error

    def prune(self, name: str, cells: Iterable[Cell]) -> int:
        """Remove all rows of cells that are not among these, and all plans but this; returns how many rows went."""
        keys = {cell.key for cell in cells}
        with self._connect() as database:
            there = {cell for (cell,) in database.execute("SELECT cell FROM results")}
            gone = [(cell,) for cell in there - keys]
            database.executemany("DELETE FROM results WHERE cell = ?", gone)
            database.execute("DELETE FROM plans WHERE name != ?", (name,))
        return len(gone)

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
            if odd := [draw for draw in draws.values() if not isinstance(draw, dict)]:
                raise ValueError(f"it is {odd[0]!r}")
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


def _row(text: str) -> Row:
    """A row as it was written; ValueError for one that another program has changed."""
    content = json.loads(text)
    cell = Cell.from_dict(content.pop("cell"))
    row = record(Row, {**content, "cell": cell}, "row", more=True)
    if not 0 <= row.finished < _YEAR_9999:
        raise ValueError(f"finished is {row.finished}.")
    if any(isinstance(value, int) and abs(value) >= 2**63 for value in (*vars(cell).values(), *vars(row).values())):
        raise ValueError("a whole number has more than 64 bits.")
    _ = cell.key  # Raises ValueError for parameters such as NaN, which no cell has.
    return row
