"""CLIP in one word: OpenAI's models in ONNX, from the hub."""

from __future__ import annotations

from . import onnx
from .base import EncoderError
from .kinds import Access, EncoderKind

MODELS = {"clip": "immich-app/ViT-B-32__openai", "clip-large": "immich-app/ViT-L-14__openai"}
"""The hub id of each, with "@commit" where one is pinned.

What was downloaded once stays: files that name the encoder name its commit too."""


def _kind(name: str, about: str, size: int) -> EncoderKind:
    def open_clip(spec: str, access: Access) -> onnx.OnnxEncoder:
        return onnx.OnnxEncoder(MODELS[name], download=access is not Access.LOCAL)

    def here() -> bool:
        from .onnx_hub import locate

        try:
            locate(MODELS[name], download=False)
        except EncoderError:
            return False
        return True

    return EncoderKind(
        scheme=name, about=about, needs=onnx.KIND.needs, packages=onnx.KIND.packages, open=open_clip, size=size,
        here=here,
    )  # fmt: skip


KINDS = {
    "clip": _kind("clip", "CLIP ViT-B/32: anything that has a name; downloaded once", 606_000_000),
    "clip-large": _kind("clip-large", "CLIP ViT-L/14: better, ten times slower; downloaded once", 1_700_000_000),
}
