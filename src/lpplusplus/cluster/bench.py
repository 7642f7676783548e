"""`lpp bench run --engine ray`: the cells of a plan as Ray tasks, with one writer for all rows."""

import time
import traceback
from collections.abc import Iterator
from typing import Any

from ..bench.cell import Cell, EmbeddedDataset, Row
from ..bench.run_cell import run_cell, versions
from ..bench.runner import CellJob
from .connection import ClusterError, Slots, limit_threads, run_tasks


class RayWorkers:
    """Runs cells on the connected cluster; only the driver writes results, as without Ray.

    Embeddings are put into the object store once, and sent to each node once. A cell whose node is lost runs again
    elsewhere. A cell asks for one processor, and for a GPU if its parameters name one (`device = "cuda"`).

    Parameters
    ----------
    slots
        What a cell asks for, and how many run at once.
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.count = slots.check()

    def start(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def run(self, data: EmbeddedDataset, jobs: Iterator[CellJob]) -> Iterator[list[Row]]:
        import ray

        everywhere = ray.put(data)
        tasks = ((everywhere, cell, draw, limit, self.slots.cpus) for cell, draw, limit in jobs)
        for ended in run_tasks(_cell, tasks, self.slots, asked=self._asked):
            yield [_failed(job[1], row) if isinstance(row, Exception) else row for job, row in ended]

    def _asked(self, job: tuple[Any, ...]) -> Slots:
        return Slots(self.slots.cpus, max(self.slots.gpus, float(on_gpu(job[1]))), self.slots.workers)


def on_gpu(cell: Cell) -> bool:
    """Whether a cell's method is told to train on a GPU."""
    return str(cell.parameters.get("device", "")).startswith("cuda")


def check_gpus(cells: Iterator[Cell]) -> None:
    """Refuse a plan with cells for a GPU if no node has one: they would wait for ever."""
    if any(map(on_gpu, cells)):
        Slots(gpus=1).check()


def _cell(data: EmbeddedDataset, cell: Cell, draw: Any, limit: float | None, cpus: int) -> Row:
    limit_threads(cpus)
    return run_cell(cell, data, draw, limit=limit)


def _failed(cell: Cell, error: Exception) -> Row:
    said = str(error) if isinstance(error, ClusterError) else "".join(traceback.format_exception(error))
    return Row(cell, "failed", versions=versions(), traceback=said, finished=time.time())
