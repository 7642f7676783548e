"""Jobs as tasks of Ray: as many at once as there is room for, results as they end."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .errors import ClusterError
from .slots import Slots

RETRIES = 5
"""How often a job is started again whose worker or node was lost; not if it raised an error of its own."""


def run_tasks(
    function: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    slots: Slots,
    *,
    asked: Callable[[tuple[Any, ...]], Slots] | None = None,
    ahead: int = 1,
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Run `function(*job)` for each job on the cluster.

    Parameters
    ----------
    function
        A function of a module that the workers can import.
    jobs
        Arguments of each call, taken as there is room. Who is free takes the next.
    slots
        What a job asks for.
    asked
        What single jobs ask for, where they differ.
    ahead
        Jobs per worker that wait at their node beside the one that runs.

    Yields
    ------
    tuple
        A job, and what it returned or the exception that it ended with, in the order they end.
    """
    import ray

    remote = ray.remote(max_calls=0)(function)  # A worker stays for the next task, with its encoder; on a GPU, too.
    waiting = iter(jobs)
    running: dict[Any, tuple[Any, ...]] = {}
    exhausted = False
    try:
        while True:
            room = slots.check()  # Nodes come and go.
            while not exhausted and len(running) < room * (1 + ahead):
                job = next(waiting, None)
                if job is None:
                    exhausted = True
                    break
                options = (slots if asked is None else asked(job)).options
                running[remote.options(**options, max_retries=RETRIES).remote(*job)] = job
            if not running:
                return
            ended, _ = ray.wait(list(running), num_returns=1, timeout=5.0)
            for reference in ended:
                job = running.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayError as error:
                    result = plain_error(error)
                yield job, result
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def plain_error(error: Any) -> Exception:
    """What a task raised, as it was raised there; or that its worker was lost."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    return ClusterError(f"a worker was lost {RETRIES + 1} times ({str(error).splitlines()[0]}).")
