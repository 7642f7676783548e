"""What is in an image, in words: the attributes that `render` draws, and where it draws the things."""

from dataclasses import dataclass

import numpy as np

from .shapes import OUTLINES

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
