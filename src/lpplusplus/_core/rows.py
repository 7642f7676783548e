"""Many embeddings, read block by block: some rows of an array, scaled, never copied as a whole.

Selecting the rows of a fold would copy three quarters of a large support, and scaling to unit length all of it. `Rows`
does both for each block, when it is read. The array may be in a file (`np.memmap`) that is larger than memory. After a
block has been read, its pages are released, so that a pass over the file keeps none of it in memory.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import array_api_compat
import numpy as np

from . import backend
from .backend import Array

BLOCK = 2**21
"""Numbers in a block of rows: 8 MiB in single precision."""

SPAN = 2**24
"""Most bytes of a file to map at once: rows that are far apart need as many pages as all rows between them."""
AROUND = 2**21
"""Bytes on both sides of the requested ones that the system may map as well."""
MEMORY = 1024.0
"""MiB that a memory map may take before it is read block by block."""


class Rows:
    """Rows of an (N, D) array: `F[a:b, :]` or `F[index, :]` gives some of them, in working precision.

    It can replace an array of embeddings wherever only rows are read.

    >>> F = Rows(np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]]), unit=True)
    >>> F[1:, :].tolist(), F.take(np.array([0, 2])).shape
    ([[0.0, 1.0], [1.0, 0.0]], (2, 2))
    """

    ndim = 2
    first = 0
    """Number of the first row, if these are a part of more."""
    form: ClassVar[Any] = None
    """For rows that live elsewhere: the objective that asks for sums over them. They override `each` and `read`."""

    def __init__(
        self, source: Array, index: Array | None = None, *, unit: bool = False, factors: Array | None = None
    ) -> None:
        self.source, self._index, self._unit, self._factors = source, index, unit, factors
        self._map = mapping_of(source)
        count = source.shape[0] if index is None else index.shape[0]
        self.shape = int(count), int(source.shape[1])
        self.dtype = backend.empty(source, (0,), dtype=backend.working_dtype(source)).dtype
        self.device = array_api_compat.device(source)

    @property
    def copies(self) -> bool:
        """Whether reading has to copy."""
        return self._index is not None or self._map is not None

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return backend.namespace(self.source)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows, *columns = key if isinstance(key, tuple) else (key,)
        block = self.read(rows)
        return block if columns in ([], [slice(None)]) else block[(slice(None), *columns)]

    def read(self, rows: Any, room: Array | None = None) -> Array:
        """Some of the rows. If they have to be copied, then to `room`, an array with at least as many rows."""
        wanted = rows if self._index is None else self._index[rows]
        if self._map is not None:
            block = self._from_file(wanted, room)
        elif room is None or isinstance(wanted, slice) or self.source.dtype != self.dtype:
            block = backend.cast(self.source[wanted], self.dtype)
        else:
            block = backend.take_rows(self.source, wanted, room[: wanted.shape[0]])
        if self._unit:
            block = backend.unit_rows(block)
        return block if self._factors is None else block * self._factors[rows][:, None]

    def _from_file(self, wanted: Any, room: Array | None) -> Array:
        """Rows of a mapped file. The pages of a part are released before the next is read: few are ever in memory."""
        if isinstance(wanted, slice):
            wanted = np.arange(*wanted.indices(self.source.shape[0]))
        block = np.empty((len(wanted), self.shape[1]), self.dtype) if room is None else room[: len(wanted)]
        if (np.diff(wanted) < 0).any():
            order = np.argsort(wanted, kind="stable")
            block[order] = self._from_file(wanted[order], None)
            return block
        low, far = 0, max(1, SPAN // self.source.strides[0])
        while low < len(wanted):
            high = int(np.searchsorted(wanted, wanted[low] + far))
            first, end = int(wanted[low]), int(wanted[high - 1]) + 1
            together = (np.diff(wanted[low:high]) == 1).all()
            block[low:high] = self.source[first:end] if together else self.source[wanted[low:high]]
            _let_go(self._map, self.source, first, end)
            low = high
        return block

    def blocks(self) -> Iterator[slice]:
        """Row ranges that are small enough to be read at once."""
        height = max(256, BLOCK // self.shape[1])
        return (slice(low, min(low + height, len(self))) for low in range(0, len(self), height))

    def each(self, work: Callable[..., Any], *along: Array | None, **common: Any) -> Iterator[Any]:
        """`work(rows, *along, **common)` in each process that holds some of the rows; here one process has all."""
        return iter((work(self, *along, **common),))

    def take(self, rows: Array) -> Rows:
        """Some of the rows, not read yet."""
        index = rows if self._index is None else self._index[rows]
        factors = None if self._factors is None else self._factors[rows]
        return self._with(index, factors, self._unit)

    def times(self, factors: Array) -> Rows:
        """Each row multiplied by its number."""
        known = factors if self._factors is None else factors * self._factors
        return self._with(self._index, known, self._unit)

    def unit(self) -> Rows:
        """Rows scaled to length 1; if all have this length already, nothing is scaled when reading."""
        if self._map is None and all(
            block is backend.unit_rows(block) for block in (self[rows, :] for rows in self.blocks())
        ):
            return self
        return self._with(self._index, self._factors, unit=True)

    def _with(self, index: Array | None, factors: Array | None, unit: bool) -> Rows:
        return Rows(self.source, index, unit=unit, factors=factors)


def is_remote(X: Any) -> bool:
    """Whether these are rows that live elsewhere."""
    return isinstance(X, Rows) and X.form is not None


def everywhere(X: Array | Rows, work: Callable[..., Any], *along: Array | None, **common: Any) -> Iterator[Any]:
    """`Rows.each`, also for an array."""
    return X.each(work, *along, **common) if isinstance(X, Rows) else iter((work(X, *along, **common),))


def unit_rows(X: Array | Rows) -> Array | Rows:
    """Rows scaled to length 1."""
    return X.unit() if isinstance(X, Rows) else backend.unit_rows(X)


def some_rows(X: Array | Rows, rows: Array) -> Array | Rows:
    """Some rows; of `Rows`, not read yet."""
    return X.take(rows) if isinstance(X, Rows) else X[rows, :]


def times(X: Array | Rows, factors: Array) -> Array | Rows:
    """Each row multiplied by its number."""
    return X.times(factors) if isinstance(X, Rows) else X * factors[:, None]


def parts(X: Array | Rows) -> Iterator[slice]:
    """Row ranges to read `X` in; an array is read all at once."""
    return X.blocks() if isinstance(X, Rows) else iter((slice(0, X.shape[0]),))


def sum_by_class(X: Array | Rows, y: Array, n_classes: int) -> Array:
    """Row k of the result is the sum of the rows of `X` whose label is k; (n_classes, D)."""
    return sum(everywhere(X, _sum_by_class, y, n_classes=n_classes))


def _sum_by_class(X: Array | Rows, y: Array, n_classes: int) -> Array:
    return sum(backend.sum_by_class(X[rows, :], y[rows], n_classes) for rows in parts(X))


def mapping_of(x: Any) -> mmap.mmap | None:
    """The file mapping of an array, if its pages can be released and read again."""
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.strides[1] != x.itemsize:
        return None
    while isinstance(x, np.ndarray):
        if isinstance(x, np.memmap) and x.mode == "c":
            return None  # Changes in its pages are not in the file.
        x = x.base
    return x if isinstance(x, mmap.mmap) else None


def _let_go(mapping: Any, source: Any, first: int, end: int) -> None:
    """Release the pages of some rows of `source`; they are read again when needed."""
    if not hasattr(mapping, "madvise"):  # pragma: no cover  (Not on Windows.)
        return
    start, page = source.ctypes.data - np.frombuffer(mapping, np.uint8, 1).ctypes.data, mmap.PAGESIZE
    # The system may have mapped more than was asked for, on both sides.
    low = max(0, (start + first * source.strides[0] - AROUND) // page * page)
    high = min(len(mapping), start + end * source.strides[0] + AROUND)
    mapping.madvise(mmap.MADV_DONTNEED, low, high - low)
