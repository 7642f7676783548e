"""Texts to token ids, as an exported CLIP's `tokenizer.json` and settings say."""

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import EncoderError

CLIP_CONTEXT = 77
"""Default number of tokens per text."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
"""For `str.translate`: removes punctuation."""


class ClipTokenizer:
    """A tokenizer that gives all texts of a batch the same length.

    Parameters
    ----------
    path
        The `tokenizer.json`.
    settings
        `tokenizer_config.json`: the padding token and the longest text.
    config
        The model's `config.json`, in open_clip's or transformers' form.
    length
        Tokens per text, if the model's input has a fixed length.
    masks
        Whether the model masks padding. Then a batch need not be longer than its longest text.
    """

    def __init__(
        self, path: Path, settings: dict[str, Any], config: dict[str, Any], length: int | None, masks: bool
    ) -> None:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # The library raises bare Exception.
            raise EncoderError(f"{path} is not a tokenizer that this version of tokenizers reads: {error}") from error
        self.length = length or _context_length(settings, config)
        pad = _pad_token(settings, tokenizer.padding)
        pad_id = tokenizer.token_to_id(pad) if pad is not None else 0
        if pad_id is None:
            raise EncoderError(f"{path} has no token {pad!r}, which its settings name for padding.")
        # Truncation leaves room for the end token, which the post-processor adds afterwards.
        tokenizer.enable_truncation(self.length)
        # Models that pool the last position need the padding; so do those whose length is fixed.
        shortens = masks and length is None and not str(config.get("model_type", "")).startswith("siglip")
        tokenizer.enable_padding(pad_id=pad_id, pad_token=pad or "", length=None if shortens else self.length)
        self._tokenizer = tokenizer
        cleaning = (config.get("text_cfg") or {}).get("tokenizer_kwargs") or {}
        self._canonical = cleaning.get("clean") == "canonicalize"

    def __call__(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids and mask, each (n, length)."""
        encoded = self._tokenizer.encode_batch([self._clean(text) for text in texts])
        ids = np.array([one.ids for one in encoded], np.int64)
        return ids, np.array([one.attention_mask for one in encoded], np.int64)

    def _clean(self, text: str) -> str:
        if self._canonical:
            text = text.replace("_", " ").translate(PUNCTUATION).lower()
        return " ".join(text.split())


def _context_length(settings: dict[str, Any], config: dict[str, Any]) -> int:
    candidates = (
        (config.get("text_cfg") or {}).get("context_length"),
        (config.get("text_config") or {}).get("max_position_embeddings"),
        settings.get("context_length"),
        settings.get("model_max_length"),
    )
    for value in candidates:
        # Tokenizers without a limit store a huge number.
        if isinstance(value, int) and 0 < value <= 100_000:
            return value
    return CLIP_CONTEXT


def _pad_token(settings: dict[str, Any], padding: dict[str, Any] | None) -> str | None:
    token = settings.get("pad_token")
    if isinstance(token, dict):
        token = token.get("content")
    if token is None and padding is not None:
        token = padding.get("pad_token")
    return None if token is None else str(token)
