"""The labelled images of one task, or of the part of it that a fold leaves."""

from __future__ import annotations

from dataclasses import dataclass

from ..._core import backend
from ..._core.backend import Array
from ..._core.lazy import lazy
from ..._core.threads import Team, rows_per_chunk


@dataclass(frozen=True)
class Support:
    """Labelled images in working precision, with the names of their classes.

    `rows` lists the half-open row ranges of `F` and `y` that belong to it, so that the folds of a cross-validation
    share one array.
    """

    F: Array
    y: Array
    n_classes: int
    text: Array | None
    rows: tuple[tuple[int, int], ...]
    gram_of_all: Array | None = None
    """F Fᵀ of all rows of `F`, not only of `rows`, where it has been computed already."""
    moment_of_all: Array | None = None
    """FᵀF of all rows of `F`, in the same way."""
    roots: Array | None = None
    """√ω_i of all rows of `F`, where images have weights ω_i > 0. The rows of `F` are then √ω_i f_i, so all sums over
    images are weighted sums. Only what the softmax sees, and what comes out of it, has to know."""

    @classmethod
    def of(cls, F: Array, y: Array, n_classes: int, text: Array | None, weights: Array | None = None) -> Support:
        """All rows of `F`; `weights` are how often each of them counts, once by default."""
        rows = ((0, F.shape[0]),)
        if weights is None:
            return cls(F, y, n_classes, text, rows)
        roots = backend.namespace(F).sqrt(weights)
        return cls(F * roots[:, None], y, n_classes, text, rows, roots=roots)

    @lazy
    def size(self) -> int:
        """Number of examples."""
        return sum(stop - start for start, stop in self.rows)

    @lazy
    def total(self) -> float:
        """What sums over examples are divided by: N, or the sum of the weights."""
        return self.size if self.gathered_roots is None else float((self.gathered_roots**2).sum())

    @lazy
    def gathered_roots(self) -> Array | None:
        """`roots` of `rows` alone."""
        if self.roots is None:
            return None
        return backend.namespace(self.F).concat([self.roots[a:b] for a, b in self.rows])

    def class_sums(self) -> Array:
        """Sum of each class's embeddings, (K, D)."""
        roots = self.roots
        parts = (
            (self.F[a:b, :] if roots is None else self.F[a:b, :] * roots[a:b, None], self.y[a:b]) for a, b in self.rows
        )
        return sum(backend.sum_by_class(F, y, self.n_classes) for F, y in parts)

    @property
    def dim(self) -> int:
        """Embedding dimension D."""
        return int(self.F.shape[1])

    def chunks(self, team: Team) -> list[tuple[int, int]]:
        """Row ranges small enough to hold their logits; the workers of `team` get equal numbers of them."""
        most = rows_per_chunk(self.n_classes)
        count = team.size * -(-self.size // (team.size * most))
        height = max(1, -(-self.size // count))
        return [(low, min(low + height, stop)) for start, stop in self.rows for low in range(start, stop, height)]

    @lazy
    def gathered(self) -> tuple[Array, Array]:
        """`F` and `y` of `rows` alone, as contiguous arrays."""
        if len(self.rows) == 1:
            ((start, stop),) = self.rows
            return self.F[start:stop, :], self.y[start:stop]
        xp = backend.namespace(self.F)
        return (xp.concat([self.F[a:b, :] for a, b in self.rows]), xp.concat([self.y[a:b] for a, b in self.rows]))

    @lazy
    def gram(self) -> Array:
        """F Fᵀ of `rows`, (N, N)."""
        if self.gram_of_all is None:
            F, _ = self.gathered
            return F @ F.T
        xp = backend.namespace(self.F)
        return xp.concat([xp.concat([self.gram_of_all[a:b, c:d] for c, d in self.rows], axis=1) for a, b in self.rows])

    @property
    def is_tall(self) -> bool:
        """Whether FᵀF is the smaller Gram matrix: at least as many images as dimensions."""
        return self.size >= self.dim

    def moment(self, team: Team) -> Array:
        """FᵀF of `rows`, (D, D)."""
        if self.moment_of_all is None:
            return self._moment(self.rows, team)
        edges = [0, *(edge for ends in self.rows for edge in ends), self.F.shape[0]]
        return self.moment_of_all - self._moment(tuple(zip(edges[::2], edges[1::2], strict=True)), team)

    def _moment(self, rows: tuple[tuple[int, int], ...], team: Team) -> Array:
        def work(worker: int) -> Array:
            blocks = (self.F[a:b, :][team.share(b - a, worker)] for a, b in rows)
            return sum(block.T @ block for block in blocks)

        return sum(team.map(work))

    @lazy
    def counts(self) -> Array:
        """Examples of each class, or their weight, (K,)."""
        xp, roots = backend.namespace(self.y), self.roots
        weights = [{} if roots is None else {"weights": roots[a:b] ** 2} for a, b in self.rows]
        rows = zip(self.rows, weights, strict=True)
        return sum(xp.bincount(self.y[a:b], minlength=self.n_classes, **weight) for (a, b), weight in rows)
