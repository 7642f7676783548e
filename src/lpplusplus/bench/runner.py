"""Running a plan: every cell that is missing, in parallel, one thread each. Stopped at any moment, it goes on."""

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeAlias

from joblib import Parallel, cpu_count, delayed, parallel_config

from .cell import Cell
from .data import EmbeddedDataset
from .draws import Draw
from .estimators import find
from .loader import DatasetLoader, Draws
from .plan import Plan
from .results import STALE_SECONDS, Results, Row
from .run_cell import needs_places, run_cell, versions, warm_up

CellProgress: TypeAlias = Callable[[int, int, str], object]
"""Called with the number of cells that are done, the number of all cells, and what is being done."""


@dataclass
class RunSummary:
    """Numbers of cells in the plan, done already, run now, and of those that failed; and where the time went."""

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
        """The workers' time outside the methods as a part of the time inside; None when nothing was run."""
        if not self.method_seconds:
            return None
        return (self.seconds - self.preparation_seconds) * self.workers / self.method_seconds - 1


def run_plan(
    plan: Plan,
    results: Results,
    loader: DatasetLoader,
    *,
    n_jobs: int | None = None,
    backend: str = "loky",
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
    backend
        Of joblib: processes here, or another that is registered with joblib, such as Ray's.
    progress
        See `CellProgress`.
    """
    check_packages(plan)
    start = time.perf_counter()
    summary = RunSummary(len(plan), workers=n_jobs or cpu_count())
    workers = _Workers(plan, summary.workers, backend)

    def tell(what: str) -> None:
        if progress is not None:
            progress(summary.already + summary.run, summary.cells, what)

    with _heartbeat(results):
        for dataset in plan.datasets:
            for encoder in plan.backbones:
                cells = list(plan.cells(dataset, encoder))
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
                    summary.preparation_seconds += time.perf_counter() - begun
                    for row in _rows(missing, loaded, results, workers):
                        summary.run += 1
                        summary.failed += row.status != "ok"
                        summary.method_seconds += (row.fit_seconds or 0.0) + (row.predict_seconds or 0.0)
                        tell(f"{dataset}, {encoder}: {row.cell.method}")
    summary.seconds = time.perf_counter() - start
    return summary


def check_packages(plan: Plan) -> None:
    """Refuse a plan whose methods need torch where it is not installed: before anything is embedded, not after."""
    training = [one.name for one in plan.methods if getattr(find(one.estimator), "needs_torch", False)]
    if training and find_spec("torch") is None:
        raise ValueError(
            f"{', '.join(training)} of this plan train with torch, which is not installed: pip install "
            f'"lpplusplus[bench]" (in a clone of the repository, ".[bench]"), or write a plan without them.'
        )


def _load(
    plan: Plan,
    missing: Sequence[Cell],
    results: Results,
    loader: DatasetLoader,
    tell: Callable[[str], None],
    places: bool,
) -> tuple[EmbeddedDataset, Draws] | str:
    """The data and the tasks of the missing cells of one data set and encoder, or why they cannot be had."""
    try:
        data, draws = loader.load(plan, missing[0].dataset, missing[0].backbone, tell, places=places)
    except Exception:
        return traceback.format_exc()
    for task in {(cell.shots, cell.seed) for cell in missing}:
        results.keep_draw(draws[task].sha256, draws[task].as_dict())
    return data, draws


def _rows(
    missing: Sequence[Cell], loaded: tuple[EmbeddedDataset, Draws] | str, results: Results, workers: "_Workers"
) -> Iterator[Row]:
    """Run the missing cells of one data set and encoder; each row is written before it is yielded."""
    if isinstance(loaded, str):
        for cell in missing:
            row = Row(cell, "failed", versions=versions(), traceback=loaded, finished=time.time())
            results.add(row)
            yield row
        return
    data, draws = loaded
    claimed: list[Cell] = []

    def jobs() -> Iterator[Any]:
        for cell in missing:
            if results.claim(cell):
                claimed.append(cell)
                yield delayed(_work)(data, cell, draws[cell.shots, cell.seed], os.getpid())

    try:
        for row in workers.run(jobs()):
            results.add(row)
            results.release([row.cell])
            yield row
    finally:
        results.release(claimed)


class _Workers:
    """The processes that run cells, one thread each."""

    def __init__(self, plan: Plan, count: int, backend: str) -> None:
        self.plan, self.count, self.backend = plan, count, backend
        self.starting: Iterator[Any] | None = None

    def run(self, jobs: Iterator[Any]) -> Iterator[Any]:
        """Hand out the jobs, and return an iterator of what they return, as they end."""
        threads = {"inner_max_num_threads": 1} if self.backend == "loky" else {}
        with parallel_config(backend=self.backend, **threads):
            parallel = Parallel(  # Always with the same settings, or joblib would start new workers.
                n_jobs=self.count,
                return_as="generator_unordered",
                pre_dispatch=2 * self.count,
                batch_size=1,
                max_nbytes="50K",  # Larger arrays go to the workers through a file, once for all cells.
            )
            return iter(parallel(jobs))

    def start(self) -> None:
        """Start the processes, once, and let them load what the methods need, while data are being read."""
        if self.starting is None and self.backend == "loky" and self.count > 1:
            estimators = {one.estimator for one in self.plan.methods}
            self.starting = self.run(delayed(_start)(estimators, os.getpid()) for _ in range(self.count))

    def wait(self) -> None:
        """Return when all processes have started."""
        deque(self.starting or (), maxlen=0)


def _start(estimators: set[str], parent: int) -> None:
    _end_with(parent)
    warm_up(estimators)


def _work(data: EmbeddedDataset, cell: Cell, draw: Draw, parent: int) -> Row:
    _end_with(parent)
    return run_cell(cell, data, draw)


@cache
def _end_with(parent: int) -> None:
    """In a worker: end when the process that started it has ended, in whatever way. Windows cannot tell."""
    if os.getppid() == parent and os.name == "posix":
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


@contextmanager
def _heartbeat(results: Results) -> Iterator[None]:
    """Renew our claims while the block runs."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(STALE_SECONDS / 4):
            results.renew()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
