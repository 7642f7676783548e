"""Running a plan: every cell that is missing, in parallel, one thread each; stopped at any moment, it goes on."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from joblib import Parallel, cpu_count, delayed, parallel_config

from .cell import needs_tokens, run_cell, versions, warm_up
from .plan import Plan
from .problems import Problem, Sources
from .results import STALE_SECONDS, Cell, Results, Row
from .tasks import Draw

Progress = Callable[[int, int, str], object]
"""Told how many cells are done, of how many, and what is being done."""


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    cells: int
    already: int
    run: int
    failed: int
    method_seconds: float
    """Time inside the methods, summed over cells."""
    preparation_seconds: float
    """Reading and embedding data sets before their cells run; workers start meanwhile."""
    seconds: float
    workers: int

    @property
    def overhead(self) -> float | None:
        """The workers' time that was not the methods', as a part of that which was; None when nothing was run."""
        if not self.method_seconds:
            return None
        return (self.seconds - self.preparation_seconds) * self.workers / self.method_seconds - 1


def run_plan(
    plan: Plan,
    results: Results,
    sources: Sources,
    *,
    n_jobs: int | None = None,
    backend: str = "loky",
    progress: Progress | None = None,
) -> Summary:
    """Run the cells of `plan` that `results` does not have.

    Parameters
    ----------
    plan, results
        What to run and where to keep it.
    sources
        Where data sets come from and where their embeddings are kept.
    n_jobs
        Cells at once, each with one thread; as many as there are cores by default.
    backend
        Of joblib: processes here, or whatever else is registered there, such as Ray's.
    progress
        See `Progress`.
    """
    workers = n_jobs or cpu_count()
    total, done, failed, already, inside, preparing = len(plan), 0, 0, 0, 0.0, 0.0
    start = time.perf_counter()

    def tell(what: str) -> None:
        if progress is not None:
            progress(done, total, what)

    workers_ready = _start_workers(plan, workers, backend)
    with _heartbeat(results):
        for dataset in plan.datasets:
            for backbone in plan.backbones:
                cells = list(plan.cells(dataset, backbone))
                solved = results.done(cells)
                missing = [cell for cell in cells if cell.key not in solved]
                done += len(solved)
                already += len(solved)
                tell(f"{dataset}, {backbone}")
                for tokens in (False, True):
                    some = [cell for cell in missing if needs_tokens(cell) == tokens]
                    if not some:
                        continue
                    begun = time.perf_counter()
                    started = workers_ready()
                    opened = _open(plan, some, results, sources, tell, tokens)
                    started()
                    preparing += time.perf_counter() - begun
                    for row in _rows(some, opened, results, workers, backend):
                        done += 1
                        failed += row.status != "ok"
                        inside += (row.fit_seconds or 0.0) + (row.predict_seconds or 0.0)
                        tell(f"{dataset}, {backbone}: {row.cell.method}")
    return Summary(total, already, done - already, failed, inside, preparing, time.perf_counter() - start, workers)


_Opened = tuple[Problem, dict[tuple[int, int], Draw]]


def _open(
    plan: Plan,
    missing: Sequence[Cell],
    results: Results,
    sources: Sources,
    tell: Callable[[str], None],
    tokens: bool,
) -> _Opened | str:
    """The data and the tasks of the missing cells of one data set and encoder, or why they cannot be had."""
    try:
        problem = sources.problem(plan, missing[0].dataset, missing[0].backbone, tell, tokens=tokens)
        draws = {(cell.shots, cell.seed): problem.draw(cell) for cell in missing}
    except Exception:
        return traceback.format_exc()
    for draw in draws.values():
        results.keep_draw(draw.sha256, draw.as_dict())
    return problem, draws


def _rows(
    missing: Sequence[Cell], opened: _Opened | str, results: Results, workers: int, backend: str
) -> Iterator[Row]:
    """Run the missing cells of one data set and encoder; each is written before it is handed out."""
    if isinstance(opened, str):
        for cell in missing:
            row = Row(cell, "failed", versions=versions(), traceback=opened, finished=time.time())
            results.add(row)
            yield row
        return
    problem, draws = opened
    claimed: list[Cell] = []

    def jobs() -> Iterator[tuple[Callable[..., Row], tuple[Problem, Cell, Draw], dict[str, object]]]:
        for cell in missing:
            if results.claim(cell):
                claimed.append(cell)
                yield delayed(_work)(problem, cell, draws[cell.shots, cell.seed])

    try:
        with _threads_pinned(backend):
            for row in _pool(workers)(jobs()):
                results.add(row)
                results.release([row.cell])
                yield row
    finally:
        results.release(claimed)


def _threads_pinned(backend: str) -> parallel_config:
    return parallel_config(backend=backend, **({"inner_max_num_threads": 1} if backend == "loky" else {}))


def _pool(workers: int) -> Parallel:
    """Always with the same settings, or joblib would start new workers."""
    return Parallel(
        n_jobs=workers,
        return_as="generator_unordered",
        pre_dispatch=2 * workers,
        batch_size=1,
        max_nbytes="50K",  # Larger arrays go to the workers through a file, once for all cells.
    )


def _start_workers(plan: Plan, workers: int, backend: str) -> Callable[[], Callable[[], None]]:
    """Called, start the workers (once) and load what methods need; what that returns, called, waits for them."""
    started = False

    def start() -> Callable[[], None]:
        nonlocal started
        if started or backend != "loky" or workers == 1:
            return lambda: None
        started = True
        estimators = {method.estimator for method in plan.methods}
        with _threads_pinned(backend):
            ready = _pool(workers)(delayed(warm_up)(estimators) for _ in range(workers))

        def wait() -> None:
            deque(ready, maxlen=0)

        return wait

    return start


def _work(problem: Problem, cell: Cell, draw: Draw) -> Row:
    return run_cell(cell, problem.task(draw))


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
