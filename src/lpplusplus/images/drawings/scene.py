"""What is in an image: shapes, the attributes that `render` draws, in words, and where it draws the things.

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
