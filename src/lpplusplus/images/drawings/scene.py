"""What is in an image, where each thing is drawn, and the drawing: as a hand would sketch it, on paper, with clutter.

Every choice comes from the generator that is passed, so a seed gives the same pixels.

A shape is made of polygons in a box of [-1, 1] × [-1, 1], y downwards, each adding area or taking it away.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Points = NDArray[np.float64]
Stroke = tuple[Points, bool]
"""A closed polygon, (n, 2), and whether it adds area (True) or cuts it out."""


def arc(radius: float, x: float = 0, y: float = 0, start: float = 0, end: float = 360, squash: float = 1) -> Points:
    """Points of an arc, or of a whole ellipse."""
    turn = np.radians(np.linspace(start, end, max(8, int(abs(end - start) / 9)), endpoint=abs(end - start) < 360))
    return np.stack([x + radius * np.cos(turn), y + squash * radius * np.sin(turn)], axis=1)


def regular(corners: int, radius: float = 1) -> Points:
    """A regular polygon, one corner up."""
    turn = 2 * np.pi * np.arange(corners) / corners - np.pi / 2
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def _spikes(points: int, inner: float) -> Points:
    turn = np.pi * np.arange(2 * points) / points - np.pi / 2
    radius = np.where(np.arange(2 * points) % 2, inner, 1.0)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """A rectangle."""
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


def polygon(*corners: tuple[float, float]) -> Points:
    """A polygon by its corners."""
    return np.array(corners, dtype=float)


def ribbon(path: Points, width: float) -> Points:
    """The outline of a line of that width along `path`."""
    along = np.gradient(path, axis=0)
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
    return np.concatenate([path + width / 2 * normal, (path - width / 2 * normal)[::-1]])


def _heart() -> Points:
    t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([np.sin(t) ** 3, -(y + 2.5) / 15], axis=1)


def _spiral() -> Points:
    t = np.linspace(0.6, 5.2 * np.pi, 110)
    path = (t / t[-1] * 0.88)[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
    return ribbon(path, 0.19)


def _handle() -> Points:
    return ribbon(np.concatenate([polygon((0, 0), (0, 0.3)), arc(0.2, 0.2, 0.72, 180, 20)]), 0.13)


_MADE_BY: dict[str, Callable[..., Points]] = {
    "arc": arc, "box": box, "polygon": polygon, "regular": regular, "spikes": _spikes,
    "heart": _heart, "spiral": _spiral, "handle": _handle,
}  # fmt: skip
TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("drawings.json").read_text("utf-8"))
"""Colours, shapes and the demonstration's classes. A shape's polygons are made by the function that each names."""


def _made(strokes: list[list[Any]]) -> list[Stroke]:
    return [(_MADE_BY[kind.removeprefix("cut ")](*numbers), not kind.startswith("cut ")) for kind, *numbers in strokes]


OUTLINES: dict[str, Callable[[], list[Stroke]]] = {
    shape: partial(_made, strokes) for shape, strokes in TABLES["shapes"].items()
}
"""How each shape is made. Those of the demonstration; `tools/drawings` adds what the training shows besides."""


@cache
def parts(shape: str) -> tuple[Stroke, ...]:
    """The polygons of a shape, in drawing order."""
    if shape not in OUTLINES:
        raise ValueError(f"no shape {shape!r}: there are {', '.join(OUTLINES)}.")
    return tuple(OUTLINES[shape]())


def smooth(points: Points, step: float = 0.12) -> Points:
    """The same outline with points at most about `step` apart, so that it can be bent."""
    ahead = np.roll(points, -1, axis=0)
    pieces = np.maximum(1, np.ceil(np.linalg.norm(ahead - points, axis=1) / step).astype(int))
    return np.concatenate(
        [a + (b - a) * (np.arange(n) / n)[:, None] for a, b, n in zip(points, ahead, pieces, strict=True)]
    )


COLOURS: dict[str, tuple[int, int, int]] = {name: tuple(rgb) for name, rgb in TABLES["colours"].items()}
_OVERSAMPLING = 2
TEXTURES = ("plain", "striped", "dotted", "checkered", "hollow")
ARRANGEMENTS = ("scattered", "row", "column")
PLACES = ("centre", "left", "right", "top", "bottom")
RELATIONS = ("inside", "above", "next to")
BACKDROPS = ("plain", "striped", "speckled")


@dataclass(frozen=True)
class Thing:
    """One object: a shape in a colour with a texture."""

    shape: str
    colour: str
    texture: str = "plain"

    def __post_init__(self) -> None:
        _one_of("shape", self.shape, tuple(OUTLINES))
        _one_of("colour", self.colour, tuple(COLOURS))
        _one_of("texture", self.texture, TEXTURES)


@dataclass(frozen=True)
class Scene:
    """What an image shows: `count` copies of `thing`, or `thing` in a relation to `other`, before a background."""

    thing: Thing
    count: int = 1
    arrangement: str = "scattered"
    place: str = "centre"
    size: str = "medium"
    other: Thing | None = None
    relation: str = "next to"
    background: str = "white"
    backdrop: str = "plain"

    def __post_init__(self) -> None:
        _one_of("arrangement", self.arrangement, ARRANGEMENTS)
        _one_of("place", self.place, PLACES)
        _one_of("size", self.size, ("small", "medium", "large"))
        _one_of("relation", self.relation, RELATIONS)
        _one_of("background", self.background, tuple(COLOURS))
        _one_of("backdrop", self.backdrop, BACKDROPS)
        if not 1 <= self.count <= 5:
            raise ValueError(f"count is {self.count}: a scene shows 1 to 5 copies of its thing.")
        if self.other is not None and self.count != 1:
            raise ValueError(f"count is {self.count}, but a scene with a second thing shows one of each: use count=1.")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: use one of {', '.join(allowed)}.")


def pick(options: tuple[str, ...], rng: np.random.Generator) -> str:
    """Any of the options."""
    return options[int(rng.integers(len(options)))]


_UPRIGHT = ("house", "tree", "cup", "boat", "mushroom", "umbrella", "cloud", "bell", "arrow", "fish")


@dataclass(frozen=True)
class Spot:
    """Where a thing is drawn: centre and radius in parts of the canvas, angle in radians."""

    thing: Thing
    x: float
    y: float
    radius: float
    angle: float


def place(scene: Scene, rng: np.random.Generator, *, loose: bool) -> list[Spot]:
    """A spot for each thing of the scene; `loose` turns things more."""

    def spot(thing: Thing, x: float, y: float, radius: float) -> Spot:
        turn = 0.15 if thing.shape in _UPRIGHT else 0.3
        return Spot(thing, x, y, radius, float(rng.normal(0, turn * (1.6 if loose else 1))))

    def near(value: float) -> float:
        return value + float(rng.uniform(-0.03, 0.03))

    if scene.other is not None:
        big, little = (float(v) for v in rng.uniform((0.37, 0.15), (0.43, 0.19)))
        if scene.relation == "inside":
            x, y = near(0.5), near(0.5)
            return [spot(scene.other, x, y, big), spot(scene.thing, x, y, little)]
        a, b = (float(v) for v in rng.uniform(0.17, 0.23, 2))
        if scene.relation == "above":
            return [spot(scene.thing, near(0.5), near(0.26), a), spot(scene.other, near(0.5), near(0.74), b)]
        sides = (0.26, 0.74) if rng.random() < 0.5 else (0.74, 0.26)
        return [spot(scene.thing, near(sides[0]), near(0.5), a), spot(scene.other, near(sides[1]), near(0.5), b)]
    if scene.count == 1:
        radius = float(rng.uniform(*{"small": (0.17, 0.22), "medium": (0.25, 0.31), "large": (0.34, 0.41)}[scene.size]))
        offset = 0.48 - radius
        across = {"left": -offset, "right": offset}.get(scene.place, 0.0) * float(rng.uniform(0.7, 0.95))
        down = {"top": -offset, "bottom": offset}.get(scene.place, 0.0) * float(rng.uniform(0.7, 0.95))
        return [spot(scene.thing, near(0.5 + across), near(0.5 + down), radius)]
    if scene.arrangement == "scattered":
        radius = float(rng.uniform(0.12, 0.155))
        return [spot(scene.thing, x, y, radius) for x, y in _scatter(scene.count, radius, rng)]
    along = (np.arange(scene.count) + 0.5) / scene.count
    radius, line = min(0.14, 0.43 / scene.count) * float(rng.uniform(0.85, 1)), float(rng.uniform(0.3, 0.7))
    if scene.arrangement == "row":
        return [spot(scene.thing, float(x), near(line), radius) for x in along]
    return [spot(scene.thing, near(line), float(y), radius) for y in along]


def _scatter(count: int, radius: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Places that overlap as little as a few dozen tries allow."""
    low, high = radius + 0.02, 0.98 - radius
    chosen = [rng.uniform(low, high, 2)]
    while len(chosen) < count:
        tries = rng.uniform(low, high, (24, 2))
        gaps = np.linalg.norm(tries[:, None] - np.array(chosen)[None], axis=2).min(axis=1)
        free = np.flatnonzero(gaps > 2.3 * radius)
        chosen.append(tries[free[0] if len(free) else int(gaps.argmax())])
    return [(float(x), float(y)) for x, y in chosen]


def render(scene: Scene, rng: np.random.Generator, size: int = 128) -> Image.Image:
    """Draw a scene as an RGB image of `size` × `size` pixels."""
    if size < 16:
        raise ValueError(f"size is {size}: images of at least 16 pixels can show a scene.")
    side = size * _OVERSAMPLING
    spots = place(scene, rng, loose=True)
    canvas = _paper(scene, rng, size).resize((side, side), Image.Resampling.BILINEAR)
    style = _Hand(rng)
    for spot in spots:
        _sketch(canvas, spot, style, rng)
    _scribble(canvas, rng)
    image = canvas.reduce(_OVERSAMPLING).filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 0.012)) * size))
    return _grain(image, rng, float(rng.uniform(12, 20)) * size / 128)


class _Hand:
    """How one hand draws: bent outlines, a hatched or washed fill, ink of a darker or a grey tone."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.wobble = float(rng.uniform(0.04, 0.08))
        self.hatched = bool(rng.random() < 0.85)
        self.slant = float(rng.uniform(0, np.pi))
        self.gap = float(rng.uniform(0.022, 0.04))
        self.strength = float(rng.uniform(0.7, 0.9))
        self.ink = float(rng.uniform(0.5, 0.8))


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
