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
) -> Iterator[list[tuple[tuple[Any, ...], Any]]]:
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
    list
        As soon as some jobs have ended, each of them with what it returned or the exception that it ended with.
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
            first, others = ray.wait(list(running), num_returns=1, timeout=5.0)
            ended = first + (ray.wait(others, num_returns=len(others), timeout=0)[0] if first and others else [])
            if ended:
                yield [(running.pop(reference), _result(reference)) for reference in ended]
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _result(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return plain_error(error)


def plain_error(error: Any) -> Exception:
    """What a task raised, as it was raised there; or that its worker was lost."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    return ClusterError(f"a worker was lost {RETRIES + 1} times ({str(error).splitlines()[0]}).")
