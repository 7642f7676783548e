"""Running a plan: every missing cell, in parallel, one thread each. It may be stopped at any time and run again."""

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias

from joblib import Parallel, cpu_count, delayed, parallel_config

from ..images.store.writer import exclusive
from .cell import Cell, EmbeddedDataset, Row
from .draws import Draw
from .estimators import find
from .loader import DatasetLoader, Draws
from .plan import Plan
from .results import Results
from .run_cell import needs_places, run_cell, versions, warm_up

CellProgress: TypeAlias = Callable[[int, int, str], object]
"""Called with the number of finished cells, the number of all cells, and a message."""


CellJob: TypeAlias = tuple[Cell, Draw, float | None]
"""A cell, its draw, and the seconds it may take."""


class Workers(Protocol):
    """What runs cells.

    Attributes
    ----------
    count
        How many at once.
    """

    count: int

    def start(self) -> None:
        """Start the workers, once, and let them load what the methods need, while data are being read."""

    def wait(self) -> None:
        """Return when the workers have started."""

    def run(self, data: EmbeddedDataset, jobs: Iterator[CellJob]) -> Iterator[list[Row]]:
        """Run cells of one data set; yields rows as soon as some cells have ended."""


@dataclass
class RunSummary:
    """How many cells the plan has, had already, ran now and failed; and how the time was spent."""

    cells: int
    already: int = 0
    run: int = 0
    failed: int = 0
    method_seconds: float = 0.0
    """Time inside the methods, summed over cells."""
    preparation_seconds: float = 0.0
    """Time for reading and embedding data sets before their cells run."""
    seconds: float = 0.0
    workers: int = 1

    @property
    def overhead(self) -> float | None:
        """The workers' time outside the methods, divided by the time inside; None if nothing was run."""
        if not self.method_seconds:
            return None
        return (self.seconds - self.preparation_seconds) * self.workers / self.method_seconds - 1


def run_plan(
    plan: Plan,
    results: Results,
    loader: DatasetLoader,
    *,
    n_jobs: int | None = None,
    limit: float | None = None,
    workers: Workers | None = None,
    progress: CellProgress | None = None,
) -> RunSummary:
    """Run the cells of `plan` that `results` does not have.

    Parameters
    ----------
    plan, results
        What to run and where to keep it.
    loader
        Where data sets come from and where their embeddings are kept.
    n_jobs
        Cells at once, each with one thread; by default as many as there are cores.
    limit
        Seconds for a cell, beyond which it fails; None for no limit.
    workers
        What runs the cells; by default processes of this machine.
    progress
        See `CellProgress`.
    """
    check_packages(plan)
    start = time.perf_counter()
    workers = workers or LocalWorkers(plan, n_jobs or cpu_count())
    summary = RunSummary(len(plan), workers=workers.count)

    def tell(what: str) -> None:
        if progress is not None:
            progress(summary.already + summary.run, summary.cells, what)

    with exclusive(results.folder):
        results.keep_plan(plan.name, plan.all_cells())
        for dataset in plan.datasets:
            for encoder in plan.encoders:
                cells = list(plan.cells(dataset, encoder))
                if results.done(cells):  # With the weights of today?
                    cells = _with_weights(cells, loader, plan)
                solved = results.done(cells)
                summary.already += len(solved)
                tell(f"{dataset}, {encoder}")
                for places in (False, True):
                    missing = [c for c in cells if c.key not in solved and needs_places(c) == places]
                    if not missing:
                        continue
                    begun = time.perf_counter()
                    workers.start()
                    loaded = _load(plan, missing, results, loader, tell, places)
                    workers.wait()
                    if not isinstance(loaded, str):
                        missing = _with_weights(missing, loader, plan)
                    summary.preparation_seconds += time.perf_counter() - begun
                    for row in _rows(missing, loaded, results, workers, limit):
                        summary.run += 1
                        summary.failed += row.status != "ok"
                        summary.method_seconds += (row.fit_seconds or 0.0) + (row.predict_seconds or 0.0)
                        tell(f"{dataset}, {encoder}: {row.cell.method}")
    summary.seconds = time.perf_counter() - start
    return summary


def check_packages(plan: Plan) -> None:
    """Refuse a plan whose methods need torch if it is not installed, before anything is embedded."""
    if training := waiting_for_torch(plan):
        raise ValueError(
            f"{', '.join(training)} of this plan train with torch, which is not installed: pip install "
            f'"lpplusplus[torch]" (in a clone of the repository, ".[torch]"), or write a plan without them.'
        )


def waiting_for_torch(plan: Plan) -> list[str]:
    """The methods of a plan that cannot run here, because torch is not installed."""
    if find_spec("torch") is not None:
        return []
    return [one.name for one in plan.methods if getattr(find(one.estimator), "needs_torch", False)]


def _with_weights(cells: list[Cell], loader: DatasetLoader, plan: Plan) -> list[Cell]:
    """Cells of one data set and encoder with the fingerprint of its weights."""
    weights = loader.fingerprint(plan, cells[0].dataset, cells[0].encoder)
    return [replace(cell, fingerprint=weights) for cell in cells]


def _load(
    plan: Plan,
    missing: Sequence[Cell],
    results: Results,
    loader: DatasetLoader,
    tell: Callable[[str], None],
    places: bool,
) -> tuple[EmbeddedDataset, Draws] | str:
    """The data and the draws of the missing cells of one data set and encoder, or why they cannot be loaded."""
    try:
        data, draws = loader.load(plan, missing[0].dataset, missing[0].encoder, tell, places=places)
    except Exception:
        return traceback.format_exc()
    for draw in {(cell.shots, cell.seed) for cell in missing}:
        results.keep_draw(draws[draw].sha256, draws[draw].as_dict())
    return data, draws


def _rows(
    missing: Sequence[Cell],
    loaded: tuple[EmbeddedDataset, Draws] | str,
    results: Results,
    workers: Workers,
    limit: float | None,
) -> Iterator[Row]:
    """Run the missing cells of one data set and encoder; each row is written before it is yielded."""
    if isinstance(loaded, str):
        for cell in missing:
            row = Row(cell, "failed", versions=versions(), traceback=loaded, finished=time.time())
            results.add(row)
            yield row
        return
    data, draws = loaded
    for rows in workers.run(data, ((cell, draws[cell.shots, cell.seed], limit) for cell in missing)):
        results.add(*rows)
        yield from rows


class LocalWorkers:
    """Processes of this machine that run cells, one thread each."""

    def __init__(self, plan: Plan, count: int) -> None:
        self.plan, self.count = plan, count
        self.starting: Iterator[Any] | None = None

    def run(self, data: EmbeddedDataset, jobs: Iterator[CellJob]) -> Iterator[list[Row]]:
        ended = self._parallel(delayed(run_cell)(cell, data, draw, limit=limit) for cell, draw, limit in jobs)
        return ([row] for row in ended)

    def start(self) -> None:
        if self.starting is None and self.count > 1:
            estimators = {method.estimator for method in self.plan.methods}
            self.starting = self._parallel(delayed(warm_up)(estimators) for _ in range(self.count))

    def wait(self) -> None:
        deque(self.starting or (), maxlen=0)

    def _parallel(self, jobs: Iterator[Any]) -> Iterator[Any]:
        options = {"initializer": _end_with, "initargs": (os.getpid(),)}
        with parallel_config(backend="loky", inner_max_num_threads=1, **options):
            parallel = Parallel(  # Always with the same settings, or joblib would start new workers.
                n_jobs=self.count,
                return_as="generator_unordered",
                pre_dispatch=2 * self.count,
                batch_size=1,
                max_nbytes="50K",  # Larger arrays go to the workers through a file, once for all cells.
            )
            return iter(parallel(jobs))


def _end_with(parent: int) -> None:
    """In a worker, before its first cell: end when the process that started it has ended. Not on Windows."""
    if os.name == "posix":
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
