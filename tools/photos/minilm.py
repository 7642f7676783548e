"""all-MiniLM-L6-v2 in torch, from the safetensors of the package that carries it: six BERT layers, mean pooling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

LAYERS, HEADS = 6, 12


class MiniLM:
    """Sentences to unit vectors, (n, 384)."""

    def __init__(self, folder: Path) -> None:
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")

    def __call__(self, texts: Sequence[str], batch: int = 256) -> Tensor:
        """Embeddings of texts. Texts of about the same length go together."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = torch.empty(len(texts), 384)
        for first in range(0, len(order), batch):
            part = order[first : first + batch]
            encoded = self.tokenizer.encode_batch([texts[i] for i in part])
            ids = torch.tensor([one.ids for one in encoded])
            out[part] = self.embed(ids, torch.tensor([one.attention_mask for one in encoded]))
        return out

    @torch.no_grad()
    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Embeddings of token ids, (n, length)."""
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        hidden = mask[:, None, None, :].bool()
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}."
            q, k, v = (
                self._linear(x, f"{name}attention.self.{part}").unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            heads = functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden).transpose(1, 2).flatten(2)
            x = self._norm(
                x + self._linear(heads, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm"
            )
            y = self._linear(functional.gelu(self._linear(x, f"{name}intermediate.dense")), f"{name}output.dense")
            x = self._norm(x + y, f"{name}output.LayerNorm")
        share = mask[:, :, None] / mask.sum(1)[:, None, None]
        return functional.normalize((x * share).sum(1), dim=1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12
        )
