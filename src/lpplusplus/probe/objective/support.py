"""The labelled images of one task, or of the part of it that a fold leaves."""

from __future__ import annotations

from dataclasses import dataclass

from ..._core import backend
from ..._core.backend import Array
from ..._core.lazy import lazy
from ..._core.threads import Team, rows_per_chunk


@dataclass(frozen=True)
class Support:
    """Labelled images in working precision, with the names of their classes."""

    F: Array
    y: Array
    n_classes: int
    text: Array | None

    @property
    def size(self) -> int:
        """Number of examples N."""
        return int(self.F.shape[0])

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

    @property
    def is_tall(self) -> bool:
        """Whether FᵀF is the smaller Gram matrix: at least as many images as dimensions."""
        return self.size >= self.dim

    def moment(self, team: Team) -> Array:
        """FᵀF, (D, D)."""

        def work(worker: int) -> Array:
            block = self.F[team.share(self.size, worker)]
            return block.T @ block

        return sum(team.map(work))

    @lazy
    def counts(self) -> Array:
        """Examples of each class, (K,) integers."""
        return backend.namespace(self.y).bincount(self.y, minlength=self.n_classes)
