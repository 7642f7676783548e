"""Tip-Adapter: a cache of the examples beside the text classifier, nothing trained; and the base of its versions.

    logits(f) = s·f·t_k + α Σ_{i: y_i = k} exp(-β (1 - f·key_i)),   s = 100, f and t_k unit, one key per example

The model is written once for numpy and for torch, where it can be differentiated. In the search for α and β the margin
over each other class is linear in α, for one image and one β, so the image is right in an interval of α. One pass over
the classes finds the interval and thus answers for all α at once.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.parameters import AUTO, number, pair, with_parameters
from .._core.task import Task
from .._core.threads import rows_per_chunk
from .zero_shot import TextBased

GRID_START = 0.1
"""Where the grids of α and of β begin."""
MOST = 70.0
"""Largest exponent of a score in a file: sums of exp(70) are finite in single precision."""

Numbers = np.ndarray[Any, Any]


def cache_scores(cosines: Array, values: Array, beta: float, n_classes: int) -> Array:
    """Σ over the keys of each class of exp(-β(1 - cosine)), (n, K), from the cosines of keys with images, (N, n)."""
    xp = backend.namespace(cosines)
    return backend.sum_by_class(xp.exp(-beta * (1 - cosines)), values, n_classes).T


def cache_logits(F: Array, names: Array, keys: Array, values: Array, alpha: float, beta: float) -> Array:
    """Logits of unit images `F`, (n, K).

    Parameters
    ----------
    F : (n, D)
    names : (K, D)
        Class directions times the logit scale.
    keys : (N, D)
    values : (N,)
        Class of each key.
    alpha, beta
        Weight and sharpness of the cache.
    """
    return F @ names.T + alpha * cache_scores(keys @ F.T, values, beta, names.shape[0])


def blockwise(logits: Callable[[Array], Array], F: Array, width: int) -> Array:
    """Logits of all images, computed for as many at once as tables of this width may have rows."""
    height = rows_per_chunk(width)
    parts = [logits(F[low : low + height, :]) for low in range(0, F.shape[0], height)]
    return backend.namespace(F).concat(parts)


def check_keys(keys: Array, beta: float) -> None:
    """Raise if scores exp(-β (1 - cosine)) with keys from a file may not be numbers."""
    longest = float(backend.squared_lengths(keys).max()) ** 0.5
    if abs(beta) * (longest + (beta < 0) - 0.999) > MOST:
        raise ValueError("keys_ and beta_ are so large that scores would not be numbers")


def grid(start: float, top: float, count: int) -> Numbers:
    """`count` values in equal steps from `start`; `top` would be the next one. This is Tip-Adapter's grid."""
    return start + np.arange(count) * (top - start) / count


def count_hits(
    names_logits: Array, cosines: Array, values: Array, y: Array, alphas: Numbers, betas: Numbers
) -> Numbers:
    """Number of images that are right at each pair, (betas, alphas).

    Parameters
    ----------
    names_logits : (n, K)
        The text's part of the logits.
    cosines : (N, n)
        Cosine of every key with every image; -inf hides a key from an image.
    values : (N,)
        Class of each key.
    y : (n,)
        Class of each image.
    alphas : increasing
    betas
    """
    n_classes, n = names_logits.shape[1], y.shape[0]
    hits = np.zeros((len(betas), len(alphas)), dtype=np.int64)
    y = backend.to_numpy(y)
    height = rows_per_chunk(max(n_classes, values.shape[0]))
    for low in range(0, n, height):
        rows = slice(low, min(low + height, n))
        own = y[rows]
        everyone = np.arange(len(own))
        text = backend.to_numpy(names_logits[rows, :]).astype(np.float64)
        constant = text[everyone, own][:, None] - text
        # Of equal logits the first class wins: a class before the image's own must be beaten, not only equalled.
        must_beat = np.arange(n_classes) < own[:, None]
        constant[everyone, own] = np.inf
        block = cosines[:, rows]
        for i, beta in enumerate(betas):
            cache = backend.to_numpy(cache_scores(block, values, float(beta), n_classes)).astype(np.float64)
            slope = cache[everyone, own][:, None] - cache
            first, stop = _right_between(constant, slope, must_beat, alphas)
            edges = np.bincount(first, minlength=len(alphas) + 1) - np.bincount(stop, minlength=len(alphas) + 1)
            hits[i] += np.cumsum(edges)[: len(alphas)]
    return hits


def best_of(hits: Numbers, alphas: Numbers, betas: Numbers, n: int) -> tuple[float, float, float]:
    """α, β and accuracy of the first pair with the most hits: what a double loop, β outside, finds with a strict >."""
    i, j = np.unravel_index(int(np.argmax(hits)), hits.shape)
    return float(alphas[j]), float(betas[i]), float(hits[i, j]) / n


def _right_between(constant: Numbers, slope: Numbers, must_beat: Numbers, alphas: Numbers) -> tuple[Numbers, Numbers]:
    """First index of `alphas` at which each image is right, and the first after that at which it no longer is.

    An image is right where constant + α·slope is positive for every class, or zero for a class that comes later.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -constant / slope
    rising, falling = slope > 0, slope < 0
    never = (slope == 0) & np.where(must_beat, constant <= 0, constant < 0)
    # All bounds are strict. A bound that may be reached is moved by the last bit.
    above = np.where(must_beat, crossing, np.nextafter(crossing, -np.inf))
    below = np.where(must_beat, crossing, np.nextafter(crossing, np.inf))
    low = np.where(rising, above, -np.inf).max(axis=1)
    high = np.where(falling, below, np.inf).min(axis=1)
    high[never.any(axis=1)] = -np.inf
    first = np.searchsorted(alphas, low, side="right")
    stop = np.searchsorted(alphas, high, side="left")
    return first, np.maximum(first, stop)


@with_parameters
class CacheClassifier(TextBased):
    """A classifier with a cache of its examples. α is the weight of the cache, β its sharpness."""

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "keys_": "ND", "values_": "N"}
    index_arrays = ("values_",)
    fitted_scalars: ClassVar[dict[str, str]] = {"alpha_": "factor", "beta_": "factor"}
    trained_arrays: ClassVar[tuple[str, ...]] = ()

    cache_weight: Annotated[float, number(0)] = 1.0
    beta: Annotated[float, number(0)] = 1.0

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; `cache_weight` was `alpha`."""
        known = {name: value for name, value in given.items() if name != "alpha"}
        return {**known, "cache_weight": given["alpha"]} if "alpha" in given else known

    def _fill_cache(self, task: Task) -> None:
        """Keep the unit examples as keys, the mean of an image's views where it has several."""
        self._set_text(task)
        self.keys_ = backend.copy(backend.unit_rows(task.X))
        self.values_ = backend.copy(task.y)
        self.alpha_, self.beta_ = (
            1.0 if isinstance(value, str) else float(value) for value in (self.cache_weight, self.beta)
        )

    def _search(self, X: Array, y: Array, alphas: Any, betas: Any, *, leave_one_out: bool = False) -> None:
        """Set α and β to the best pair for images `X`. With `leave_one_out` they are the examples, without own keys."""
        F = backend.unit_rows(X)
        cosines = self.keys_ @ F.T
        if leave_one_out:
            diagonal = backend.arange(cosines, cosines.shape[0])
            cosines[diagonal, diagonal] = -backend.namespace(cosines).inf
        hits = count_hits(F @ self.coef_.T, cosines, self.values_, y, alphas, betas)
        self.alpha_, self.beta_, right = best_of(hits, alphas, betas, y.shape[0])
        data = "the support, each image left out" if leave_one_out else "validation data"
        self.history_.note(
            f"searched {hits.size} pairs on {data}: α={self.alpha_:g}, β={self.beta_:g}, {right:.1%} right"
        )
        searched = [name for name, values in (("cache weight", alphas), ("beta", betas)) if len(values) > 1]
        decided = "leave-one-out" if leave_one_out else "validation"
        self.chosen_ = {**(self.chosen_ or {}), **dict.fromkeys(searched, decided)}

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: Any) -> None:
        super()._restore(arrays, scalars, classes)
        check_keys(self.keys_, self.beta_)

    def _logits(self, X: Array) -> Array:
        names, keys, values = (backend.like(part, X) for part in (self.coef_, self.keys_, self.values_))
        return blockwise(
            lambda F: cache_logits(F, names, keys, values, self.alpha_, self.beta_),
            backend.unit_rows(backend.cast(X, names.dtype)),
            max(names.shape[0], keys.shape[0]),
        )


@with_parameters
class TipAdapter(CacheClassifier):
    """Training-free: logits 100·f·t_k + α Σ_{i: y_i = k} exp(-β(1 - f·f_i)).

    Without `text`, the mean image of each class stands in for its name.

    Parameters
    ----------
    cache_weight, beta : "auto" or float
        α and β, weight and sharpness of the cache. "auto" is chosen on a grid: on the validation data or, without them,
        on the support with each image's own key left out. If some class has a single example, there is nothing to leave
        out, and it is 1.
    grid_top : (float, float)
        Where the grids of α and of β end; they begin at 0.1.
    grid_steps : (int, int)
        Number of values of α and of β.
    logit_scale : float
        Factor of the cosines with the text.

    Attributes
    ----------
    keys_ : (N, D) array
        The unit examples; views of one image are averaged first.
    values_ : (N,) array
        Their classes, as indices into `classes_`.
    alpha_, beta_ : float
    coef_ : (K, D) array
        logit_scale · t_k.

    Examples
    --------
    >>> from lpplusplus import TipAdapter
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = TipAdapter().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]])
    array(['cat'], dtype='<U3')
    """

    cache_weight: Annotated[str | float, AUTO, number(0)] = 1.0  # type: ignore[assignment]
    beta: Annotated[str | float, AUTO, number(0)] = 1.0  # type: ignore[assignment]
    grid_top: Annotated[tuple[float, float], pair((GRID_START, GRID_START), whole=False)] = (50.0, 50.0)
    grid_steps: Annotated[tuple[int, int], pair((1, 1))] = (200, 200)

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; `search=True` was both "auto"."""
        known = {name: value for name, value in super().translated(given).items() if name != "search"}
        return {**known, "cache_weight": "auto", "beta": "auto"} if given.get("search") else known

    def _fit_task(self, task: Task) -> None:
        self._fill_cache(task)
        self.chosen_ = {}
        given = (self.cache_weight, self.beta)
        if not any(isinstance(value, str) for value in given):
            return
        alphas, betas = (
            grid(GRID_START, top, steps) if isinstance(value, str) else np.array([value])
            for value, top, steps in zip(given, self.grid_top, self.grid_steps, strict=True)
        )
        if task.X_val is not None:
            self._search(task.X_val, task.y_val, alphas, betas)
        elif task.fewest_shots >= 2:
            self._search(task.X, task.y, alphas, betas, leave_one_out=True)
        else:
            self.history_.note(
                f"no validation data and a class with a single example: α={self.alpha_:g} and β={self.beta_:g}"
            )
