"""Scenes at random: what the model of drawings is trained on, and what is kept from it."""

from __future__ import annotations

import numpy as np

from lpplusplus.images.drawings.scene import ARRANGEMENTS, BACKDROPS, COLOURS, PLACES, RELATIONS, TEXTURES, Scene, Thing

from .shapes import SHAPES

_PAIR_NOT_TRAINED = {
    ("red", "star"), ("blue", "star"), ("green", "heart"), ("purple", "heart"), ("yellow", "arrow"), ("pink", "fish"),
    ("orange", "house"), ("cyan", "cross"), ("brown", "circle"), ("black", "diamond"), ("white", "tree"),
    ("grey", "ring"), ("red", "boat"), ("blue", "mushroom"), ("green", "square"), ("purple", "flower"),
    ("yellow", "crescent"), ("pink", "cup"), ("orange", "drop"), ("cyan", "triangle"), ("brown", "bell"),
    ("black", "cloud"),
}  # fmt: skip
HELD_OUT_PAIRS = tuple(sorted(_PAIR_NOT_TRAINED))
"""(colour, shape) that the training of the model of drawings never shows or names, to measure composition."""


def random_thing(rng: np.random.Generator, *, avoid: tuple[str, ...] = (), held_out: bool = True) -> Thing:
    """Any thing that has none of the colours `avoid`; with `held_out=False`, none of `HELD_OUT_PAIRS`."""
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
