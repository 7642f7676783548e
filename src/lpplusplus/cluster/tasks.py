"""Jobs as Ray tasks: as many at once as there is room for; results come as jobs end."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .connection import Slots
from .errors import ClusterError

RETRIES = 5
"""How often a job is started again if its worker or node was lost; not if the job itself raised an error."""


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
        Arguments of each call. A free worker takes the next.
    slots
        What a job asks for.
    asked
        What single jobs ask for, if they differ.
    ahead
        Jobs per worker that wait at the node behind the running one.

    Yields
    ------
    list
        Jobs that have just ended, each with its result or its exception.
    """
    import ray

    remote = ray.remote(max_calls=0)(function)  # Keep the worker and its encoder for the next task, also on a GPU.
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
    """The exception that a task raised; or one that says that its worker was lost."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    return ClusterError(f"a worker was lost {RETRIES + 1} times ({str(error).splitlines()[0]}).")
