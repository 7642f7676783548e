"""CLIP in one word: OpenAI's models in ONNX, from the hub."""

from . import onnx
from .kinds import Access, EncoderKind, NetworkNeededError

MODELS = {"clip": "immich-app/ViT-B-32__openai", "clip-large": "immich-app/ViT-L-14__openai"}
"""The hub id of each, with "@commit" if one is pinned. What was downloaded once stays, and files that name the encoder
name its commit."""


def _kind(name: str, about: str, size: int) -> EncoderKind:
    def open_model(spec: str, access: Access) -> onnx.OnnxEncoder:
        # What is here is used, and the hub is not asked for something newer.
        return onnx.OnnxEncoder(MODELS[name], download=access is not Access.LOCAL and not here())

    def here() -> bool:
        from .onnx_hub import locate

        try:
            locate(MODELS[name], download=False)
        except NetworkNeededError:
            return False
        return True

    return EncoderKind(
        scheme=name, about=about, needs=onnx.KIND.needs, packages=onnx.KIND.packages, open=open_model, size=size,
        here=here,
    )  # fmt: skip


KINDS = {
    "clip": _kind("clip", "CLIP ViT-B/32: anything that has a name; downloaded once", 606_000_000),
    "clip-large": _kind("clip-large", "CLIP ViT-L/14: better, ten times slower; downloaded once", 1_700_000_000),
}
