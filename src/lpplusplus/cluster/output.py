"""The output of a run: one Parquet file for each part, and which of them exist already."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..images.errors import StoreError
from ..images.parquet.addresses import is_address, need_pyarrow, open_place, spelled
from ..images.parquet.columns import LABEL, head_of
from ..images.parquet.index import NAME, part_name, put
from ..images.parquet.writing import refuse_files, write_part
from .parts import WorkPart, WorkPlan

SETTINGS = "_run.json"
"""File with settings that a run chose at its start, and that a continued run must use, too."""


def absolute(place: str) -> str:
    """A path or address that does not depend on the folder in which a worker runs."""
    return spelled(place) if is_address(place) else os.path.abspath(place)


def settings(place: str) -> dict[str, Any] | None:
    """The settings of an earlier run into this folder; None if there was none."""
    system, folder = open_place(place)
    try:
        with system.open_input_stream(f"{folder}/{SETTINGS}") as stream:
            found = json.loads(stream.read(2**16))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{spelled(place)}/{SETTINGS} is damaged: remove it ({type(error).__name__}).") from None
    return found if isinstance(found, dict) else None


def keep_settings(place: str, found: dict[str, Any]) -> None:
    """Keep settings for the next run."""
    system, folder = open_place(place)
    system.create_dir(folder, recursive=True)
    put(system, f"{folder}/{SETTINGS}", json.dumps(found).encode())


@dataclass(frozen=True)
class PartReceipt:
    """What is known about a finished part.

    Attributes
    ----------
    rows
        Number of rows of its file.
    labels
        The different labels in it.
    skipped
        Path and reason of each image that could not be read.
    seconds
        Time that it took; None if it was there already.
    """

    rows: int
    labels: frozenset[str] = frozenset()
    skipped: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class Output:
    """Where a run writes.

    Attributes
    ----------
    place
        A folder, by path or address.
    key
        Digest of what makes the rows: parts with different keys are never mixed.
    """

    place: str
    key: str

    def about_part(self, number: int, part: WorkPart, skipped: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        """Metadata of a part."""
        return {"key": self.key, "part": number, "listed": part.listed, "skipped": [list(one) for one in skipped]}

    def write(self, number: int, table: Any) -> int:
        """Write a part, on a worker."""
        system, folder = open_place(self.place)
        return write_part(system, folder, number, table)

    def prepare(self, plan: WorkPlan) -> dict[int, PartReceipt]:
        """Make the folder, and find the parts that are there already.

        Raises
        ------
        StoreError
            The folder holds something else: other files, or parts of another list or by another encoder.
        """
        system, folder = open_place(self.place)
        names = {part_name(number): number for number in range(len(plan.parts))}
        refuse_files(system, folder, spelled(self.place), {**names, NAME: 0, SETTINGS: 0}, hidden=True)
        system.create_dir(folder, recursive=True)
        inside = {one.base_name for one in system.get_file_info(need_pyarrow("fs").FileSelector(folder))}
        there = [number for name, number in names.items() if name in inside]
        with ThreadPoolExecutor(16) as pool:
            found = pool.map(lambda number: (number, self._receipt(system, folder, number, plan)), there)
            return {number: receipt for number, receipt in found if receipt is not None}

    def _receipt(self, system: Any, folder: str, number: int, plan: WorkPlan) -> PartReceipt | None:
        """The receipt of an existing part; None if it is damaged and must be made again."""
        where = f"{spelled(self.place)}/{part_name(number)}"
        try:
            file = need_pyarrow("parquet").ParquetFile(system.open_input_file(f"{folder}/{part_name(number)}"))
        except Exception:  # pyarrow's own errors on a file that is cut off.
            return None
        head = head_of(file.schema_arrow, where)
        if head is None or head.get("key") != self.key or head.get("listed") != plan.parts[number].listed:
            raise StoreError(
                f"{where} belongs to another list of images, another encoder or other options: choose a new folder, or "
                f"remove this one first."
            )
        labels: Iterator[Any] = iter(())
        if plan.labelled and not plan.classes and LABEL in file.schema_arrow.names:
            labels = iter(file.read(columns=[LABEL]).column(LABEL).unique().to_pylist())
        skipped = tuple((str(path), str(reason)) for path, reason in head.get("skipped", ()))
        return PartReceipt(file.metadata.num_rows, frozenset(labels), skipped)
