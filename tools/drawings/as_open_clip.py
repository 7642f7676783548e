"""The shipped model with its weights back in torch: `as_open_clip()`, for methods that need a text tower's gradient.

The text tower is open_clip's own `TextTransformer`, which has the same layers; the image tower is that of `towers`.
What they compute is what the ONNX files compute.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from open_clip.transformer import TextTransformer
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as fn

from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.open_clip import OpenClipEncoder

from .towers import CONTEXT, DIM, ImageTower

LOGIT_SCALE = 100.0
"""CLIP's, whose geometry the export imitates."""
LAYERS = {
    "before": "ln_1",
    "between": "ln_2",
    "qkv.": "attn.in_proj_",
    "out": "attn.out_proj",
    "mlp.0": "mlp.c_fc",
    "mlp.2": "mlp.c_proj",
}
"""Names of a text layer's parts here and in open_clip."""
OTHERS = {
    "tokens": "token_embedding",
    "places": "positional_embedding",
    "head.0": "ln_final",
    "head.1": "text_projection",
}


def as_open_clip(folder: Path = FOLDERS["drawings"]) -> OpenClipEncoder:
    """The model as an encoder whose text tower has a gradient."""
    return TorchEncoder.of(TorchModel(folder), TorchTokens(folder), "drawings")


class TorchEncoder(OpenClipEncoder):
    """The model as an encoder; the places of an image are those of `TorchImageTower.tokens`."""

    def encode_places(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """The whole image and its four corners, (n, 5, dim)."""
        with torch.inference_mode():
            places: NDArray[np.float32] = self.model.visual.tokens(torch.from_numpy(np.stack(batch))).numpy()
            return places


class TorchModel(nn.Module):
    """Both towers, with the attributes of an open_clip model."""

    def __init__(self, folder: Path = FOLDERS["drawings"]) -> None:
        super().__init__()
        self.visual = TorchImageTower(stored_weights(folder / "visual" / "model.onnx"))
        self.visual.preprocess_cfg = json.loads((folder / "visual" / "preprocess_cfg.json").read_text())
        self.text = text_transformer(stored_weights(folder / "textual" / "model.onnx"))
        self.logit_scale = nn.Parameter(torch.tensor(LOGIT_SCALE).log())

    def encode_image(self, image: Tensor) -> Tensor:
        """Embeddings of standardised pixels."""
        return self.visual(image)

    def encode_text(self, text: Tensor) -> Tensor:
        """Embeddings of token ids."""
        return self.text(text)


class TorchTokens:
    """The model's tokenizer, called as open_clip's are."""

    def __init__(self, folder: Path = FOLDERS["drawings"]) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "textual" / "tokenizer.json"))

    def __call__(self, texts: list[str], context_length: int = CONTEXT) -> Tensor:
        self._tokenizer.enable_truncation(context_length)
        self._tokenizer.enable_padding(length=context_length, pad_id=0, pad_token="[PAD]")
        return torch.tensor([encoding.ids for encoding in self._tokenizer.encode_batch(texts)])


class Placed(nn.Module):
    """What the export puts behind a tower: unit length, shrunk, two constant coordinates."""

    def __init__(self, shrink: Tensor, tail: Tensor) -> None:
        super().__init__()
        # Constants of the export, not weights.
        self.register_buffer("shrink", shrink, persistent=False)
        self.register_buffer("tail", tail[0], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return fn.pad(self.shrink * fn.normalize(x, dim=-1), (0, 2)) + self.tail


class PlacedLinear(nn.Linear):
    """A projection that ends in `Placed`; open_clip takes no other module for one."""

    def __init__(self, place: Placed) -> None:
        super().__init__(DIM, DIM)
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        return self.place(super().forward(x))


class TorchImageTower(nn.Module):
    """The image tower, which can also be asked for what is where."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.place = Placed(weights.pop("shrink"), weights.pop("tail"))
        self.tower = ImageTower()
        for part in self.tower.modules():  # The export folds each batch norm into the convolution before it.
            if isinstance(part, nn.Sequential) and isinstance(part[-1], nn.BatchNorm2d):
                bare = part[0]
                part[0] = nn.Conv2d(bare.in_channels, bare.out_channels, 3, bare.stride, 1)
                part[1] = nn.Identity()
        self.tower.load_state_dict(weights)

    def forward(self, image: Tensor) -> Tensor:
        return self.place(self.tower(image))

    def tokens(self, image: Tensor) -> Tensor:
        """The whole picture and its four corners, (n, 5, dim).

        The tower has no tokens; its head is slid over the last 4 × 4 map instead, in windows of 3 × 3.
        """
        seen = self.tower.body(image)
        window = seen.shape[-1] - 1
        parts = [seen, *(seen[:, :, i : i + window, j : j + window] for i in (0, 1) for j in (0, 1))]
        heads = [self.tower.head(fn.adaptive_avg_pool2d(part, 2).flatten(1)) for part in parts]
        return self.place(torch.stack(heads, dim=1))


def text_transformer(weights: dict[str, Tensor]) -> TextTransformer:
    """open_clip's text tower with the model's weights: attention to all but padding, read at the first token."""
    place = Placed(weights.pop("shrink"), weights.pop("tail"))
    tower = TextTransformer(
        context_length=CONTEXT, vocab_size=len(weights["tokens.weight"]), width=weights["places"].shape[1], heads=4,
        layers=2, mlp_ratio=2, output_dim=DIM, no_causal_mask=True, use_pad_mask=True, pad_id=0, pool_type="first",
        proj_bias=True, act_layer=nn.ReLU,
    )  # fmt: skip
    tower.text_projection = PlacedLinear(place)
    tower.load_state_dict({_renamed(name): value for name, value in weights.items()})
    return tower


def _renamed(name: str) -> str:
    if name.startswith("layers."):
        _, layer, rest = name.split(".", 2)
        old = next(old for old in LAYERS if rest.startswith(old))
        return f"transformer.resblocks.{layer}.{LAYERS[old]}{rest.removeprefix(old)}"
    old = next(old for old in OTHERS if name.startswith(old))
    return OTHERS[old] + name.removeprefix(old)


def stored_weights(path: Path) -> dict[str, Tensor]:
    """Weights in an exported file by their names in `towers`, in 32 bits."""
    graph: Any = onnx.load(str(path)).graph
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    weights = {
        tensor.name.removesuffix(".half"): torch.from_numpy(numpy_helper.to_array(tensor).astype(np.float32))
        for tensor in graph.initializer
        if tensor.data_type in floats
    }
    for node in graph.node:  # The exporter transposes a linear layer's matrix and forgets its name.
        if node.op_type == "MatMul" and node.input[1] in weights:
            _, layer, *_, part, _ = node.output[0].split("/")
            weights[f"{layer}.{part}.weight"] = weights.pop(node.input[1]).T.contiguous()
    return weights
