"""How fast a fit is, as ratios against named alternatives measured in the same run.

    python -m benchmarks.speed              # everything but the largest task, about 25 minutes on two cores
    python -m benchmarks.speed --only 100x1 --json
    python -m benchmarks.speed --only 20x20 50x16 19x4     # usual sizes: what the page and `extend` wait for
    python -m benchmarks.speed --only 1000x16 --steps 30   # the reference makes 30 of its 300 steps, the rest is scaled
    python -m benchmarks.speed --large      # 21 000 classes, once

The reference is the released recipe as a plain torch loop (`benchmarks.reference`): 300 steps, validation scored at
each. Each contender lives in a process of its own, since torch's and numpy's threads would otherwise wait for work on
each other's cores, and the contenders take turns; medians are reported. Times are whole fits: checks, step sizes,
selection.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import gemm_rate, peak_extra_memory
from benchmarks.synthetic import Task, clip_like
from lpplusplus._core.threads import single_threaded_blas

STEPS = 300
CYCLE = 11
"""Updates of block-MM after which they repeat: ten on W, one on α."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    task: str
    contender: str
    against: str
    seconds: float
    reference_seconds: float
    ratio: float
    goal: float | None
    accuracy: float
    reference_accuracy: float
    extra_mib: float | None
    gemm_share: float | None
    """Part of the machine's measured rate of matrix products that the fit reaches, where its operations are known."""
    products: float
    """How many forward products, of all images with all classes, this machine makes in that time: the limit of any fit
    is as many as it needs."""


@dataclass(frozen=True)
class Outcome:
    """What a contender did in one turn."""

    seconds: float
    accuracy: float
    updates: int


# Contenders ---------------------------------------------------------------------------------------------------------


def reference(task: Task, steps: int = STEPS) -> Outcome:
    """The released recipe in torch; fewer steps are scaled to 300."""
    from benchmarks.reference import released_torch

    result = released_torch(task, steps=steps)
    return Outcome(result.seconds_setup + result.seconds * STEPS / steps, result.accuracy_on_test, steps)


def probe(task: Task, *, validation: bool = False, tensors: bool = False, **parameters: Any) -> Outcome:
    """An `LPPlusPlus` with these parameters, on numpy arrays or on the reference's own kind of array."""
    from lpplusplus import LPPlusPlus

    if tensors:
        task = as_tensors(task)
    extra = {"X_val": task.X_val, "y_val": task.y_val} if validation else {}
    start = time.perf_counter()
    fitted = LPPlusPlus(**parameters).fit(task.X, task.y, text=task.text, **extra)
    seconds = time.perf_counter() - start
    updates = len(fitted.history_.loss) - 1
    # A fifth of the classes of the largest task is enough to tell that it works.
    return Outcome(seconds, float(fitted.score(task.X_test[:10_000], task.y_test[:10_000])), updates)


def extend(task: Task) -> Outcome:
    """One class more for a fitted probe; only that is timed."""
    from lpplusplus import LPPlusPlus

    new = task.y == task.y.max()
    fitted = LPPlusPlus().fit(task.X[~new], task.y[~new], text=task.text[:-1])
    start = time.perf_counter()
    fitted.extend(task.X[new], task.y[new], text=task.text[-1:])
    return Outcome(time.perf_counter() - start, float(fitted.score(task.X_test, task.y_test)), 0)


def exact(task: Task, cycles: int, tensors: bool = False) -> Outcome:
    """Block-MM with validation, from so many cycles after the first scaled to 300 updates; its accuracy is not theirs.

    Whole cycles, since a step on α costs half of one on W; after the first, which multiplies images and text once for
    all.
    """
    few, more = (probe(task, **BLOCK_MM, tensors=tensors, updates=count * CYCLE) for count in (1, 1 + cycles))
    per_update = (more.seconds - few.seconds) / (cycles * CYCLE)
    return Outcome(few.seconds + (STEPS - CYCLE) * per_update, float("nan"), STEPS)


def logistic_regression(task: Task) -> Outcome:
    """scikit-learn's probe; with its default tolerance it would stop at once on unit embeddings."""
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    fitted = LogisticRegression(C=100, tol=1e-7, max_iter=1000).fit(task.X, task.y)
    return Outcome(time.perf_counter() - start, float(fitted.score(task.X_test, task.y_test)), int(fitted.n_iter_[0]))


def pair_of_tasks(task: Task, n_jobs: int | None) -> Outcome:
    """Two tasks: with `fit_many` on one or two cores, or (None) fitted one after the other with all threads each."""
    from lpplusplus import LPPlusPlus, fit_many

    X, y = np.concatenate([task.X, task.X_val]), np.concatenate([task.y, task.y_val])
    supports = [np.arange(len(task.y)), np.arange(len(task.y), len(y))]
    estimator = LPPlusPlus(selection="last")
    start = time.perf_counter()
    if n_jobs is None:
        fitted = [LPPlusPlus(selection="last").fit(X[rows], y[rows], text=task.text) for rows in supports]
    else:
        fitted = fit_many(X, y, supports, text=task.text, estimator=estimator, n_jobs=n_jobs)
    return Outcome(time.perf_counter() - start, float(fitted[0].score(task.X_test, task.y_test)), 0)


def as_tensors(task: Task) -> Task:
    """The task as torch tensors that share its memory."""
    import torch

    return Task(*(torch.from_numpy(getattr(task, field.name)) for field in fields(Task)))  # type: ignore[arg-type]


BLOCK_MM = {"recipe": "paper", "validation": True}
LAST = {"selection": "last"}


@dataclass(frozen=True)
class Case:
    """A task with a reference and what is measured against it."""

    name: str
    size: tuple[int, int, int]
    """Classes, shots, dimensions."""
    against: str
    reference: tuple[Callable[..., Outcome], dict[str, Any]]
    contenders: dict[str, tuple[Callable[..., Outcome], dict[str, Any], float | None]]
    """Name: function, arguments, ratio to reach."""
    turns: int
    repeats: int = 1
    """Fits of each contender a turn: several where only the reference takes long enough for noise to even out."""


CASES = [
    Case(
        "100x1",
        (100, 1, 1024),
        "released, torch",
        (reference, {}),
        {"block-mm": (probe, BLOCK_MM, 12.0), "selection=last": (probe, LAST, 50.0)},
        15,
    ),
    Case(
        "100x16",
        (100, 16, 1024),
        "released, torch",
        (reference, {}),
        {"block-mm": (probe, BLOCK_MM, None), "selection=last": (probe, LAST, None), "auto": (probe, {}, None)},
        3,
    ),
    *(
        Case(f"{k}x{s}", (k, s, dim), "released, torch", (reference, {}), {"auto": (probe, {}, None), **more}, 5, 3)
        for k, s, dim, more in (
            (20, 20, 1282, {}),
            (50, 16, 512, {"extend": (extend, {}, None)}),
            (19, 4, 512, {}),
        )
    ),
    Case(
        "100x16 sklearn",
        (100, 16, 1024),
        "LogisticRegression",
        (logistic_regression, {}),
        {"selection=last": (probe, LAST, 20.0)},
        3,
    ),
    Case(
        "1000x1 pair",
        (1000, 1, 1024),
        "fit_many(n_jobs=1)",
        (pair_of_tasks, {"n_jobs": 1}),
        {
            "fit_many(n_jobs=2)": (pair_of_tasks, {"n_jobs": 2}, 1.5),
            "two fits": (pair_of_tasks, {"n_jobs": None}, None),
        },
        15,
    ),
    Case(
        "100x16 pair",
        (100, 16, 1024),
        "fit_many(n_jobs=1)",
        (pair_of_tasks, {"n_jobs": 1}),
        {
            "fit_many(n_jobs=2)": (pair_of_tasks, {"n_jobs": 2}, None),
            "two fits": (pair_of_tasks, {"n_jobs": None}, None),
        },
        15,
    ),
    Case(
        "1000x1",
        (1000, 1, 1024),
        "released, torch",
        (reference, {}),
        {
            "block-mm": (probe, BLOCK_MM, 3.8),
            "block-mm, tensors": (probe, {**BLOCK_MM, "tensors": True}, 3.8),
            "selection=last": (probe, LAST, None),
        },
        5,
    ),
    Case(
        "1000x16 exact",
        (1000, 16, 1024),
        "released, torch",
        (reference, {"steps": 30}),
        {
            "block-mm": (exact, {"cycles": 3}, 3.0),
            "block-mm, tensors": (exact, {"cycles": 3, "tensors": True}, 3.0),
        },
        4,
    ),
    Case(
        "1000x16",
        (1000, 16, 1024),
        "released, torch",
        (reference, {}),
        {"selection=last": (probe, LAST, 90.0), "auto": (probe, {}, 40.0)},
        1,
        repeats=3,
    ),
]


# Measuring ----------------------------------------------------------------------------------------------------------


def _serve(
    connection: Any, size: tuple[int, int, int], function: Callable[..., Outcome], arguments: dict[str, Any]
) -> None:
    """A contender's process: make the task, warm up, then fit when told to."""
    classes, shots, dim = size
    task = clip_like(classes, shots, dim=dim)
    small = clip_like(min(classes, 20), shots, dim=dim)
    function(small, **arguments)
    connection.send("ready")
    while (order := connection.recv()) != "stop":
        if order == "memory":
            outcome, mib = peak_extra_memory(lambda: function(task, **arguments))
            connection.send((outcome, mib))
        else:
            connection.send((function(task, **arguments), None))


class Contender:
    """A process that runs one function when asked."""

    def __init__(self, size: tuple[int, int, int], function: Callable[..., Outcome], arguments: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, size, function, arguments), daemon=True)
        self._process.start()
        self._pipe.recv()
        self.outcomes: list[Outcome] = []
        self.mib: float | None = None

    def turn(self, order: str = "run") -> None:
        """One fit."""
        self._pipe.send(order)
        outcome, mib = self._pipe.recv()
        self.outcomes.append(outcome)
        self.mib = mib if mib is not None else self.mib

    def stop(self) -> None:
        """End the process."""
        self._pipe.send("stop")
        self._process.join()

    @property
    def seconds(self) -> float:
        """Median time of a fit."""
        return median(outcome.seconds for outcome in self.outcomes)


def run_case(case: Case, rate: float) -> list[Row]:
    """Measure one case; the contenders take turns."""
    base = Contender(case.size, *case.reference)
    others = {name: Contender(case.size, f, arguments) for name, (f, arguments, _) in case.contenders.items()}
    for _ in range(case.turns):
        base.turn()
        for contender in others.values():
            for _ in range(case.repeats):
                contender.turn()
    rows = []
    for name, contender in others.items():
        if case.size[0] >= 1000:
            contender.turn("memory")
            contender.outcomes.pop()
        rows.append(
            Row(
                task=case.name,
                contender=name,
                against=case.against,
                seconds=contender.seconds,
                reference_seconds=base.seconds,
                ratio=base.seconds / contender.seconds,
                goal=case.contenders[name][2],
                accuracy=contender.outcomes[-1].accuracy,
                reference_accuracy=base.outcomes[-1].accuracy,
                extra_mib=contender.mib,
                gemm_share=_share(case, name, contender, rate),
                products=_products(case.size, contender.seconds, rate),
            )
        )
    for contender in (base, *others.values()):
        contender.stop()
    return rows


def _share(case: Case, name: str, contender: Contender, rate: float) -> float | None:
    """Operations of the products that the fit cannot do without, over what the machine could have done in its time."""
    if case.contenders[name][0] not in (probe, exact) or name == "auto":
        return None
    k, s, d = case.size
    n = k * s
    per_update = 2 * n * k * min(2 * d, n)
    return per_update * contender.outcomes[-1].updates / contender.seconds / (rate * 1e9)


def _products(size: tuple[int, int, int], seconds: float, rate: float) -> float:
    k, s, d = size
    return seconds * rate * 1e9 / (2 * k * s * d * k)


def side_by_side_rate(m: int, k: int, n: int) -> float:
    """GF/s of as many products at once as there are BLAS threads, one thread each: how a fit uses the cores."""
    rng = np.random.default_rng(0)
    with single_threaded_blas() as allowed, ThreadPoolExecutor(allowed) as pool:
        pairs = [
            (rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32))
            for _ in range(allowed)
        ]
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            list(pool.map(lambda pair: pair[0] @ pair[1], pairs))
            seconds.append(time.perf_counter() - start)
    return allowed * 2 * m * k * n / median(seconds) / 1e9


def large(name: str, arguments: dict[str, Any], minutes: int, rate: float) -> Row:
    """21 000 classes with four shots each, D = 512."""
    contender = Contender((21_000, 4, 512), probe, arguments)
    contender.turn("memory")
    contender.stop()
    outcome, limit = contender.outcomes[0], 60.0 * minutes
    products = _products((21_000, 4, 512), outcome.seconds, rate)
    return Row("21000x4", name, f"{minutes} minutes", outcome.seconds, limit, limit / outcome.seconds, 1.0,
               outcome.accuracy, float("nan"), contender.mib, None, products)  # fmt: skip


def table(rows: list[Row], rate: float) -> str:
    """The rows for people."""
    head = f"{'task':15} {'contender':18} {'against':25} {'s':>9} {'ref. s':>9} {'ratio':>7} {'goal':>5} " \
           f"{'acc %':>6} {'ref. %':>6} {'MiB':>6} {'GEMM':>5} {'products':>8}"  # fmt: skip
    lines = [f"Products of 2000 x 1024 x 1000 in float32 on {os.cpu_count()} cores: {rate:.0f} GF/s", "", head]
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:g}"
        mib = "" if row.extra_mib is None else f"{row.extra_mib:.0f}"
        share = "" if row.gemm_share is None else f"{100 * row.gemm_share:.0f}%"
        lines.append(
            f"{row.task:15} {row.contender:18} {row.against:25} {row.seconds:9.4f} {row.reference_seconds:9.3f} "
            f"{row.ratio:7.1f} {goal:>5} {100 * row.accuracy:6.1f} {100 * row.reference_accuracy:6.1f} {mib:>6} "
            f"{share:>5} {row.products:8.0f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", default=None, help="names of tasks, such as 100x1")
    parser.add_argument("--steps", type=int, help="steps of the reference, scaled to 300")
    parser.add_argument("--large", action="store_true", help="the 21 000-class task instead of the others")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of a table")
    options = parser.parse_args(arguments)
    rate = max(gemm_rate(2000, 1024, 1000, "float32"), side_by_side_rate(2000, 1024, 1000))
    rows = []
    if options.large:
        rows += [large("selection=last", LAST, 15, rate), large("auto", {}, 10, rate)]
    else:
        for case in CASES:
            if options.only is None or case.name in options.only:
                if options.steps and case.reference[0] is reference:
                    case = replace(case, reference=(reference, {"steps": options.steps}))
                print(f"measuring {case.name} …", file=sys.stderr)
                rows += run_case(case, rate)
    if options.json:
        # JSON has no NaN, which an accuracy is where none was measured.
        records = [{k: None if v != v else v for k, v in asdict(row).items()} for row in rows]
        print(json.dumps(records, indent=1))
    else:
        print(table(rows, rate))


if __name__ == "__main__":
    main()
