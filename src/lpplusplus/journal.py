"""What a fit wrote down on its way: columns to plot and remarks to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Journal:
    """Columns of numbers, one entry a step, with remarks for the reader.

    >>> journal = Journal()
    >>> journal.add(epoch=1, loss=0.5)
    >>> journal.add(epoch=2, loss=0.25)
    >>> journal["loss"]
    [0.5, 0.25]
    """

    columns: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, **row: float) -> None:
        """Append one entry to each of the named columns."""
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)

    def note(self, remark: str) -> None:
        """Append a remark."""
        self.notes.append(remark)

    def __getitem__(self, column: str) -> list[float]:
        return self.columns[column]

    def as_lists(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"columns": {k: [float(x) for x in v] for k, v in self.columns.items()}, "notes": list(self.notes)}

    @classmethod
    def from_lists(cls, content: dict[str, Any]) -> Journal:
        """The inverse of `as_lists`."""
        return cls({str(k): [float(x) for x in v] for k, v in content["columns"].items()}, list(content["notes"]))

    def as_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The columns as arrays to plot."""
        return {name: np.asarray(values) for name, values in self.columns.items()}
