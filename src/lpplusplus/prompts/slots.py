"""Prompts with free places: every class's name among vectors that belong to no word.

[start] v₁ … v_M  red fox . [end]        position "end"
[start] v₁ … v_h  red fox  v_{h+1} … v_M . [end]      "middle", h = M // 2
[start] red fox  v₁ … v_M . [end]        "front"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..encoders.base import EncoderError
from .tower import TextTower

PLACEHOLDERS = ("x", "a", "the")
"""Words to hold the context's places, of which the first is taken that a tokenizer does not divide."""
ALLOWANCE = 3.3
"""What a process may grow by, over the activations kept for the backward pass, which has temporaries of its own: 1.7
times as much was seen for twelve layers, 2.8 for four. Smaller chunks than need be cost next to nothing."""


class Slots:
    """Class names written once, and a function from context vectors to text features.

    Parameters
    ----------
    tower
    names
        As they stand in the prompt.
    n_context
        M.
    position : {"end", "middle", "front"}
        Of the name.
    copies : int
        Prompts a class, all alike but for their vectors: those of the first copy come first.
    memory : int, optional
        Bytes for activations. Where they do not suffice, classes are taken in chunks that are computed again in the
        backward pass, at a third more time.

    Raises
    ------
    ValueError
        For a name that leaves no room for the context, or a budget that does not hold a single prompt.
    """

    def __init__(
        self,
        tower: TextTower,
        names: Sequence[str],
        n_context: int,
        position: str = "end",
        *,
        copies: int = 1,
        memory: int | None = None,
    ) -> None:
        import torch

        self._tower = tower
        word, mark = _placeholder(tower)
        free, half = [word] * n_context, n_context // 2
        before = {"end": free, "middle": free[:half], "front": []}[position]
        prompts = [" ".join([*before, name, *free[len(before) :]]) + "." for name in names]
        tokens, counts = tower.tokens(prompts)
        for name, count in zip(names, counts.tolist(), strict=True):
            if count > tower.length:
                raise ValueError(
                    f"class {name!r} is too long for {n_context} context vectors: together they take {count} tokens, "
                    f"and the text tower has {tower.length}. Shorten the name or lower n_context."
                )
        self.tokens = tower.trimmed(tokens)
        places = [torch.nonzero(row == mark)[:, 0] for row in self.tokens]
        # A name may have the placeholder among its own words; the context's are before and after all of them.
        self.places = torch.stack(
            [torch.cat([p[: len(before)], p[len(p) - n_context + len(before) :]]) for p in places]
            if min(len(p) for p in places) >= n_context
            else [torch.empty(0, device=tower.device, dtype=torch.long)]
        )
        if self.places.shape[1] != n_context:
            raise EncoderError("this model's tokenizer joins the words of a prompt: no context can be put among them.")
        self.tokens, self.places = self.tokens.repeat(copies, 1), self.places.repeat(copies, 1)
        self.n_classes = len(names)
        self.chunk = len(self) if memory is None else self._fitting(memory)

    def __len__(self) -> int:
        return int(self.tokens.shape[0])

    def twins(self) -> tuple[int, int] | None:
        """Two classes whose names are the same to the tokenizer, if there are."""
        seen: dict[tuple[int, ...], int] = {}
        for i, row in enumerate(self.tokens[: self.n_classes].tolist()):
            if tuple(row) in seen:
                return seen[tuple(row)], i
            seen[tuple(row)] = i
        return None

    def __call__(self, context: Any) -> Any:
        """Text features of all prompts, (copies · K, D), not normalised, from shared (1, M, W) vectors or own ones."""
        from .chunked import Chunked

        if self.chunk >= len(self):
            return self._some(context, slice(None))
        starts = range(0, len(self), self.chunk)
        return Chunked.apply(context, self._some, [slice(a, min(a + self.chunk, len(self))) for a in starts])

    def _some(self, vectors: Any, rows: slice) -> Any:
        """Features of the prompts in `rows`, from shared vectors or those of the same rows."""
        tokens, places = self.tokens[rows], self.places[rows]
        embedded = self._tower.embed(tokens)
        vectors = vectors.expand(len(tokens), -1, -1).to(embedded.dtype)
        index = places[:, :, None].expand(-1, -1, embedded.shape[2])
        return self._tower.features(embedded.scatter(1, index, vectors), tokens)

    def _fitting(self, memory: int) -> int:
        """How many prompts at a time keep to `memory` bytes: what two keep for their backward pass, less what one does.

        Measured rather than counted from the layers, so that it holds for any tower.
        """
        one, two = self._kept(1), self._kept(2)
        each = ALLOWANCE * (two - one)
        if memory < each:
            raise ValueError(
                f"memory_mib={memory / 2**20:.3g} does not hold a single prompt of this text tower, which takes "
                f"{each / 2**20:.3g} MiB: raise it."
            )
        return int(memory // each)

    def _kept(self, count: int) -> int:
        import torch

        sizes: dict[int, int] = {}

        def note(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        context = torch.zeros(
            (1, self.places.shape[1], self._tower.width),
            dtype=self._tower.dtype, device=self.tokens.device, requires_grad=True,
        )  # fmt: skip
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            features = self._some(context, slice(0, count))
        del features  # Until here, so that no storage is freed and its address used again.
        return sum(sizes.values())


def _placeholder(tower: TextTower) -> tuple[str, int]:
    """A word of a single token, and that token."""
    for word in PLACEHOLDERS:
        (one, none), counts = tower.tokens([f"{word} {word}", ""])
        first, second = one[(one != none).int().argmax() :][:2].tolist()
        if counts[0] - counts[1] == 2 and first == second:
            return word, first
    raise EncoderError(
        f"this model's tokenizer divides or joins words as short as {PLACEHOLDERS}: no context can be put among them."
    )
