"""Many tasks on one set of embeddings, side by side."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._core import backend
from .._core.backend import Array
from .._core.class_prompts import warn_of_order
from .._core.rows import unit_rows
from .._core.threads import single_threaded_blas
from .estimator import LPPlusPlus


def fit_many(
    X: Any,
    y: Any,
    supports: Iterable[Any],
    *,
    text: Any = None,
    classes: Any = None,
    validations: Iterable[Any] | None = None,
    estimator: LPPlusPlus | None = None,
    n_jobs: int | None = None,
) -> list[LPPlusPlus]:
    """Fit one probe for each of several supports drawn from the same embeddings.

    The data are checked, normalised and moved once. Tasks run in parallel with one BLAS thread each, which is faster
    than one task after the other with several threads. Each probe is the same as that of `fit` on one thread.

    Parameters
    ----------
    X : (n, D) array
        Embeddings to draw from.
    y : (n,) array-like
        Their labels.
    supports : iterable of integer index arrays
        Rows of each support.
    text, classes
        As in `LPPlusPlus.fit`, the same for all tasks; `classes` defaults to the sorted labels of all of `y`.
    validations : iterable of integer index arrays, optional
        Rows of each validation set, one for each support.
    estimator : LPPlusPlus, optional
        Its parameters are used; by default those of `LPPlusPlus()`.
    n_jobs : int, optional
        Tasks at once; by default (and with -1) the number of BLAS threads. Tasks on tensors run one after the other.

    Returns
    -------
    list of LPPlusPlus
        In the order of `supports`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((20, 4)), np.arange(20) % 2
    >>> probes = fit_many(X, y, [np.arange(8), np.arange(8, 16)])
    >>> [probe.score(X[16:], y[16:]) >= 0 for probe in probes]
    [True, True]
    """
    template = LPPlusPlus() if estimator is None else clone(estimator)
    template._check_parameters()
    checked = template._check_task(X, y, text=text, classes=classes)
    pool = checked.working()
    if pool.text is not None:
        warn_of_order(pool.X, pool.y, checked.text, pool.text, stacklevel=3)
    pool = replace(pool, X=unit_rows(pool.X) if template.normalize else pool.X)
    images = pool.X
    rows = [_rows(index, f"supports[{i}]", images) for i, index in enumerate(supports)]
    held: list[Array | None] = [None] * len(rows)
    if validations is not None:
        held = [_rows(index, f"validations[{i}]", images) for i, index in enumerate(validations)]
        if len(held) != len(rows):
            raise ValueError(f"{len(rows)} supports but {len(held)} validation sets: give one for each.")

    def fit_one(support: Array, validation: Array | None) -> LPPlusPlus:
        task = pool.rows(support)
        if validation is not None:
            left_out = pool.rows(validation)
            task = replace(task, X_val=left_out.X, y_val=left_out.y)
        probe: LPPlusPlus = clone(template)
        task = probe._weighed(task)
        probe._adopt(template)._fit_task(task)
        probe._look_around(task)
        return probe

    def fit_named(number: int) -> LPPlusPlus:
        try:
            return fit_one(rows[number], held[number])
        except ValueError as error:
            raise ValueError(f"supports[{number}]: {error}") from error

    if n_jobs == 0:
        raise ValueError("n_jobs=0: give a number of tasks to run at once, or -1 for as many as BLAS has threads.")
    numbers = range(len(rows))
    if backend.is_foreign(images):
        return [fit_named(number) for number in numbers]
    with single_threaded_blas() as allowed:
        workers = allowed if n_jobs is None else n_jobs if n_jobs > 0 else max(1, allowed + 1 + n_jobs)
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(fit_named, numbers))


def _rows(index: Any, name: str, images: Array) -> Array:
    """`index` as row numbers, on the device of `images`."""
    rows = backend.to_numpy(index) if backend.is_foreign(index) else np.asarray(index)
    n = images.shape[0]
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a flat, non-empty list of row numbers.")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"{name} names row {rows[(rows < 0) | (rows >= n)][0]}, but X has {n} rows.")
    return backend.like(rows.astype(np.int64), images)
