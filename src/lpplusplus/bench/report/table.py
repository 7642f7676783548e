"""A table as data, and its entries as people read them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pandas import DataFrame

Value = str | float | int | bool | None
_Keyed = TypeVar("_Keyed", bound=Any)
NOTHING = "–"
"""An empty entry."""


@dataclass(frozen=True)
class Column:
    """The heading of a column, and the format of its entries."""

    name: str
    kind: str = "text"
    """"text", "percent", "points", "seconds", "mib", "count", "loss" or "yes"."""
    group: str = ""
    """Heading over several columns."""

    @property
    def full_name(self) -> str:
        """Name in one line."""
        return f"{self.group}: {self.name}" if self.group else self.name


class TableEntry(NamedTuple):
    """An entry as people read it."""

    text: str
    best: bool


@dataclass(frozen=True)
class Table:
    """A table as data: unrounded numbers, None for empty entries."""

    key: str
    """Short name for files and links."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()
    best: tuple[tuple[int, int], ...] = ()
    """Row and column, counted from 0, of entries that are significantly the best of their column."""

    @property
    def entries(self) -> list[list[TableEntry]]:
        """The rows as people read them."""
        return [
            [TableEntry(written(value, self.columns[j].kind), (i, j) in self.best) for j, value in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]

    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Headings over the columns, each with its columns counted from 1; empty if no column has one."""
        numbered = enumerate(self.columns, 1)
        found = [(name, [i for i, _ in members]) for name, members in groupby(numbered, key=lambda one: one[1].group)]
        return found if any(name for name, _ in found) else []


def table_of(
    key: str,
    title: str,
    lines: Iterable[Mapping[Column, Value]],
    notes: Sequence[str] = (),
    leaders: Mapping[Column, str] | None = None,
) -> Table | None:
    """A table from lines, without the columns and lines that have no entry; None if nothing remains.

    The first column names the lines: it stays, and does not count as an entry. `leaders` names the line that is
    significantly the best of a column.

    >>> table_of("k", "Title", [{Column("Method"): "A", Column("mean"): 1.0}, {Column("Method"): "B"}]).rows
    (('A', 1.0),)
    """
    table = DataFrame(
        [{column: plain(value, column.kind) for column, value in line.items()} for line in lines], dtype=object
    )
    filled = table.iloc[:, 1:].notna()
    table = table.loc[filled.any(axis=1), [*table.columns[:1], *filled.columns[filled.any()]]]
    if table.empty:
        return None
    rows = tuple(tuple(plain(value) for value in row) for row in table.to_numpy(object))
    best = (
        (i, j) for i, row in enumerate(rows) for j, column in enumerate(table) if (leaders or {}).get(column) == row[0]
    )
    return Table(key, title, tuple(table), rows, tuple(dict.fromkeys(notes)), tuple(best))


def plain(value: Any, kind: str = "") -> Value:
    """A value of a DataFrame as Python has it; None for NaN, and a count without its point.

    >>> plain(float("nan")), plain(np.float64(2.5)), plain(3.0, "count"), plain("text")
    (None, 2.5, 3, 'text')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and np.isnan(value):
        return None
    found: Value = int(value) if kind == "count" and isinstance(value, float) else value
    return found


def written(value: Value, kind: str) -> str:
    """An entry as people read it.

    >>> written(63.427, "percent"), written(-0.5, "points"), written(0.0123, "seconds"), written(None, "percent")
    ('63.43', '−0.50', '12.3 ms', '–')
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    match kind:
        case "percent":
            return f"{value:.2f}"
        case "points":
            return f"{value:+.2f}".replace("-", "−")
        case "seconds":
            return duration(value)
        case "mib":
            return f"{value:,.0f} MiB" if value >= 10 else f"{value:.1f} MiB" if value >= 0.05 else "< 0.1 MiB"
        case "loss":
            return f"{value:.3f}"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def printable(text: str) -> str:
    r"""A text with control characters, which LaTeX and SVG refuse, written as Python escapes.

    >>> printable("bell\x07")
    'bell\\x07'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", lambda mark: repr(mark.group())[1:-1], text)


def duration(seconds: float) -> str:
    """Seconds in a unit that suits them.

    >>> [duration(x) for x in (0.0004, 0.25, 3.21, 75.0, 7200.0)]
    ['0.4 ms', '250 ms', '3.21 s', '75 s', '2.0 h']
    """
    if seconds < 0.0995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def with_own_keys(things: Iterable[_Keyed | None], otherwise: str) -> list[_Keyed]:
    """Tables or figures that there are, with keys that differ and are usable as file names.

    `otherwise` is the key where no letter of it is usable.

    >>> tables = [Table(key, "", (), ()) for key in ("Ranks", "ranks", "…")]
    >>> [table.key for table in with_own_keys([*tables, None], "table")]
    ['ranks', 'ranks-2', 'table']
    """
    found: dict[str, _Keyed] = {}
    for thing in things:
        if thing is not None:
            plain = re.sub(r"[^a-z0-9]+", "-", thing.key.casefold()).strip("-") or otherwise
            key, number = plain, 1
            while key in found:
                number += 1
                key = f"{plain}-{number}"
            found[key] = replace(thing, key=key)
    return [*found.values()]
