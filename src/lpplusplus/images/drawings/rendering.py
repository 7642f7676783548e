"""Images of scenes, as a hand would sketch them: strokes on paper, clutter, other tints.

Every choice comes from the generator that is passed, so a seed gives the same pixels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from .scene import COLOURS, Points, Scene, Spot, parts, place, smooth

_OVERSAMPLING = 2


def render(scene: Scene, rng: np.random.Generator, size: int = 128) -> Image.Image:
    """Draw a scene as an RGB image of `size` × `size` pixels."""
    if size < 16:
        raise ValueError(f"size is {size}: images of at least 16 pixels can show a scene.")
    side = size * _OVERSAMPLING
    spots = place(scene, rng, loose=True)
    canvas = _paper(scene, rng, size).resize((side, side), Image.Resampling.BILINEAR)
    style = _Hand.random(rng)
    for spot in spots:
        _sketch(canvas, spot, style, rng)
    _scribble(canvas, rng)
    image = canvas.reduce(_OVERSAMPLING).filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 0.012)) * size))
    return _grain(image, rng, float(rng.uniform(12, 20)) * size / 128)


@dataclass(frozen=True)
class _Hand:
    """How one hand draws: bent outlines, a hatched or washed fill, ink of a darker or a grey tone."""

    wobble: float
    hatched: bool
    slant: float
    gap: float
    strength: float
    ink: float

    @staticmethod
    def random(rng: np.random.Generator) -> "_Hand":
        return _Hand(
            wobble=float(rng.uniform(0.04, 0.08)),
            hatched=bool(rng.random() < 0.85),
            slant=float(rng.uniform(0, np.pi)),
            gap=float(rng.uniform(0.022, 0.04)),
            strength=float(rng.uniform(0.7, 0.9)),
            ink=float(rng.uniform(0.5, 0.8)),
        )


def _paper(scene: Scene, rng: np.random.Generator, side: int) -> Image.Image:
    """Blotched, ruled, squared or creased paper, tinted by the scene's background."""
    tone = _mix(_tint(scene.background, rng, 10), (225, 215, 195), float(rng.uniform(0.6, 0.9)))
    blots = 128 + rng.normal(0, 30, (7, 7, 1)) + rng.normal(0, 10, (7, 7, 3))
    coarse = _image(blots).resize((side, side), Image.Resampling.BICUBIC)
    ground = tone + (np.asarray(coarse, np.float32) - 128) * float(rng.uniform(0.3, 1))
    kind = int(rng.integers(4))
    period = side / float(rng.uniform(7, 13))
    if kind < 2:
        rules = _stripes(side, period, 0.0, part=0.14)
        rules = rules | _stripes(side, period, np.pi / 2, part=0.14) if kind else rules
        ground = np.where(rules[..., None], ground * 0.65 + np.array((80.0, 110.0, 160.0)) * 0.35, ground)
    elif kind == 2:
        turn, depth = float(rng.uniform(0, np.pi)), float(rng.uniform(15, 35))
        ground = ground - depth * _stripes(side, side * 1.1, turn, part=0.5)[..., None]
    return _image(ground)


def _sketch(canvas: Image.Image, spot: Spot, style: "_Hand", rng: np.random.Generator) -> None:
    side = canvas.width
    colour = _mix(_tint(spot.thing.colour, rng, 22), (150, 140, 125), float(rng.uniform(0, 0.25)))
    outlines = _outlines(spot, side, style.wobble, rng)
    box = _bounds(outlines, side)
    if spot.thing.texture != "hollow":
        size = (box[2] - box[0], box[3] - box[1])
        mask = np.asarray(_mask(outlines, side).crop(box), np.float32) * np.float32(style.strength)
        if style.hatched:
            mask = mask * _stripes(max(size), style.gap * side, style.slant, part=0.62)[: size[1], : size[0]]
        canvas.paste(_fill(spot, colour, rng, size, side), box[:2], Image.fromarray(mask.astype(np.uint8)))
    draw = ImageDraw.Draw(canvas)
    ink = _mix(colour, (40, 38, 45), style.ink)
    for again in _outlines(spot, side, style.wobble, rng), outlines:
        for points, _ in again:
            _stroke(draw, points, ink, max(2, round(side * float(rng.uniform(0.006, 0.016)))))


def _scribble(canvas: Image.Image, rng: np.random.Generator) -> None:
    """A few stray strokes and blots anywhere."""
    draw, side = ImageDraw.Draw(canvas), canvas.width
    for _ in range(int(rng.integers(0, 5))):
        shade = tuple(int(v) for v in rng.integers(30, 230, 3))
        path = np.cumsum(rng.normal(0, 0.09, (int(rng.integers(3, 8)), 2)), axis=0) + rng.uniform(0, 1, 2)
        draw.line([(float(x), float(y)) for x, y in path * side], fill=shade, width=max(1, round(0.008 * side)))


def _fill(
    spot: Spot, colour: NDArray[np.float64], rng: np.random.Generator, size: tuple[int, int], side: int
) -> Image.Image:
    dark = colour.mean() < 110
    other = _mix(colour, (255, 255, 255) if dark else (0, 0, 0), float(rng.uniform(0.6, 0.85)))
    on = _pattern(spot.thing.texture, size, spot.radius * side, spot.angle, rng)
    return _image(np.where(on[..., None], other, colour))


def _pattern(
    texture: str, size: tuple[int, int], radius: float, angle: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    width, height = size
    if texture not in ("striped", "dotted", "checkered"):
        return np.zeros((height, width), bool)
    turn = angle + float(rng.uniform(0, np.pi) if texture == "striped" else rng.uniform(-0.3, 0.3))
    period = radius * float(rng.uniform(0.42, 0.6))
    y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None, :]
    u, v = (np.cos(turn) * x + np.sin(turn) * y) / period, (np.cos(turn) * y - np.sin(turn) * x) / period
    if texture == "striped":
        return np.asarray(u % 1 < 0.42)
    if texture == "checkered":
        return np.asarray((np.floor(1.6 * u) + np.floor(1.6 * v)) % 2 == 0)
    return np.asarray((u % 1 - 0.5) ** 2 + (v % 1 - 0.5) ** 2 < 0.09)


def _outlines(
    spot: Spot, side: int, wobble: float = 0.0, rng: np.random.Generator | None = None
) -> list[tuple[Points, bool]]:
    """The shape's polygons in pixels; with `rng`, bent by smooth waves of relative height `wobble`."""
    c, s = np.cos(spot.angle), np.sin(spot.angle)
    turn = spot.radius * side * np.array([(c, s), (-s, c)])
    centre = np.array((spot.x, spot.y)) * side
    drawn = []
    for points, adds in parts(spot.thing.shape):
        if rng is not None:
            points = smooth(points)
            waves, phase = rng.normal(0, wobble / 2, (3, 2)), rng.uniform(0, 2 * np.pi, (3, 2))
            for k in range(3):
                points = points + waves[k] * np.sin((1.5 + 1.5 * k) * points[:, ::-1] + phase[k])
        drawn.append((points @ turn + centre, adds))
    return drawn


def _mask(outlines: list[tuple[Points, bool]], side: int) -> Image.Image:
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    for points, adds in outlines:
        draw.polygon([(float(x), float(y)) for x, y in points], fill=255 if adds else 0)
    return mask


def _stroke(draw: ImageDraw.ImageDraw, points: Points, colour: NDArray[np.float64], width: int) -> None:
    path = [(float(x), float(y)) for x, y in (*points, *points[:2])]
    draw.line(path, fill=tuple(int(v) for v in np.clip(colour, 0, 255)), width=width, joint="curve")


def _bounds(outlines: list[tuple[Points, bool]], side: int) -> tuple[int, int, int, int]:
    """A box around the outlines within the canvas, of at least one pixel."""
    every = np.concatenate([points for points, _ in outlines])
    left, top = (int(v) for v in np.clip(np.floor(every.min(axis=0)), 0, side - 1))
    right, bottom = (int(v) for v in np.clip(np.ceil(every.max(axis=0)) + 1, (left + 1, top + 1), side))
    return left, top, right, bottom


def _stripes(side: int, period: float, turn: float, part: float = 0.5) -> NDArray[np.bool_]:
    steps = np.arange(side, dtype=np.float32) / period
    return np.asarray((np.cos(turn) * steps[None, :] + np.sin(turn) * steps[:, None]) % 1 < part)


def _tint(colour: str, rng: np.random.Generator, noise: float) -> NDArray[np.float64]:
    return np.clip(np.array(COLOURS[colour], float) + rng.normal(0, noise, 3), 0, 255)


def _mix(a: NDArray[np.float64], b: tuple[int, int, int], share: float) -> NDArray[np.float64]:
    return (1 - share) * a + share * np.array(b, float)


def _image(values: NDArray[np.float64]) -> Image.Image:
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _grain(image: Image.Image, rng: np.random.Generator, noise: float) -> Image.Image:
    values = np.asarray(image, np.float32)
    return _image(values + noise * rng.standard_normal(values.shape, dtype=np.float32))
