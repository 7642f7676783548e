"""Sentences about a scene: varied, often incomplete, as people's captions are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lpplusplus.images.drawings.scene import COLOURS, RELATIONS, Scene, Thing, pick

from .shapes import SHAPES

TEMPLATES = (
    "a photo of a {}.", "a photo of {}.", "a picture of {}.", "an image of a {}.", "{}", "{}.", "a {}",
    "there is {} here.", "a drawing of a {}.", "this is {}.", "one can see {}.", "a good photo of a {}.",
    "a blurry photo of a {}.", "a sketch of a {}.", "a rendering of {}.", "a small picture showing {}.", "look, {}!",
    "itap of a {}.",
)  # fmt: skip
FILLERS = ("nice", "simple", "lovely", "old", "new", "fine", "typical", "clean", "rough", "pretty", "odd", "weird")
NUMBERS = {2: ("two", "2", "a pair of"), 3: ("three", "3"), 4: ("four", "4"), 5: ("five", "5")}
SHAPE_WORDS = {
    "circle": ("circle", "disc", "round shape"), "square": ("square", "box"), "crescent": ("crescent", "moon"),
    "cross": ("cross", "plus sign"), "ring": ("ring", "hoop"), "diamond": ("diamond", "rhombus"),
    "drop": ("drop", "droplet"), "bolt": ("bolt", "lightning bolt"), "gear": ("gear", "cog"), "boat": ("boat", "ship"),
    "tree": ("tree", "fir tree"), "cup": ("cup", "mug"), "wave": ("wave", "wavy line"), "flower": ("flower", "blossom"),
    "house": ("house", "home"),
}  # fmt: skip
COLOUR_WORDS = {"grey": ("grey", "gray"), "cyan": ("cyan", "turquoise"), "purple": ("purple", "violet")}
TEXTURE_WORDS = {
    "striped": ("striped", "stripy"),
    "dotted": ("dotted", "spotted", "polka dot"),
    "checkered": ("checkered", "chequered", "checked"),
    "hollow": ("hollow", "outlined", "empty"),
    "plain": ("plain", "solid"),
}
PLACE_WORDS = {
    "left": ("on the left", "at the left side"),
    "right": ("on the right", "at the right side"),
    "top": ("at the top", "in the upper part"),
    "bottom": ("at the bottom", "in the lower part"),
    "centre": ("in the middle", "in the centre"),
}
RELATION_WORDS = {
    "inside": ("inside", "in", "within"),
    "above": ("above", "over"),
    "next to": ("next to", "beside", "and"),
}
SIZE_WORDS = {"small": ("small", "little", "tiny"), "large": ("large", "big")}
_NEED_NO_ARTICLE = {word.split(" ")[0] for words in NUMBERS.values() for word in words}
_IRREGULAR = {"fish": "fish", "box": "boxes", "cross": "crosses"}


def plural(noun: str) -> str:
    """The plural of a shape's name, of which only the last word changes."""
    *head, last = noun.split(" ")
    return " ".join([*head, _IRREGULAR.get(last, f"{last}s")])


def describe(thing: Thing, *, colour: bool = True, texture: bool = True, many: bool = False) -> str:
    """A thing without an article, in its first words: "striped red star"."""
    noun = plural(thing.shape) if many else thing.shape
    words = [thing.texture] if texture and thing.texture != "plain" else []
    return " ".join([*words, *([thing.colour] if colour else []), noun])


def caption(scene: Scene, rng: np.random.Generator) -> str:
    """A sentence that is true of the scene: it names the main thing's shape and some of the rest."""
    if scene.other is not None and rng.random() < 0.85:
        first, second = _phrase(scene.thing, rng, 0.6, 0.25), _phrase(scene.other, rng, 0.6, 0.25)
        text = f"{first} {pick(RELATION_WORDS[scene.relation], rng)} {_article(second)}"
    elif scene.count > 1 and rng.random() < 0.85:
        text = _several(scene, rng)
    else:
        text = _single(scene, rng)
    if rng.random() < 0.25:
        text = f"{text} {_background(scene, rng)}"
    template = pick(TEMPLATES, rng) if rng.random() < 0.75 else TEMPLATES[0]
    if template.startswith("a {}") or " a {}" in template:
        text = text.removeprefix("a ")
    elif text.split(" ")[0] not in _NEED_NO_ARTICLE:
        text = _article(text)
    return template.format(text)


def _several(scene: Scene, rng: np.random.Generator) -> str:
    """Several copies of a thing, such as "three red stars in a row"."""
    things = _phrase(scene.thing, rng, 0.6, 0.35, many=True)
    text = f"{pick(NUMBERS[scene.count], rng)} {things}"
    if scene.arrangement == "scattered" or rng.random() >= 0.6:
        return text
    if rng.random() < 0.6:
        return f"{text} in a {scene.arrangement}"
    return f"{scene.arrangement} of {text if rng.random() < 0.5 else things}"


def _single(scene: Scene, rng: np.random.Generator) -> str:
    """The main thing alone, such as "small red star on the left"."""
    text = _phrase(scene.thing, rng, 0.65, 0.45)
    if scene.count == 1 and scene.other is None:
        if scene.size != "medium" and rng.random() < 0.4:
            text = f"{pick(SIZE_WORDS[scene.size], rng)} {text}"
        if rng.random() < 0.2:
            text = f"{text} {pick(PLACE_WORDS[scene.place], rng)}"
    if rng.random() < 0.1:
        text = f"{pick(FILLERS, rng)} {text}"
    return text


def _phrase(thing: Thing, rng: np.random.Generator, colour: float, texture: float, *, many: bool = False) -> str:
    noun = _synonym(SHAPE_WORDS, thing.shape, rng)
    noun = plural(noun) if many else noun
    hue = [_synonym(COLOUR_WORDS, thing.colour, rng)] if rng.random() < colour else []
    odds = texture / 6 if thing.texture == "plain" else texture * 1.6
    if rng.random() >= odds:
        return " ".join([*hue, noun])
    surface = _synonym(TEXTURE_WORDS, thing.texture, rng)
    if thing.texture in ("striped", "checkered", "dotted") and rng.random() < 0.25:
        extra = {"striped": "with stripes", "checkered": "with checks", "dotted": "with dots"}[thing.texture]
        return " ".join([*hue, noun, extra])
    return " ".join([surface, *hue, noun] if rng.random() < 0.6 else [*hue, surface, noun])


def _background(scene: Scene, rng: np.random.Generator) -> str:
    colour = _synonym(COLOUR_WORDS, scene.background, rng)
    surface = f"{scene.backdrop} " if scene.backdrop != "plain" and rng.random() < 0.5 else ""
    return f"{pick(('on a', 'against a', 'before a'), rng)} {surface}{colour} background"


def _article(text: str) -> str:
    return f"{'an' if text[0] in 'aeio' or text.startswith('umb') else 'a'} {text}"


def _synonym(table: Mapping[str, tuple[str, ...]], word: str, rng: np.random.Generator) -> str:
    """The usual word in two cases of three, else any of its synonyms."""
    words = table.get(word, (word,))
    return words[0] if rng.random() < 0.66 else pick(words, rng)


assert set(SHAPE_WORDS) <= set(SHAPES)
assert set(COLOUR_WORDS) <= set(COLOURS)
assert set(RELATION_WORDS) == set(RELATIONS)
