"""The base of Tip-Adapter and its two trained versions."""

from typing import Annotated, Any, ClassVar

from ..._core import backend
from ..._core.backend import Array
from ..._core.parameters import number, with_parameters
from ..._core.task import Task
from ..._core.threads import rows_per_chunk
from .._text_based import TextBased
from .grid_search import best_of, count_hits
from .model import cache_logits

MOST = 70.0
"""Largest exponent of a score in a file: sums of exp(70) are finite in single precision."""


@with_parameters
class CacheClassifier(TextBased):
    """A classifier with a cache of its examples. α is the weight of the cache, β its sharpness."""

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "keys_": "ND", "values_": "N"}
    index_arrays = ("values_",)
    fitted_scalars: ClassVar[dict[str, str]] = {"alpha_": "factor", "beta_": "factor"}
    normalize = True

    alpha: Annotated[float, number(0)] = 1.0
    beta: Annotated[float, number(0)] = 1.0

    def _fill_cache(self, task: Task) -> None:
        """Keep the unit examples as keys, the mean of an image's views where it has several."""
        self._set_text(task)
        self.keys_ = backend.copy(backend.unit_rows(task.X))
        self.values_ = backend.copy(task.y)
        self.alpha_, self.beta_ = float(self.alpha), float(self.beta)

    def _search(self, X: Array, y: Array, alphas: Any, betas: Any, *, leave_one_out: bool = False) -> None:
        """Set α and β to the best pair for images `X`. With `leave_one_out` they are the examples, without own keys."""
        F = backend.unit_rows(X)
        cosines = self.keys_ @ F.T
        if leave_one_out:
            diagonal = backend.arange(cosines, cosines.shape[0])
            cosines[diagonal, diagonal] = -backend.namespace(cosines).inf
        hits = count_hits(F @ self.coef_.T, cosines, self.values_, y, alphas, betas)
        best = best_of(hits, alphas, betas, y.shape[0])
        data = "the support, each image left out" if leave_one_out else "validation data"
        self.history_.note(
            f"searched {hits.size} pairs on {data}: α={best.alpha:g}, β={best.beta:g}, {best.accuracy:.1%} right"
        )
        self.alpha_, self.beta_ = best.alpha, best.beta
        decided = "leave-one-out" if leave_one_out else "validation"
        self.chosen_ = {**(self.chosen_ or {}), "alpha": decided, "beta": decided}

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: Any) -> None:
        super()._restore(arrays, scalars, classes)
        longest = float(backend.squared_lengths(self.keys_).max()) ** 0.5
        if abs(self.beta_) * (longest + (self.beta_ < 0) - 0.999) > MOST:
            raise ValueError("keys_ and beta_ are so large that scores would not be numbers")

    def _logits(self, X: Array) -> Array:
        names, keys, values = (backend.like(part, X) for part in (self.coef_, self.keys_, self.values_))
        F = backend.unit_rows(backend.cast(X, names.dtype))
        height = rows_per_chunk(max(names.shape[0], keys.shape[0]))
        parts = [
            cache_logits(F[low : low + height, :], names, keys, values, self.alpha_, self.beta_)
            for low in range(0, F.shape[0], height)
        ]
        return backend.namespace(F).concat(parts)
