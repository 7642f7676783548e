"""Estimators compared from Python: the same draws for each, under the benchmark's protocol."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from .._core.base import FewShotClassifier
from .._core.model_file import method
from ..images.embeddings import Embeddings
from .cell import Cell, EmbeddedDataset, Row
from .datasets.splits import OverlapError, check_rows
from .draw_task import draw_task
from .draws import Draw, Validation
from .estimators import source_digest
from .report.statistics import mean_and_error
from .run_cell import run_cell, seeded

BenchTask: TypeAlias = tuple[EmbeddedDataset, Draw]
"""Embeddings, and which of them are support, validation and test images."""


def draw_tasks(
    X: Any,
    y: Any,
    *,
    text: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    shots: Sequence[int] = (1, 2, 4, 8, 16),
    draws: int = 10,
    validation: Validation = "none",
    name: str = "arrays",
    duplicates: Literal["refuse", "allow"] = "refuse",
) -> Iterator[BenchTask]:
    """Draw tasks from arrays.

    Parameters
    ----------
    X, y
        (n, D) or (n, V, D) embeddings and their labels, to draw supports and validation images from.
    text
        As in `fit`, in the order of the sorted labels.
    X_test, y_test
        Test images; by default all images that a task does not use otherwise.
    shots, draws
        Images per class, and number of draws for each (seeds 1, 2, …).
    validation
        Validation images per class: "none", "paper" (as many as shots) or "coop" (at most 4).
    name
        Name of the data; another name gives other draws.
    duplicates
        Whether equal embeddings, of which support and test could get one each, are refused, as in `lpp bench`.
    """
    y = np.asarray(y)
    classes, labels = np.unique(y, return_inverse=True)
    words = tuple(str(label) for label in classes.tolist())

    def part(rows: Any, labels: NDArray[Any]) -> Embeddings:
        stack = np.asarray(rows)
        stack = stack[:, None] if stack.ndim == 2 else stack
        return Embeddings(stack, labels, classes=words, names=words, text=text, positions=np.arange(len(stack)))

    parts = {"train": part(X, labels)}
    if X_test is not None:
        positions = np.minimum(np.searchsorted(classes, y_test), len(classes) - 1)
        if not np.array_equal(classes[positions], np.asarray(y_test)):
            raise ValueError("y_test has a label that y does not have.")
        parts["test"] = part(X_test, positions)
    if duplicates == "refuse":
        try:
            check_rows({split: part.X for split, part in parts.items()}, name, shared="train")
        except OverlapError as error:
            raise OverlapError(f'{error} Or give duplicates="allow".') from error
    data = EmbeddedDataset(parts)
    for count in shots:
        for seed in range(1, draws + 1):
            n_test = None if X_test is None else len(parts["test"])
            yield data, draw_task(name, labels, shots=count, seed=seed, n_test=n_test, pool=X_test is None,
                                  validation=validation, classes=len(words))  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. Printed, it is a table of mean test accuracy in % with its standard error over draws."""

    rows: list[Row]
    """One for each method and task, as in the results of `lpp bench`."""

    def accuracies(self, method: str, shots: int) -> dict[tuple[str, int], float]:
        """Test accuracy in % of each data set and seed."""
        chosen = (row for row in self.rows if (row.cell.method, row.cell.shots) == (method, shots))
        return {(row.cell.dataset, row.cell.seed): 100 * row.accuracy for row in chosen if row.accuracy is not None}

    def difference(self, one: str, other: str, shots: int) -> tuple[float, float]:
        """Mean of one method's accuracy minus the other's on the same tasks, and the standard error of that mean."""
        mine, theirs = self.accuracies(one, shots), self.accuracies(other, shots)
        return mean_and_error([mine[draw] - theirs[draw] for draw in mine if draw in theirs])

    def __str__(self) -> str:
        shots = sorted({row.cell.shots for row in self.rows})
        methods = list(dict.fromkeys(row.cell.method for row in self.rows))
        width = max(map(len, ["shots", *methods]))
        lines = [f"{'shots':<{width}} " + " ".join(f"{count:>12}" for count in shots)]
        for name in methods:
            cells = [mean_and_error([*self.accuracies(name, count).values()]) for count in shots]
            lines.append(f"{name:<{width}} " + " ".join(f"{mean:>5.1f} ± {error:<4.1f}" for mean, error in cells))
        return "\n".join(lines)


def compare(
    methods: Mapping[str, BaseEstimator], tasks: Iterable[BenchTask], *, validation: bool = True, n_jobs: int = 1
) -> Comparison:
    """Fit and test every method on every task.

    Parameters
    ----------
    methods
        Any classifiers, by their names in the table: `FewShotClassifier`s or scikit-learn's. They are cloned. Those
        with a `random_state` get the task's seed. One that is no `FewShotClassifier` gets the mean of an image's views;
        it gets `text`, `classes` and validation images only if its `fit` has parameters for them.
    tasks
        From `draw_tasks`, or pairs from `DatasetLoader.load`.
    validation
        Whether methods get the validation images that the tasks have.
    n_jobs
        Fits at once, in processes of one thread each.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from lpplusplus import LPPlusPlus
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X = rng.standard_normal((3, 8))[y] + 0.5 * rng.standard_normal((60, 8))
    >>> found = compare({"LP++": LPPlusPlus(), "1-NN": KNeighborsClassifier(1)}, draw_tasks(X, y, shots=[2], draws=3))
    >>> len(found.rows), all(row.accuracy > 0.5 for row in found.rows)
    (6, True)
    """
    tasks = list(tasks)
    if not tasks:
        raise ValueError(
            "there are no tasks: a generator gives them once only, so call draw_tasks again, or make a list of it."
        )
    jobs = [
        delayed(run_cell)(_cell(name, model, data, draw, validation), data, draw, seeded(clone(model), draw.seed, {}))
        for data, draw in tasks
        for name, model in methods.items()
    ]
    with parallel_config(backend="loky", inner_max_num_threads=1) if n_jobs != 1 else parallel_config():
        rows = list(Parallel(n_jobs=n_jobs)(jobs))
    for name in dict.fromkeys(row.cell.method for row in rows if row.status != "ok"):
        failed = [row for row in rows if row.cell.method == name and row.status != "ok"]
        reason = failed[0].traceback.strip().splitlines()[-1]
        warnings.warn(f"{name} failed on {len(failed)} tasks: {reason}", stacklevel=2)
    return Comparison(rows)


def _cell(name: str, model: BaseEstimator, data: EmbeddedDataset, draw: Draw, validation: bool) -> Cell:
    kind = type(model)
    ours = isinstance(model, FewShotClassifier) and method(kind.__name__) is kind
    estimator = kind.__name__ if ours else f"{kind.__module__}:{kind.__qualname__}@{source_digest(kind)}"
    parameters = {key: _as_json(value) for key, value in model.get_params(deep=False).items()}
    protocol = {"validation": draw.validation_policy, "shortage": draw.shortage_policy, "generator": draw.generator}
    has = validation and draw.validation_source != "none"
    return Cell(draw.dataset, "", name, draw.shots, draw.seed, estimator, parameters, has, protocol)


def _as_json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)
