"""The parts of a source as jobs: arguments go to a worker, a Parquet file is written there, one result comes back."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .._core.files import canonical_json
from .._core.parameters import Progress
from ..images.embeddings import Embeddings, Origin
from ..images.errors import StoreError
from ..images.parquet.addresses import is_address, need_pyarrow, open_place, spelled
from ..images.parquet.tables import KEY, LABEL, NAME, head_of, part_name, refuse_files, write_part
from .connection import ClusterError, Slots, limit_threads, run_tasks, sendable
from .parts import WorkPart, WorkPlan

EARLIER = "_run.json"
"""A file that version 0.1 wrote beside the parts."""


@dataclass(frozen=True)
class PartResult:
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
class RunResult:
    """What a run did.

    Attributes
    ----------
    parts
        In order.
    reused
        Rows that were there already.
    workers
        How many the cluster had room for at the start.
    skipped
        Path and reason of each image that could not be read, in the order of the list.
    ignored
        Number of files that are no images.
    origin, classes
        Of embeddings.
    """

    parts: tuple[PartResult, ...]
    reused: int
    workers: int
    skipped: tuple[tuple[str, str], ...]
    ignored: int
    origin: Origin | None = None
    classes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(part.rows for part in self.parts)


def absolute(place: str) -> str:
    """A path or address that does not depend on the folder in which a worker runs."""
    return spelled(place) if is_address(place) else os.path.abspath(place)


def run_parts(
    work: Callable[..., tuple[Embeddings, Any]],
    arguments: Mapping[str, Any],
    plan: WorkPlan,
    place: str,
    about: Mapping[str, Any],
    slots: Slots,
    progress: Progress | None = None,
) -> RunResult:
    """Do all parts that have no file yet, on the connected cluster.

    Parameters
    ----------
    work
        Called on a worker as `work(part, **arguments)`; returns the embeddings of the part, and the table to write.
    arguments
        Sent to each node once.
    plan, place, slots
        What to do, the folder to write to, and what a worker asks for.
    about
        What makes the rows: parts about which something else is said are never mixed with these.
    progress
        Called as `progress(done, total)`, in parts.

    Raises
    ------
    ClusterError
        A part failed. What is finished is kept; the next run does the rest.
    """
    import ray

    told = progress or (lambda done, total: None)
    workers, key = slots.check(), hashlib.sha256(canonical_json(about, compact=True).encode()).hexdigest()
    done = finished(plan, place, key)
    reused = sum(part.rows for part in done.values())
    everywhere = ray.put(dict(arguments))
    jobs = ((work, everywhere, place, key, part, n, slots.cpus) for n, part in enumerate(plan.parts) if n not in done)
    told(len(done), len(plan.parts))
    for (*_, number, _), result in chain.from_iterable(run_tasks(do_part, jobs, slots)):
        if isinstance(result, Exception):
            raise ClusterError(f"{result} (What is finished is kept: the same command goes on from there.)") from None
        done[number] = result
        told(len(done), len(plan.parts))
    parts = tuple(done[number] for number in range(len(plan.parts)))
    skipped = (*plan.problems, *(image for part in parts for image in part.skipped))
    return RunResult(parts, reused, workers, skipped, plan.ignored)


def do_part(
    work: Callable[..., Any], arguments: Mapping[str, Any], place: str, key: str, part: WorkPart, number: int, cpus: int
) -> PartResult:
    """On a worker: do a part and write it; errors that can be sent, with the number of the part."""
    start = time.perf_counter()
    limit_threads(cpus)
    try:
        embeddings, table = work(part, **arguments)
        labels = frozenset(() if embeddings.labels is None else embeddings.labels.tolist())
        skipped = tuple((str(image.path), image.reason) for image in embeddings.skipped)
        head = json.loads(table.schema.metadata[KEY])
        head |= {"key": key, "part": number, "listed": part.listed, "skipped": [list(image) for image in skipped]}
        system, folder = open_place(place)
        table = table.replace_schema_metadata({KEY: canonical_json(head, compact=True).encode()})
        rows = write_part(system, folder, number, table)
        return PartResult(rows, labels, skipped, time.perf_counter() - start)
    except Exception as error:
        raise sendable(error, f"part {number}: ") from None


def finished(plan: WorkPlan, place: str, key: str) -> dict[int, PartResult]:
    """The parts that are there already; makes the folder.

    Raises
    ------
    StoreError
        The folder holds something else, and is left as it is: other files, or parts of another list or by another
        encoder.
    """
    system, folder = open_place(place)
    names = {part_name(number): number for number in range(len(plan.parts))}
    refuse_files(system, folder, spelled(place), {**names, NAME: 0, EARLIER: 0}, hidden=True)
    system.create_dir(folder, recursive=True)
    inside = {info.base_name for info in system.get_file_info(need_pyarrow("fs").FileSelector(folder))}

    def result(name: str) -> PartResult | None:
        where = f"{spelled(place)}/{name}"
        try:
            file = need_pyarrow("parquet").ParquetFile(system.open_input_file(f"{folder}/{name}"))
        except Exception:  # pyarrow's own errors on a file that is cut off: it is made again.
            return None
        head = head_of(file.schema_arrow, where)
        if head is None or head.get("key") != key or head.get("listed") != plan.parts[names[name]].listed:
            raise StoreError(
                f"{where} belongs to another list of images, another encoder or other options: choose a new folder, or "
                f"remove this one first."
            )
        labels: list[str] = []
        if plan.labelled and not plan.classes and LABEL in file.schema_arrow.names:
            labels = file.read(columns=[LABEL]).column(LABEL).unique().to_pylist()
        skipped = tuple((str(path), str(reason)) for path, reason in head.get("skipped", ()))
        return PartResult(file.metadata.num_rows, frozenset(labels), skipped)

    there = [name for name in names if name in inside]
    with ThreadPoolExecutor(16) as pool:
        results = pool.map(result, there)
        return {names[name]: part for name, part in zip(there, results, strict=True) if part is not None}
