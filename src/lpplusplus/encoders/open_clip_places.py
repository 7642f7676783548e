"""Embeddings of each place in an image by an open_clip image tower, not only of the whole image."""

from typing import Any

import torch

from .base import EncoderError


def image_and_places(visual: Any, images: Any, spec: str) -> Any:
    """Embeddings of whole images, then of their places, by the tower's own modules; (n, 1 + places, dim)."""
    kind = type(visual).__name__
    pooled = getattr(visual, "attn_pool", None) is not None
    convolutional = kind == "ModifiedResNet"
    if not convolutional and (kind != "VisionTransformer" or pooled):
        raise EncoderError(
            f"{spec}: no places can be read from its image tower, a {kind}{' with a pooler' if pooled else ''}. "
            f"Use a ResNet or vision transformer of open_clip's own, such as RN50 or ViT-B-32."
        )
    inside = visual.layer4 if convolutional else visual.transformer
    seen: list[Any] = []
    handle = inside.register_forward_hook(lambda module, inputs, output: seen.append(output))
    try:
        whole = visual(images)
    finally:
        handle.remove()
    places = pooled_places(visual.attnpool, seen[-1]) if convolutional else visual.ln_post(seen[-1]) @ visual.proj
    return torch.cat([whole[:, None], places[:, 1:]], dim=1)


def pooled_places(pool: Any, x: Any) -> Any:
    """All outputs of CLIP's attention pool: first the one of the mean, which the model returns, then one per place."""
    x = x.flatten(2).mT
    x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + pool.positional_embedding
    n, length, width = x.shape
    q, k, v = (
        layer(x).reshape(n, length, pool.num_heads, width // pool.num_heads).transpose(1, 2)
        for layer in (pool.q_proj, pool.k_proj, pool.v_proj)
    )
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
    return pool.c_proj(mixed)
