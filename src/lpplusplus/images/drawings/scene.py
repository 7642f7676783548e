"""What is in an image: shapes, the attributes that `render` draws, in words, and where it draws the things.

A shape is made of polygons in a box of [-1, 1] × [-1, 1], y downwards, each adding area or taking it away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

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


def _heart() -> list[Stroke]:
    t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [(np.stack([np.sin(t) ** 3, -(y + 2.5) / 15], axis=1), True)]


def _spiral() -> list[Stroke]:
    t = np.linspace(0.6, 5.2 * np.pi, 110)
    path = (t / t[-1] * 0.88)[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
    return [(ribbon(path, 0.19), True)]


OUTLINES: dict[str, Callable[[], list[Stroke]]] = {
    "circle": lambda: [(arc(1), True)],
    "square": lambda: [(box(-0.85, -0.85, 0.85, 0.85), True)],
    "triangle": lambda: [(regular(3), True)],
    "star": lambda: [(_spikes(5, 0.42), True)],
    "heart": _heart,
    "cross": lambda: [(box(-0.3, -0.95, 0.3, 0.95), True), (box(-0.95, -0.3, 0.95, 0.3), True)],
    "ring": lambda: [(arc(1), True), (arc(0.58), False)],
    "diamond": lambda: [(polygon((0, -1), (0.68, 0), (0, 1), (-0.68, 0)), True)],
    "arrow": lambda: [
        (polygon((-1, -0.25), (0.1, -0.25), (0.1, -0.7), (1, 0), (0.1, 0.7), (0.1, 0.25), (-1, 0.25)), True)
    ],
    "spiral": _spiral,
    "house": lambda: [
        (box(-0.7, -0.15, 0.7, 0.95), True),
        (polygon((-1, -0.15), (0, -0.95), (1, -0.15)), True),
        (box(-0.18, 0.4, 0.18, 0.95), False),
    ],
    "tree": lambda: [
        (box(-0.16, 0.4, 0.16, 1), True),
        (polygon((0, -1), (0.6, -0.1), (-0.6, -0.1)), True),
        (polygon((0, -0.6), (0.8, 0.5), (-0.8, 0.5)), True),
    ],
    "fish": lambda: [
        (arc(0.72, -0.25, 0, squash=0.68), True),
        (polygon((0.3, 0), (1, -0.55), (1, 0.55)), True),
        (arc(0.1, -0.62, -0.12), False),
    ],
    "cup": lambda: [
        (arc(0.42, 0.52, -0.1), True),
        (arc(0.22, 0.54, -0.1), False),
        (polygon((-0.85, -0.75), (0.55, -0.75), (0.4, 0.8), (-0.7, 0.8)), True),
    ],
    "boat": lambda: [
        (polygon((-1, 0.3), (1, 0.3), (0.6, 0.85), (-0.6, 0.85)), True),
        (polygon((-0.05, -0.95), (-0.05, 0.15), (-0.8, 0.15)), True),
        (polygon((0.08, -0.7), (0.08, 0.15), (0.7, 0.15)), True),
    ],
    "cloud": lambda: [
        (arc(0.42, -0.55, 0.2), True),
        (arc(0.55, 0, -0.12), True),
        (arc(0.42, 0.55, 0.2), True),
        (box(-0.55, 0.15, 0.55, 0.62), True),
    ],
    "mushroom": lambda: [
        (arc(0.95, 0, 0.05, 180, 360), True),
        (polygon((-0.28, 0.05), (0.28, 0.05), (0.36, 0.9), (-0.36, 0.9)), True),
    ],
    "umbrella": lambda: [
        (arc(1, 0, 0.05, 180, 360), True),
        (ribbon(np.concatenate([polygon((0, 0), (0, 0.3)), arc(0.2, 0.2, 0.72, 180, 20)]), 0.13), True),
    ],
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


COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 38, 38),
    "orange": (245, 135, 20),
    "yellow": (245, 215, 40),
    "green": (40, 160, 60),
    "cyan": (40, 195, 205),
    "blue": (40, 75, 215),
    "purple": (130, 45, 170),
    "pink": (245, 130, 180),
    "brown": (125, 75, 35),
    "black": (25, 25, 25),
    "white": (245, 245, 245),
    "grey": (135, 135, 135),
}
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
