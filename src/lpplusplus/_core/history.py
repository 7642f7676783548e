"""What was measured during a fit: columns of numbers to plot, and notes to read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class History:
    """Columns of numbers, one entry per step, and notes about what the fit decided.

    A column is read as an item or as an attribute. `LPPlusPlus` creates all its columns at the start; those that were
    not measured are empty.

    >>> history = History()
    >>> history.add(epoch=1, loss=0.5)
    >>> history.add(epoch=2, loss=0.25)
    >>> history["loss"], history.epoch
    ([0.5, 0.25], [1, 2])

    >>> from lpplusplus import LPPlusPlus
    >>> probe = LPPlusPlus(recipe="paper", updates=2).fit(np.eye(4), [0, 0, 1, 1])
    >>> probe.history_.update
    [0, 1, 2]
    >>> sorted(probe.history_.as_arrays())
    ['loss', 'time', 'update']
    """

    columns: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, names: Iterable[str]) -> "History":
        """A history with these columns, all empty."""
        return cls({name: [] for name in names})

    def add(self, **row: float) -> None:
        """Append one entry to each of the named columns."""
        for name, value in row.items():
            if name not in self.columns:
                self.columns[name] = []
            self.columns[name].append(value)

    def note(self, text: str) -> None:
        """Append a note."""
        self.notes.append(text)

    def __getitem__(self, column: str) -> list[float]:
        return self.columns[column]

    def __getattr__(self, name: str) -> list[float]:
        try:
            return self.__dict__["columns"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"this history has no column {name!r}") from None

    def as_lists(self) -> dict[str, Any]:
        """Everything, as JSON can hold it: {"columns": …, "notes": …}; NaN, which JSON does not have, as None."""
        columns = {name: [None if x != x else x for x in values] for name, values in self.columns.items()}
        return {"columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_lists(cls, content: dict[str, Any]) -> "History":
        """The inverse of `as_lists`. Files of `LPPlusPlus` 0.1 have the columns alone."""
        columns = content.get("columns", content)
        if not all(isinstance(x, int | float | None) for column in columns.values() for x in column):
            raise ValueError("the history has entries that are not numbers")
        nan = float("nan")
        notes = [] if columns is content else list(content["notes"])
        return cls({name: [nan if x is None else x for x in column] for name, column in columns.items()}, notes)

    def as_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The columns that are not empty, as arrays to plot."""
        return {name: np.asarray(values) for name, values in self.columns.items() if values}


Journal = History
"""Another name of `History`."""
