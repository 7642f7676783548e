"""What is in a picture, in words: the attributes that `render` draws and `caption` names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .shapes import SHAPES

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

_PAIR_NOT_TRAINED = {
    ("red", "star"), ("blue", "star"), ("green", "heart"), ("purple", "heart"), ("yellow", "arrow"), ("pink", "fish"),
    ("orange", "house"), ("cyan", "cross"), ("brown", "circle"), ("black", "diamond"), ("white", "tree"),
    ("grey", "ring"), ("red", "boat"), ("blue", "mushroom"), ("green", "square"), ("purple", "flower"),
    ("yellow", "crescent"), ("pink", "cup"), ("orange", "drop"), ("cyan", "triangle"), ("brown", "bell"),
    ("black", "cloud"),
}  # fmt: skip
HELD_OUT_PAIRS = tuple(sorted(_PAIR_NOT_TRAINED))
"""(colour, shape) that the embedded model's training never shows nor names, so that composition can be measured."""


@dataclass(frozen=True)
class Thing:
    """One object: a shape in a colour with a texture."""

    shape: str
    colour: str
    texture: str = "plain"

    def __post_init__(self) -> None:
        _one_of("shape", self.shape, SHAPES)
        _one_of("colour", self.colour, tuple(COLOURS))
        _one_of("texture", self.texture, TEXTURES)


@dataclass(frozen=True)
class Scene:
    """A picture's contents: `count` copies of `thing`, or `thing` in a relation to `other`, before a background."""

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


def random_thing(rng: np.random.Generator, *, avoid: tuple[str, ...] = (), held_out: bool = True) -> Thing:
    """Any thing but of the colours `avoid`; with `held_out=False`, none of `HELD_OUT_PAIRS`."""
    colours = [colour for colour in COLOURS if colour not in avoid]
    while True:
        shape, colour = str(rng.choice(SHAPES)), str(rng.choice(colours))
        if held_out or (colour, shape) not in _PAIR_NOT_TRAINED:
            break
    return Thing(shape, colour, str(rng.choice(TEXTURES, p=(0.44, 0.16, 0.14, 0.14, 0.12))))


def random_scene(rng: np.random.Generator, *, held_out: bool = True) -> Scene:
    """Any scene; with `held_out=False`, none that shows a pair of `HELD_OUT_PAIRS`, as in training."""
    background = str(rng.choice(tuple(COLOURS)))
    thing = random_thing(rng, avoid=(background,), held_out=held_out)
    backdrop = str(rng.choice(BACKDROPS, p=(0.6, 0.2, 0.2)))
    kind = rng.random()
    if kind < 0.5:
        place = str(rng.choice(PLACES, p=(0.6, 0.1, 0.1, 0.1, 0.1)))
        size = str(rng.choice(("small", "medium", "large")))
        return Scene(thing, place=place, size=size, background=background, backdrop=backdrop)
    if kind < 0.78:
        count, arrangement = int(rng.integers(2, 6)), str(rng.choice(ARRANGEMENTS, p=(0.5, 0.25, 0.25)))
        return Scene(thing, count=count, arrangement=arrangement, background=background, backdrop=backdrop)
    other = random_thing(rng, avoid=(background, thing.colour), held_out=held_out)
    relation = str(rng.choice(RELATIONS))
    return Scene(thing, other=other, relation=relation, background=background, backdrop=backdrop)
