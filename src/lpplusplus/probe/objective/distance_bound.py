"""How far the weights have travelled, and so how much logits can have changed."""

import math

from ..._core import backend
from ..._core.backend import Array
from ..._core.rows import Rows, everywhere, parts
from ..._core.softmax import HARMLESS
from ..._core.threads import lazy
from .point import Point
from .support import Support


class DistanceBound:
    """Length of each class's path, and a bound on the support's logits that grows with it.

    `reading` has K + 1 entries: the distance travelled by each class's weights and intercept, and last the sum over
    steps of the largest distance. Over any part of the path, no class moves further than its entry grows.
    """

    def __init__(self, support: Support) -> None:
        self.reading = backend.zeros(support.F, (support.n_classes + 1,), dtype=backend.wide_dtype(support.F))
        self._support = support
        self._bounded: tuple[Point, float, float] | None = None  # A point, the last entry there, a bound on its logits.

    def advance(self, step: Array) -> None:
        """Add a step's length for each class, (K,)."""
        lengths = backend.namespace(step).abs(backend.cast(step, self.reading.dtype))
        self.reading[:-1] += lengths
        self.reading[-1] += lengths.max()

    def note_bound(self, point: Point, bound: float) -> None:
        """No logit of the support exceeds `bound` in absolute value at `point`."""
        self._bounded = point, float(self.reading[-1]), bound

    def forget_bound(self) -> None:
        """Drop the bound: it may not hold at the new point."""
        self._bounded = None

    def logit_bound(self, point: Point) -> float | None:
        """A bound on the support's logits, so that `softmax` need not look for the largest; None if not known."""
        if self._bounded is None or self._bounded[0] is not point:
            return None
        _, reading, bound = self._bounded
        bound += (float(self.reading[-1]) - reading) * self._longest
        return bound if bound < HARMLESS else None

    @lazy
    def _longest(self) -> float:
        """Length of the longest embedding, at least 1: the most that a logit changes when its class moves by 1."""
        F, roots = self._support.F, self._support.roots
        return max(1.0, math.sqrt(max(everywhere(F, _longest_square, roots))))


def _longest_square(F: Array | Rows, roots: Array | None) -> float:
    squares = backend.namespace(F).concat([backend.squared_lengths(F[rows, :]) for rows in parts(F)])
    return float((squares if roots is None else squares / roots**2).max())
