"""open_clip's text tower from the embedded tokens onwards, by the model's own modules.

`encode_text` begins with tokens; a learned prompt has vectors that belong to no token. This is all that follows after
the tokens are embedded, for open_clip's own text transformers, whether they are in the model itself (`CLIP`) or in its
`text` (`CustomTextCLIP`).
"""

from typing import Any

from ..encoders.base import EncoderError
from ..encoders.open_clip import OpenClipEncoder

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
