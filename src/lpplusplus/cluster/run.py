"""A run over all parts that are not done yet."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .._core.progress import Progress
from .._core.text import BriefError
from .connection import Slots
from .errors import ClusterError
from .output import Output, PartReceipt
from .parts import WorkPart, WorkPlan
from .tasks import run_tasks


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Attributes
    ----------
    receipts
        One for each part, in order.
    reused
        Rows that were there already.
    workers
        How many the cluster had room for at the start.
    """

    receipts: tuple[PartReceipt, ...]
    reused: int
    workers: int

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(receipt.rows for receipt in self.receipts)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Path and reason of each image that could not be read, in the order of the list."""
        return [one for receipt in self.receipts for one in receipt.skipped]


def run(
    work: Callable[..., PartReceipt],
    shared: Any,
    plan: WorkPlan,
    output: Output,
    slots: Slots,
    progress: Progress | None = None,
) -> Outcome:
    """Do all missing parts on the connected cluster.

    Parameters
    ----------
    work
        Called on a worker as `work(shared, output, part, number)`; writes the part and returns its receipt.
    shared
        What all parts need; sent to each node once.
    plan, output, slots
        What to do, where to write, what a worker asks for.
    progress
        Called as `progress(done, total)`, in parts.

    Raises
    ------
    ClusterError
        A part failed. What is finished is kept; the next run does the rest.
    """
    import ray

    workers = slots.check()
    done = output.prepare(plan)
    reused = sum(receipt.rows for receipt in done.values())
    everywhere = ray.put(shared)
    jobs = ((work, everywhere, output, part, n) for n, part in enumerate(plan.parts) if n not in done)
    if progress is not None:
        progress(len(done), len(plan.parts))
    for (*_, number), result in chain.from_iterable(run_tasks(_guarded, jobs, slots)):
        if isinstance(result, Exception):
            raise ClusterError(f"{result} (What is finished is kept: the same command goes on from there.)") from None
        done[number] = result
        if progress is not None:
            progress(len(done), len(plan.parts))
    return Outcome(tuple(done[number] for number in range(len(plan.parts))), reused, workers)


def _guarded(work: Callable[..., PartReceipt], shared: Any, output: Output, part: WorkPart, number: int) -> PartReceipt:
    """On a worker: errors that can be sent, with the number of the part."""
    try:
        return work(shared, output, part, number)
    except Exception as error:
        said = str(error) if isinstance(error, BriefError | OSError | ImportError) else repr(error)
        raise ClusterError(f"part {number}: {said}") from None
