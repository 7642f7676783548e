"""Pictures of the domain "plain", which the model of drawings is trained on; the package itself draws the other one.

The plain domain has flat or softly shaded grounds and filled shapes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from lpplusplus.images import drawings
from lpplusplus.images.drawings import Scene
from lpplusplus.images.drawings.scene import (
    _OVERSAMPLING,
    Spot,
    _bounds,
    _fill,
    _grain,
    _image,
    _mask,
    _mix,
    _outlines,
    _stripes,
    _stroke,
    _tint,
    place,
)

DOMAINS = ("plain", "shifted")


def render(scene: Scene, rng: np.random.Generator, domain: str = "plain", size: int = 128) -> Image.Image:
    """Draw a scene as an RGB image of `size` × `size` pixels, in the "plain" or the "shifted" domain."""
    if domain not in DOMAINS:
        raise ValueError(f"domain is {domain!r}: use one of {', '.join(DOMAINS)}.")
    if domain == "shifted" or size < 16:
        return drawings.render(scene, rng, size)
    side = size * _OVERSAMPLING
    spots = place(scene, rng, loose=False)
    canvas = _backdrop(scene, rng, size).resize((side, side), Image.Resampling.BILINEAR)
    for spot in spots:
        _paint(canvas, spot, rng)
    return _grain(canvas.reduce(_OVERSAMPLING), rng, float(rng.uniform(0, 6)))


def _backdrop(scene: Scene, rng: np.random.Generator, side: int) -> Image.Image:
    base = _mix(
        _tint(scene.background, rng, 10), (255, 255, 255), 0.0 if scene.background in ("white", "black") else 0.3
    )
    shade: NDArray[np.float64] = np.zeros((side, side))
    if scene.backdrop == "striped":
        shade = np.where(_stripes(side, side / float(rng.uniform(8, 14)), float(rng.uniform(0, np.pi))), -14.0, 8.0)
    elif scene.backdrop == "speckled":
        grains = np.arange(side) * 32 // side
        shade = rng.normal(0, 14, (32, 32))[grains][:, grains]
    turn = float(rng.uniform(0, 2 * np.pi))
    slope = np.linspace(-1, 1, side) * float(rng.uniform(0, 20))
    shade = shade + np.cos(turn) * slope[None, :] + np.sin(turn) * slope[:, None]
    return _image(base + shade[..., None])


def _paint(canvas: Image.Image, spot: Spot, rng: np.random.Generator) -> None:
    side = canvas.width
    colour = _tint(spot.thing.colour, rng, 12)
    outlines = _outlines(spot, side)
    box = _bounds(outlines, side)
    if spot.thing.texture == "hollow":
        draw = ImageDraw.Draw(canvas)
        width = max(2, round(float(rng.uniform(0.13, 0.2)) * spot.radius * side))
        for points, _ in outlines:
            _stroke(draw, points, colour, width)
        return
    mask = _mask(outlines, side).crop(box)
    canvas.paste(_fill(spot, colour, rng, mask.size, side), box[:2], mask)
