"""The two towers: a small residual network for 64 × 64 pictures, a small transformer for captions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

DIM = 128
SIZE = 64
CONTEXT = 32
MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(width, width), _convolution(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return fn.relu(x + self.second(fn.relu(self.first(x))))


class ImageTower(nn.Module):
    """(n, 3, 64, 64) standardised pixels to (n, DIM).

    The last map is averaged within a 2 × 2 grid, not overall, so that "above" and "left" can be told. Smaller pictures
    are taken too, which makes the first part of training cheap.
    """

    def __init__(self, widths: tuple[int, ...] = (32, 48, 96, 160)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths), widths, strict=False):
            layers += [_convolution(before, width, 2), nn.ReLU()]
            if width != widths[0]:
                layers.append(_Residual(width))
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(4 * widths[-1], 192), nn.ReLU(), nn.Linear(192, DIM))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(fn.adaptive_avg_pool2d(self.body(image), 2).flatten(1))


class _Attention(nn.Module):
    """Pre-norm self-attention and MLP, written out so that it exports to plain ONNX operators."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.part = heads, width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        n, length = x.shape[0], x.shape[1]
        q, k, v = self.qkv(self.before(x)).reshape(n, length, 3, self.heads, self.part).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * self.part**-0.5 + bias, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, length, -1))
        return x + self.mlp(self.between(x))


class TextTower(nn.Module):
    """(n, up to CONTEXT) token ids, 0 for padding, to (n, DIM): the first token's state after the last layer."""

    def __init__(self, vocabulary: int, width: int = 128, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        nn.init.normal_(self.tokens.weight, std=0.05)
        self.layers = nn.ModuleList(_Attention(width, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, DIM))

    def forward(self, text: Tensor) -> Tensor:
        bias = (text == 0)[:, None, None, :].float() * -1e4
        x = self.tokens(text.long()) + self.places[: text.shape[1]]
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(x[:, 0])


class DualEncoder(nn.Module):
    """Both towers and the learned temperature."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.image, self.text = ImageTower(), TextTower(vocabulary)
        self.log_scale = nn.Parameter(torch.tensor(3.0))

    def loss(self, images: Tensor, tokens: Tensor) -> Tensor:
        """Symmetric InfoNCE in which equal captions share the target, since each fits the other's picture."""
        scale = self.log_scale.clamp(max=4.6).exp()
        u, v = fn.normalize(self.image(images), dim=1), fn.normalize(self.text(tokens), dim=1)
        same = (tokens[:, None] == tokens[None]).all(dim=2).float()
        target = same / same.sum(dim=1, keepdim=True)
        logits = scale * u @ v.T
        return (fn.cross_entropy(logits, target) + fn.cross_entropy(logits.T, target)) / 2
