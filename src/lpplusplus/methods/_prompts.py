"""Prompts with free slots: every class name beside vectors that belong to no word.

[start] v₁ … v_M  red fox . [end]                     class position "end"
[start] v₁ … v_h  red fox  v_{h+1} … v_M . [end]      "middle", h = M // 2
[start] red fox  v₁ … v_M . [end]                     "front"
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..encoders.base import EncoderError
from ..encoders.class_text import display_name
from ._text_tower import TextTower

PLACEHOLDERS = ("x", "a", "the")
"""Words to mark the free slots with; the first that is a single token is taken."""
ALLOWANCE = 3.3
"""Memory of a process per prompt, as a multiple of the activations kept for the backward pass, which has temporaries of
its own: 1.7 was seen for twelve layers, 2.8 for four. Chunks that are too small cost next to nothing."""


class ContextPrompts:
    """One prompt per class, and the function from context vectors to the prompts' text features.

    Parameters
    ----------
    tower
    names
        Class names as they stand in the prompt.
    n_context
        M, the number of free slots.
    position : {"end", "middle", "front"}
        Where the name stands.
    fixed : (e, W) tensor, optional
        Vectors for the last e of the free slots, which are not part of the context.
    memory_mib : float, optional
        Memory for activations. If all prompts need more, they are taken in chunks, which are computed again in the
        backward pass: a third more time.

    Raises
    ------
    ValueError
        For a name that leaves no room for the context, or a memory that does not hold a single prompt.
    """

    def __init__(
        self,
        tower: TextTower,
        names: Sequence[str],
        n_context: int,
        position: str = "end",
        *,
        fixed: Any = None,
        memory_mib: float | None = None,
    ) -> None:
        import torch

        self._tower, self._fixed = tower, fixed
        word, mark = _placeholder(tower)
        before = {"end": n_context, "middle": n_context // 2, "front": 0}[position]
        after = n_context - before
        prompts = [" ".join([*[word] * before, name, *[word] * after]) + "." for name in names]
        tokens, counts = tower.tokens(prompts)
        for name, count in zip(names, counts.tolist(), strict=True):
            if count > tower.length:
                raise ValueError(
                    f"class {name!r} is too long for {n_context} context vectors: together they take {count} tokens, "
                    f"and the text tower has {tower.length}. Shorten the name or lower n_context."
                )
        self.tokens = tower.trimmed(tokens)
        marked = [torch.nonzero(row == mark)[:, 0] for row in self.tokens]
        if min(len(slots) for slots in marked) < n_context:
            raise EncoderError("this model's tokenizer joins the words of a prompt: no context can be put among them.")
        # A name may have the placeholder among its own words; the free slots are the first and the last ones.
        self.slots = torch.stack([torch.cat([p[:before], p[len(p) - after :]]) for p in marked])
        self.chunk = None if memory_mib is None else self._prompts_within(memory_mib)
        """How many prompts are computed at a time; None for all."""

    def same_names(self) -> tuple[int, int] | None:
        """Two classes whose names are the same to the tokenizer, if there are any."""
        seen: dict[tuple[int, ...], int] = {}
        for i, row in enumerate(self.tokens.tolist()):
            if tuple(row) in seen:
                return seen[tuple(row)], i
            seen[tuple(row)] = i
        return None

    def __call__(self, context: Any) -> Any:
        """Text features of the prompts, not normalised.

        Parameters
        ----------
        context
            (1, M, W) for vectors that all classes share, or (K, M, W) for one set per class, gives (K, D). (P·K, M, W)
            for P sets per class, the first set of every class first, gives (P·K, D).
        """
        import torch

        from ._chunked import Chunked

        if self._fixed is not None:
            context = torch.cat([context, self._fixed.expand(len(context), -1, -1)], dim=1)
        count = max(len(self.tokens), len(context))
        if self.chunk is None or self.chunk >= count:
            return self._features(context, slice(0, count))
        starts = range(0, count, self.chunk)
        return Chunked.apply(context, self._features, [slice(a, min(a + self.chunk, count)) for a in starts])

    def _features(self, vectors: Any, rows: slice) -> Any:
        """Text features of the prompts in `rows`, from shared vectors or those of the same rows."""
        import torch

        classes = torch.arange(rows.start, rows.stop, device=self.tokens.device) % len(self.tokens)
        tokens, slots = self.tokens[classes], self.slots[classes]
        embedded = self._tower.embed(tokens)
        vectors = vectors.expand(len(tokens), -1, -1).to(embedded.dtype)
        index = slots[:, :, None].expand(-1, -1, embedded.shape[2])
        return self._tower.features(embedded.scatter(1, index, vectors), tokens)

    def _prompts_within(self, memory_mib: float) -> int:
        """How many prompts fit into the memory: measured as what two prompts keep for the backward pass, minus one.

        Measured rather than computed from the layers, so that it holds for any tower.
        """
        each = ALLOWANCE * (self._kept(2) - self._kept(1)) / 2**20
        if memory_mib < each:
            raise ValueError(
                f"memory_mib={memory_mib:.3g} does not hold a single prompt of this text tower, which takes "
                f"{each:.3g} MiB: raise it."
            )
        return int(memory_mib // each)

    def _kept(self, count: int) -> int:
        """Bytes that are kept for the backward pass of `count` prompts."""
        import torch

        sizes: dict[int, int] = {}

        def note(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        shape = (1, self.slots.shape[1], self._tower.width)
        context = torch.zeros(shape, dtype=self._tower.dtype, device=self.tokens.device, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            features = self._features(context, slice(0, count))
        del features  # Only now: memory that is freed earlier could be used again at the same address.
        return sum(sizes.values())


def prompt_names(labels: np.ndarray[Any, Any], class_names: Sequence[str] | None = None) -> list[str]:
    """`class_names`, or the labels if these are names; underscores become spaces.

    >>> prompt_names(np.array(["red_fox", "owl"]))
    ['red fox', 'owl']
    >>> prompt_names(np.array([0, 1]), ["red fox", "owl"])
    ['red fox', 'owl']
    """
    if class_names is not None and len(class_names) != len(labels):
        raise ValueError(
            f"class_names has {len(class_names)} names for {len(labels)} classes: give one name per class, in the "
            f"order of classes= or of the sorted labels."
        )
    names = list(labels.tolist() if class_names is None else class_names)
    for label, name in zip(labels.tolist(), names, strict=True):
        if not isinstance(name, str) or not display_name(name):
            raise ValueError(
                f"class {label!r} has no name, and a prompt needs one: use class names as labels, or give them as "
                f"class_names=."
            )
    return [display_name(name) for name in names]


def _placeholder(tower: TextTower) -> tuple[str, int]:
    """A word that is a single token, and that token."""
    for word in PLACEHOLDERS:
        tokens = tower.word_tokens(f"{word} {word}").tolist()
        if len(tokens) == 2 and tokens[0] == tokens[1]:
            return word, tokens[0]
    raise EncoderError(
        f"this model's tokenizer divides or joins words as short as {PLACEHOLDERS}: no context can be put among them."
    )
