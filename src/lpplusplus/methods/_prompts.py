"""Prompts with free slots, and the text tower that they go through.

A prompt is a class name beside vectors that belong to no word.

    [start] v₁ … v_M  red fox . [end]                     class position "end"
    [start] v₁ … v_h  red fox  v_{h+1} … v_M . [end]      "middle", h = M // 2
    [start] red fox  v₁ … v_M . [end]                     "front"

`encode_text` begins with tokens. `TextTower` is all that follows after they are embedded, by the modules of open_clip's
own text transformers, whether these are in the model itself (`CLIP`) or in its `text` (`CustomTextCLIP`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..encoders.base import EncoderError
from ..encoders.class_text import display_name
from ..encoders.open_clip import OpenClipEncoder

PLACEHOLDERS = ("x", "a", "the")
"""Words to mark the free slots with; the first that is a single token is taken."""
ALLOWANCE = 3.3
"""Memory of a process per prompt, as a multiple of the activations kept for the backward pass, which has temporaries of
its own: 1.7 was seen for twelve layers, 2.8 for four. Chunks that are too small cost next to nothing."""
PARTS = ("token_embedding", "positional_embedding", "transformer", "ln_final", "text_projection", "attn_mask")
_LONG = 1024
"""Length to tokenize with in order to count tokens; the tower's own length would cut long texts off."""


class TextTower:
    """The text tower of an encoder.

    Parameters
    ----------
    encoder
        Never changed.
    precision
        A torch dtype for the tower's matrix products, such as float16 on a GPU; None for that of the weights.

    Raises
    ------
    EncoderError
        For a text tower of another kind: a Hugging Face model, or CoCa's with its class token.
    """

    def __init__(self, encoder: OpenClipEncoder, precision: Any = None) -> None:
        model = encoder.model
        tower: Any = model if hasattr(model, "token_embedding") else getattr(model, "text", None)
        self._tower, self._precision = tower, precision
        self._tokenize, self.device = encoder.tokenizer, encoder.device
        lacking = [part for part in PARTS if not hasattr(tower, part)]
        if lacking:
            raise EncoderError(
                f"{encoder.spec}: prompts cannot be learned for its text tower, a {type(tower).__name__}, which has no "
                f"{', '.join(lacking)}. Use a model with open_clip's own text transformer, such as RN50 or ViT-B-32."
            )
        self._pool = getattr(tower, "text_pool_type", None) or getattr(tower, "pool_type", "argmax")
        self._end = getattr(tower, "text_eos_id", None) or getattr(tower, "eos_id", None)
        self._masks_padding = bool(getattr(tower, "use_pad_mask", False))
        unusual = {
            "a class token": getattr(tower, "cls_emb", None) is not None,
            "a mask for padding of an older kind": self._masks_padding and not hasattr(tower, "_build_additive_mask"),
            f"the pooling {self._pool!r}": self._pool not in ("argmax", "eos", "first", "last"),
        }
        for what, found in unusual.items():
            if found:
                raise EncoderError(
                    f"{encoder.spec}: prompts cannot be learned for its text tower, a {type(tower).__name__} with "
                    f"{what}. Use a model with a plain text transformer, such as RN50 or ViT-B-32."
                )
        self.length: int = int(tower.positional_embedding.shape[0])
        """Largest number of tokens."""
        self.width: int = int(tower.token_embedding.weight.shape[1])
        self.dtype = tower.token_embedding.weight.dtype
        self._padding = int(self._tokenize([""], context_length=_LONG)[0, -1])

    def tokens(self, texts: list[str]) -> tuple[Any, Any]:
        """Tokens of texts, (n, length), and how many tokens each text has, which may be more than `length`."""
        long = self._tokenize(texts, context_length=_LONG)
        counts = _LONG - (long != self._padding).flip(1).int().argmax(dim=1)
        return self._tokenize(texts, context_length=self.length).to(self.device), counts

    def word_tokens(self, phrase: str) -> Any:
        """Tokens of a phrase without those that mark its beginning and end."""
        (tokens, empty), counts = self.tokens([phrase, ""])
        first = int((tokens != empty).int().argmax())
        return tokens[first : first + int(counts[0] - counts[1])]

    def trimmed(self, tokens: Any) -> Any:
        """`tokens` without the columns that cannot change a feature, where attention is causal or masks padding.

        These are usually two thirds of the columns, and so of the time.
        """
        if self._pool == "last":
            return tokens
        if self._tower.attn_mask is not None:
            return tokens[:, : int(self._read_out(tokens).max()) + 1]
        if self._masks_padding:
            return tokens[:, : int((tokens != self._tower.pad_id).sum(dim=1).max())]
        return tokens

    def embed(self, tokens: Any) -> Any:
        """Embedded tokens, (…, width)."""
        return self._tower.token_embedding(tokens)

    def features(self, embedded: Any, tokens: Any) -> Any:
        """Text features, (n, D), not normalised.

        Parameters
        ----------
        embedded : (n, L, width) tensor
            What the transformer reads, before positions are added.
        tokens : (n, L) tensor
            They tell where a text ends, which is where its feature is read.
        """
        import torch

        tower, length = self._tower, embedded.shape[1]
        mask = None if tower.attn_mask is None else tower.attn_mask[:length, :length]
        if self._masks_padding:
            mask = tower._build_additive_mask(tokens, length, embedded.dtype)
        with torch.autocast(self.device.type, self._precision, enabled=self._precision is not None):
            x = embedded + tower.positional_embedding[:length]
            x = tower.transformer(x, attn_mask=mask)
            x = tower.ln_final(x)
            x = x[torch.arange(len(x), device=x.device), self._read_out(tokens)]
            projection = tower.text_projection
            if projection is not None:
                x = projection(x) if isinstance(projection, torch.nn.Module) else x @ projection
        return x.to(self.dtype)

    def _read_out(self, tokens: Any) -> Any:
        """Position at which the feature of each text is read."""
        import torch

        if self._pool == "argmax":
            return tokens.argmax(dim=1)
        if self._pool == "eos":
            return (tokens == self._end).int().argmax(dim=1)
        return torch.full_like(tokens[:, 0], 0 if self._pool == "first" else tokens.shape[1] - 1)


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

        if self._fixed is not None:
            context = torch.cat([context, self._fixed.expand(len(context), -1, -1)], dim=1)
        count = max(len(self.tokens), len(context))
        if self.chunk is None or self.chunk >= count:
            return self._features(context, slice(0, count))
        starts = range(0, count, self.chunk)
        return chunked().apply(context, self._features, [slice(a, min(a + self.chunk, count)) for a in starts])

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


@cache
def chunked() -> Any:
    """Text features of many prompts in little memory: chunk by chunk, each computed again in the backward pass.

    torch's own checkpointing computes the same. But it keeps every chunk's result in memory between the temporaries of
    its neighbours, so that memory cannot be used again: a process grew to three times its budget.
    """
    import torch

    def part_of(vectors: Any, rows: slice) -> Any:
        return vectors if len(vectors) == 1 else vectors[rows]

    class Chunked(torch.autograd.Function):  # type: ignore[misc]
        """The results of `compute(vectors, rows)` for all chunks of rows, in one tensor.

        `vectors` are (1, M, W), shared by all rows, or (n, M, W), one set per row, of which `compute` gets those of
        `rows`.
        """

        @staticmethod
        def forward(ctx: Any, vectors: Any, compute: Callable[[Any, slice], Any], chunks: list[slice]) -> Any:
            ctx.save_for_backward(vectors)
            ctx.compute, ctx.chunks = compute, chunks
            out: Any = None
            for rows in chunks:
                part = compute(part_of(vectors, rows), rows)
                out = part.new_empty((chunks[-1].stop, part.shape[1])) if out is None else out
                out[rows] = part
            return out

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            (vectors,), (gradient,) = ctx.saved_tensors, gradients
            total = torch.zeros_like(vectors)
            for rows in ctx.chunks:
                part = part_of(vectors, rows).detach().requires_grad_()
                with torch.enable_grad():
                    features = ctx.compute(part, rows)
                (added,) = torch.autograd.grad(features, part, gradient[rows])
                part_of(total, rows).add_(added)
            return total, None, None

    return Chunked
