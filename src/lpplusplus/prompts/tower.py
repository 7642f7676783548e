"""open_clip's text tower from the embedded words onwards, by the model's own modules.

`encode_text` begins with tokens; a learned prompt begins with vectors that belong to no token. Everything after that
first look-up is here, for open_clip's own text transformers, whether they lie in the model itself (`CLIP`) or in its
`text` (`CustomTextCLIP`).
"""

from __future__ import annotations

from typing import Any

from ..encoders.base import EncoderError
from ..encoders.open_clip import OpenClipEncoder

PARTS = ("token_embedding", "positional_embedding", "transformer", "ln_final", "text_projection", "attn_mask")
_LONG = 1024
"""Tokens that are asked for to see how long a text really is, which the usual length would cut off."""


class TextTower:
    """The text tower of an encoder.

    Parameters
    ----------
    encoder
        An opened model. Never changed.
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
        self._tower = tower
        self._spec, self._tokenize, self.device, self._precision = (
            encoder.spec, encoder.tokenizer, encoder.device, precision,
        )  # fmt: skip
        lacking = [part for part in PARTS if not hasattr(tower, part)]
        if lacking:
            raise EncoderError(
                f"{self._spec}: prompts cannot be learned for its text tower, a {type(tower).__name__}, which has no "
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
                    f"{self._spec}: prompts cannot be learned for its text tower, a {type(tower).__name__} with "
                    f"{what}. Use a model with a plain text transformer, such as RN50 or ViT-B-32."
                )
        self.length: int = int(tower.positional_embedding.shape[0])
        """Tokens that the tower takes."""
        self.width: int = int(tower.token_embedding.weight.shape[1])
        self.dtype = tower.token_embedding.weight.dtype
        self._padding = int(self._tokenize([""], context_length=_LONG)[0, -1])

    def tokens(self, texts: list[str]) -> tuple[Any, Any]:
        """Tokens of texts, (n, length), and how many each text has, which may be more than that."""
        long = self._tokenize(texts, context_length=_LONG)
        written = long != self._padding
        counts = _LONG - written.flip(1).int().argmax(dim=1)
        return self._tokenize(texts, context_length=self.length).to(self.device), counts

    def trimmed(self, tokens: Any) -> Any:
        """`tokens` without the columns that cannot change any feature, where attention is causal or masks padding.

        Usually two thirds of them, and so of the time.
        """
        if self._pool == "last":
            return tokens
        if self._tower.attn_mask is not None:
            return tokens[:, : int(self._read_out(tokens).max()) + 1]
        if self._masks_padding:
            return tokens[:, : int((tokens != self._tower.pad_id).sum(dim=1).max())]
        return tokens

    def embed(self, tokens: Any) -> Any:
        """Embedded tokens, (n, length, width)."""
        return self._tower.token_embedding(tokens)

    def words(self, phrase: str) -> Any:
        """Embedded words of a phrase without its marks of beginning and end, (words, width)."""
        tokens, counts = self.tokens([phrase.replace("_", " "), ""])
        first = next(i for i, (one, other) in enumerate(zip(*self.tokens(["x", ""])[0].tolist(), strict=True))
                     if one != other)  # fmt: skip
        count = int(counts[0] - counts[1])
        if count < 1:
            raise ValueError(f"context_init={phrase!r} has no words: write some, such as 'a photo of a', or None.")
        return self.embed(tokens[0, first : first + count]).detach().clone()

    def features(self, embedded: Any, tokens: Any) -> Any:
        """Text features, (n, D), not normalised.

        Parameters
        ----------
        embedded : (n, L, width) tensor
            What the transformer reads, before positions are added.
        tokens : (n, L) tensor
            Tells where a text ends, which is where its feature is read.
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
        """Position of each text's feature."""
        import torch

        if self._pool == "argmax":
            return tokens.argmax(dim=1)
        if self._pool == "eos":
            return (tokens == self._end).int().argmax(dim=1)
        return torch.full_like(tokens[:, 0], 0 if self._pool == "first" else tokens.shape[1] - 1)
