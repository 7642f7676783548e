"""Every method against one of them, task by task.

The difference of two methods varies less if both get the same images. So a difference is taken per task; the standard
error of the mean difference is std (ddof = 1) / √n over n tasks. A mean over shots is taken per seed first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .statistics import Score, in_order, in_shots, keys_of, plan_name
from .table import NOTHING, Column, Table, Value, duration, table_of


@dataclass(frozen=True)
class Difference:
    """The difference of one method from another over the tasks that both have, in points."""

    mean: float
    error: float | None
    """Standard error; None for a single task."""
    tasks: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.1f}"
        return f"{self.mean:+.1f}{error}".replace("-", "−")


def difference(one: Sequence[Score], other: Sequence[Score]) -> Difference | None:
    """The difference of the means over these scores (of several shots, say), by seed; None if no seed has all scores.

    >>> a = Score("birds", "rn50", "A", 1, seeds=(1, 2), missing=(), accuracies=(80.0, 70.0))
    >>> b = Score("birds", "rn50", "B", 1, seeds=(2, 1, 3), missing=(), accuracies=(71.0, 83.0, 50.0))
    >>> print(difference([a], [b]))
    −2.0 ± 1.0
    """
    if len(one) != len(other) or not one:
        return None
    known = [dict(zip(score.seeds, score.accuracies, strict=True)) for score in (*one, *other)]
    seeds = [seed for seed in known[0] if all(seed in accuracies for accuracies in known)]
    if not seeds:
        return None
    signs = [1] * len(one) + [-1] * len(other)
    each = [sum(s * k[seed] for s, k in zip(signs, known, strict=True)) / len(one) for seed in seeds]
    error = float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else None
    return Difference(float(np.mean(each)), error, len(each))


def paired_tables(scores: Sequence[Score], against: str) -> list[Table]:
    """A table of differences over all data sets and encoders, and one for each of them."""
    scores = _named_as_planned(scores)
    if against not in keys_of(scores, "method"):
        raise ValueError(f"there are no results of {against!r}; methods with results: "
                         f"{', '.join(in_order(keys_of(scores, 'method')))}.")  # fmt: skip
    tasks = list(dict.fromkeys((one.dataset, one.encoder) for one in scores))
    tables = [_overview(scores, tasks, against)] if len(tasks) > 1 else []
    tables += [_task_table(scores, task, against) for task in tasks]
    return [table for table in tables if table is not None]


def _named_as_planned(scores: Sequence[Score]) -> list[Score]:
    """The scores under their names in the plan: variants that differ only between data sets need no number here."""
    variants: dict[tuple[str, str, str], set[str]] = {}
    for one in scores:
        if one.seeds:
            variants.setdefault((one.dataset, one.encoder, plan_name(one.method)), set()).add(one.method)
    alone = {task: len(names) == 1 for task, names in variants.items()}
    return [
        replace(one, method=plan_name(one.method))
        if alone.get((one.dataset, one.encoder, plan_name(one.method)))
        else one
        for one in scores
        if one.seeds
    ]


def _by_shots(scores: Sequence[Score], task: tuple[str, str], method: str) -> dict[int, Score]:
    return {one.shots: one for one in scores if (one.dataset, one.encoder, one.method) == (*task, method)}


def _overview(scores: Sequence[Score], tasks: Sequence[tuple[str, str]], against: str) -> Table | None:
    """Mean over shots: a row for each method, a column for each data set and encoder, and their mean."""
    lines = []
    for method in in_order(keys_of(scores, "method")):
        line: dict[Column, Value] = {Column("Method"): method}
        found = []
        for task in tasks:
            ours, theirs = (_by_shots(scores, task, name) for name in (method, against))
            common = sorted(ours.keys() & theirs.keys())
            gap = difference([ours[n] for n in common], [theirs[n] for n in common]) if ours else None
            line[Column(", ".join(task))] = None if gap is None else "" if method == against else str(gap)
            found.append(gap)
        if all(gap is not None for gap in found) and method != against:
            # The tasks differ: their errors are independent.
            gaps = [gap for gap in found if gap is not None]
            errors = [gap.error for gap in gaps if gap.error is not None]
            error = float(np.sqrt(np.sum(np.square(errors)))) / len(gaps) if len(errors) == len(gaps) else None
            line[Column("all")] = str(Difference(float(np.mean([gap.mean for gap in gaps])), error, 0))
        lines.append(line)
    shots = sorted({one.shots for one in scores})
    title = f"Difference from {against}, mean over {', '.join(map(str, shots))} shots"
    return table_of("paired", title, lines, [READING])


READING = (
    "Points of accuracy, paired by task, ± the standard error of the difference. Fit: median seconds at most shots."
)
"""How to read these tables."""


def _task_table(scores: Sequence[Score], task: tuple[str, str], against: str) -> Table | None:
    """A row for each method: at each number of shots its accuracy, and its difference."""
    reference = _by_shots(scores, task, against)
    shots = sorted({one.shots for one in scores if (one.dataset, one.encoder) == task})
    lines, fewer = [], dict[str, list[str]]()
    for method in in_order(keys_of(scores, "method")):
        ours = _by_shots(scores, task, method)
        line: dict[Column, Value] = {Column("Method"): method}
        for n in shots:
            gap = difference([ours[n]], [reference[n]]) if n in ours and n in reference else None
            beside = f" ({gap})" if gap is not None and method != against else ""
            line[Column(in_shots(n))] = f"{ours[n].mean:.1f}{beside}" if n in ours else None
            if gap is not None and gap.tasks < reference[n].tasks:
                fewer.setdefault(method, []).append(f"{gap.tasks} at {in_shots(n)}")
        last = ours[max(ours)].fit_seconds if ours else None
        line[Column("fit")] = None if not ours else NOTHING if last is None else duration(last)
        lines.append(line)
    tasks = max((one.tasks for one in reference.values()), default=0)
    notes = [f"Mean of {tasks} tasks."] + [f"{method}: tasks {', '.join(at)}." for method, at in fewer.items()]
    title = f"{', '.join(task)}: accuracy (difference from {against})"
    return table_of("paired " + " ".join(task), title, lines, notes)
