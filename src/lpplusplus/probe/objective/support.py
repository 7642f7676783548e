"""The labelled images of one task, or of all its folds but one."""

from __future__ import annotations

from dataclasses import dataclass

from ..._core import backend
from ..._core.backend import Array
from ..._core.rows import Rows, sum_by_class, times
from ..._core.threads import Team, lazy, rows_per_chunk
from ..metric import AnyMetric, moment_of


@dataclass(frozen=True)
class Support:
    """Labelled images in working precision, with the names of their classes."""

    F: Array | Rows
    y: Array
    n_classes: int
    text: Array | None
    roots: Array | None = None
    """√ω_i, (N,), if images have weights ω_i > 0. The rows of `F` are then √ω_i f_i, so all sums over images are
    weighted sums. Only the input and output of the softmax have to be corrected."""
    metric: AnyMetric | None = None
    """The metric of the steps; None for the Euclidean one."""
    known_moment: Array | None = None
    """FᵀF, if it is known already."""

    @classmethod
    def weighted(
        cls, F: Array | Rows, y: Array, n_classes: int, text: Array | None, weights: Array | None,
        metric: AnyMetric | None = None, moment: Array | None = None,
    ) -> Support:  # fmt: skip
        """Images `F` with `weights`; by default 1 each."""
        if weights is None:
            return cls(F, y, n_classes, text, None, metric, moment)
        roots = backend.namespace(F).sqrt(weights)
        return cls(times(F, roots), y, n_classes, text, roots, metric, moment)

    @property
    def size(self) -> int:
        """Number of examples."""
        return int(self.F.shape[0])

    @lazy
    def total(self) -> float:
        """What sums over examples are divided by: N, or the sum of the weights."""
        return self.size if self.roots is None else float((self.roots**2).sum())

    @lazy
    def class_sums(self) -> Array:
        """Sum of each class's embeddings, (K, D)."""
        F = self.F if self.roots is None else times(self.F, self.roots)
        return sum_by_class(F, self.y, self.n_classes)

    @property
    def dim(self) -> int:
        """Embedding dimension D."""
        return int(self.F.shape[1])

    def chunks(self, team: Team) -> list[tuple[int, int]]:
        """Row ranges small enough to hold their logits; the workers of `team` get equal numbers of them."""
        most = rows_per_chunk(self.n_classes)
        count = team.size * -(-self.size // (team.size * most))
        height = max(1, -(-self.size // count))
        return [(low, min(low + height, self.size)) for low in range(0, self.size, height)]

    def room(self, height: int) -> Array | None:
        """Memory for `read` to put `height` rows in."""
        return backend.empty(self.F, (height, self.dim)) if isinstance(self.F, Rows) and self.F.copies else None

    def read(self, low: int, high: int, room: Array | None) -> Array:
        """Some of the images; reading into the same `room` every time needs no more memory."""
        return self.F.read(slice(low, high), room) if isinstance(self.F, Rows) else self.F[low:high, :]

    @property
    def is_tall(self) -> bool:
        """Whether FᵀF is the smaller Gram matrix: at least as many images as dimensions."""
        return self.size >= self.dim

    def moment(self, team: Team) -> Array:
        """FᵀF, (D, D)."""
        return moment_of(self.F, team) if self.known_moment is None else self.known_moment

    @lazy
    def counts(self) -> Array:
        """Examples of each class, or their weight, (K,)."""
        extra = {} if self.roots is None else {"weights": self.roots**2}
        return backend.namespace(self.y).bincount(self.y, minlength=self.n_classes, **extra)
