"""Preprocessing, from a decoded photo to the encoder's input, as an ONNX graph: the same bits as with Pillow.

Pillow resizes one axis after the other. Each output pixel is a weighted sum of the input pixels around its centre. The
weights are computed in double precision, rounded to 22 bits behind the point, and multiplied with bytes in whole
numbers; the sum is rounded to a byte again before the second axis. ONNX's own `Resize` does none of that rounding, so
the graph does what Pillow does:

- Weights come from the size of the photo, by elementary operators on doubles.
- A weight of 22 bits is three bytes, w = Σ_j (b_j - 128) 256^j, and `MatMulInteger` multiplies bytes exactly.
- Output pixels are computed in blocks of neighbours, which need few input pixels. One product with a dense matrix would
  take ten times as many operations.
- What the centre crop leaves out is not computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from PIL import Image

from ...encoders.pixels.preprocessing import Preprocessing
from .head import Graph

BITS = 22
"""Pillow's precision of weights."""
RADIUS = {"bicubic": 2.0, "bilinear": 1.0}
"""How far each filter reaches, in pixels of the smaller image."""
BLOCK = 16
"""Most output pixels that are computed together."""


def pixels_model(how: Preprocessing, result: str, dtype: Any, opset: int, ir_version: int) -> onnx.ModelProto:
    """A graph from "image", upright RGB of shape (height, width, 3) in bytes, to `result`, (1, 3, size, size)."""
    g = Graph("pixels_")
    image = g.input("image", np.uint8, ("height", "width", 3))
    shape = g("Shape", image)
    sides = [g("Gather", shape, np.int64(axis)) for axis in (0, 1)]
    shorter = g("Min", *sides) if how.resize == "shortest" else None
    rows, columns = (_axis(g, side, shorter, how) for side in sides)
    starts, stops = (g("Concat", a, b, axis=0) for a, b in ((rows.start, columns.start), (rows.stop, columns.stop)))
    part = g("Slice", image, starts, stops, np.array([0, 1]))
    if not tall_first():
        rows_first = g.constant(np.array(False))
    else:  # If the height shrinks by more than twice as many pixels as the width.
        less = [g("Sub", _double(g, side), one.total) for side, one in zip(sides, (rows, columns), strict=True)]
        more = g("Greater", less[0], g("Mul", less[1], np.float64(2)))
        rows_first = g("And", more, g("Greater", less[0], np.float64(0)))
    part = g.either(rows_first, ("Transpose", part), ("Transpose", part), np.uint8, perm=([0, 2, 1], [1, 2, 0]))
    for first, second in ((rows, columns), (columns, rows)):
        taps = g.either(rows_first, ("Identity", first.taps), ("Identity", second.taps), np.int64)
        digits = g.either(rows_first, ("Identity", first.digits), ("Identity", second.digits), np.uint8)
        part = g("Transpose", _resampled(g, part, taps, digits, how.size), perm=[2, 1, 0])
    done = g.either(rows_first, ("Transpose", part), ("Transpose", part), np.uint8, perm=([1, 0, 2], [1, 2, 0]))
    values = g("Cast", g("Unsqueeze", done, np.array([0])), to=1)  # 1 is float32.
    scaled = g("Div", values, np.float32(255))
    mean, std = (np.asarray(three, np.float32)[:, None, None] for three in (how.mean, how.std))
    standard = g("Div", g("Sub", scaled, mean), std)
    kind = {np.dtype(np.float32): 1, np.dtype(np.float16): 10}[np.dtype(dtype)]
    g("Cast", standard, to=kind, result=result)
    g.output(result, dtype, (1, 3, how.size, how.size))
    return g.model(opset, ir_version)


def tall_first() -> bool:
    """Whether the Pillow of this machine resizes rows before columns in tall images, as versions since 12 may."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 4), dtype=np.uint8))
    bicubic = Image.Resampling.BICUBIC
    return noise.resize((2, 8), bicubic) == noise.resize((4, 8), bicubic).resize((2, 8), bicubic)


@dataclass(frozen=True)
class _Axis:
    """Names of what resizing along one axis needs. There are B blocks of G output pixels, each with T input pixels."""

    total: str
    """Pixels after resizing, before the crop."""
    start: str
    """(1,) First input pixel that is needed."""
    stop: str
    """(1,) First input pixel after the needed ones."""
    taps: str
    """(B, T) Input pixels of each block, counted from `start`."""
    digits: str
    """(B, 3 G, T) Bytes of the weights: for each j, all pixels of the block."""


def _axis(g: Graph, side: str, shorter: str | None, how: Preprocessing) -> _Axis:
    """The weights of Pillow's filter for an axis of `side` pixels; see `precompute_coeffs` in its Resample.c."""
    size, radius = how.size, RADIUS[how.interpolation]
    block = _block(size)
    x = np.arange(size, dtype=np.float64).reshape(-1, block) + 0.5
    length, total, centre = _double(g, side), g.constant(np.float64(size)), g.constant(x)
    if shorter is not None:  # The centre of the resized image; its longer side is rounded down.
        total = _double(g, g("Div", g("Mul", side, np.int64(size)), shorter))
        left = g("Round", g("Mul", g("Sub", total, np.float64(size)), np.float64(0.5)))  # Half to even, as Python's.
        centre = g("Add", left, centre)
    ratio = g("Div", length, total)
    centre = g("Mul", centre, ratio)
    widening = g("Max", ratio, np.float64(1))
    reach = g("Mul", widening, np.float64(radius))
    low = g("Floor", g("Max", g("Add", g("Sub", centre, reach), np.float64(0.5)), np.float64(0)))
    high = g("Min", g("Floor", g("Add", g("Add", centre, reach), np.float64(0.5))), length)

    first = g("Slice", low, np.array([0]), np.array([1]), np.array([1]))  # (B, 1)
    last = g("Slice", high, np.array([block - 1]), np.array([block]), np.array([1]))
    width = g("ReduceMax", g("Sub", last, first), keepdims=0)
    taps = g("Add", first, g("Range", np.float64(0), width, np.float64(1)))  # (B, T)
    start, stop = g("ReduceMin", low, keepdims=0), g("ReduceMax", high, keepdims=0)
    inside = g("Min", g("Sub", taps, start), g("Sub", g("Sub", stop, start), np.float64(1)))

    position, centre, low, high = (
        g("Unsqueeze", one, np.array([axis])) for one, axis in ((taps, 1), (centre, 2), (low, 2), (high, 2))
    )
    distance = g("Mul", g("Add", g("Sub", position, centre), np.float64(0.5)), g("Div", np.float64(1), widening))
    meant = g("And", g("Not", g("Less", position, low)), g("Less", position, high))
    weights = g("Where", meant, _filter(g, g("Abs", distance), how.interpolation), np.float64(0))
    weights = g("Mul", weights, g("Div", np.float64(1), g("ReduceSum", weights, np.array([2]), keepdims=1)))
    return _Axis(
        total,
        g("Reshape", _whole(g, start), np.array([1])),
        g("Reshape", _whole(g, stop), np.array([1])),
        _whole(g, inside),
        _bytes(g, weights, block),
    )


def _filter(g: Graph, x: str, name: str) -> str:
    """The weight at a distance x ≥ 0, in pixels of the smaller image. Bicubic is Keys's with a = -0.5."""
    if name == "bilinear":
        return g("Max", g("Sub", np.float64(1), x), np.float64(0))
    a = -0.5
    near = g("Mul", g("Sub", g("Mul", x, np.float64(a + 2)), np.float64(a + 3)), x)
    near = g("Add", g("Mul", near, x), np.float64(1))
    far = g("Add", g("Mul", g("Sub", x, np.float64(5)), x), np.float64(8))
    far = g("Mul", g("Sub", g("Mul", far, x), np.float64(4)), np.float64(a))
    far = g("Where", g("Less", x, np.float64(2)), far, np.float64(0))
    return g("Where", g("Less", x, np.float64(1)), near, far)


def _bytes(g: Graph, weights: str, block: int) -> str:
    """(B, G, T) weights in fixed point, each as three bytes: (B, 3 G, T)."""
    fixed = g("Mul", weights, np.float64(2**BITS))
    half = g("Where", g("Less", fixed, np.float64(0)), np.float64(-0.5), np.float64(0.5))
    fixed = g("Add", _whole(g, g("Add", fixed, half)), np.int64(128 * (1 + 256 + 256**2)))
    digits = g("Div", g("Unsqueeze", fixed, np.array([1])), np.array([1, 256, 256**2])[:, None, None])
    digits = g("Cast", g("Mod", digits, np.int64(256)), to=2)  # 2 is uint8.
    return g("Reshape", digits, np.array([0, 3 * block, -1]))


def _resampled(g: Graph, pixels: str, taps: str, digits: str, size: int) -> str:
    """(size, 3, M) from pixels of shape (N, 3, M), resized along the first axis."""
    shape = g("Shape", pixels)
    others = g("Slice", shape, np.array([1]), np.array([3]))
    rows = g("Reshape", pixels, g("Concat", g("Slice", shape, np.array([0]), np.array([1])), np.array([-1]), axis=0))
    near = g("Gather", rows, taps, axis=0)  # (B, T, 3 M)
    sums = g("MatMulInteger", digits, near, np.uint8(128))  # (B, 3 G, 3 M)
    block = _block(size)
    sums = _double(g, g("Reshape", sums, np.array([size // block, 3, block, -1])))
    place = 2.0**-BITS * np.array([1.0, 256.0, 256.0**2])[:, None, None]
    sums = g("ReduceSum", g("Mul", sums, place), np.array([1]), keepdims=0)
    rounded = g("Floor", g("Add", sums, np.float64(0.5)))
    clipped = g("Cast", g("Min", g("Max", rounded, np.float64(0)), np.float64(255)), to=2)
    return g("Reshape", clipped, g("Concat", np.array([size]), others, axis=0))


def _block(size: int) -> int:
    return max(n for n in range(1, BLOCK + 1) if size % n == 0)


def _double(g: Graph, x: str) -> str:
    return g("Cast", x, to=11)


def _whole(g: Graph, x: str) -> str:
    """Cut off the digits behind the point, as C does."""
    return g("Cast", x, to=7)
