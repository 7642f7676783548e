"""The renderer: the same pixels from the same seed, every concept drawable, captions that tell the truth."""

import dataclasses
import re

import numpy as np
import pytest
from PIL import Image

from lpplusplus.images.drawings import Scene, Thing, demo_classes, write_demo
from lpplusplus.images.drawings.scene import ARRANGEMENTS, COLOURS, PLACES, RELATIONS, TEXTURES, parts
from tools.drawings.captions import (
    COLOUR_WORDS,
    NUMBERS,
    SHAPE_WORDS,
    TEXTURE_WORDS,
    caption,
    describe,
    plural,
)
from tools.drawings.plain import DOMAINS, render
from tools.drawings.random_scenes import HELD_OUT_PAIRS, random_scene
from tools.drawings.shapes import SHAPES


def pixels(scene, seed=0, domain="plain", size=64):
    return np.asarray(render(scene, np.random.default_rng(seed), domain, size), float)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_seed_gives_the_same_images_and_captions(domain):
    def everything(seed):
        rng = np.random.default_rng(seed)
        scenes = [random_scene(rng) for _ in range(5)]
        return scenes, [render(s, rng, domain, 48).tobytes() for s in scenes], [caption(s, rng) for s in scenes]

    assert everything(3) == everything(3)
    assert everything(3)[1] != everything(4)[1]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_seen_on_its_ground(shape, domain):
    """Two images from one seed, black and white: they differ where the shape is and only there."""
    black, white = (
        pixels(Scene(Thing(shape, c), size="large", background="cyan"), 5, domain) for c in ("black", "white")
    )
    changed = np.abs(black - white).mean(axis=2) > 40
    assert 0.03 < changed.mean() < 0.7
    corners = np.concatenate([changed[:4, :4].ravel(), changed[-4:, -4:].ravel()])
    assert not corners.any()


def test_outlines_stay_in_their_box():
    for shape in SHAPES:
        points = np.concatenate([p for p, _ in parts(shape)])
        assert np.abs(points).max() <= 1.1, shape
        assert np.abs(points).max() >= 0.8, shape


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_are_what_they_are_called(colour):
    background = "white" if colour != "white" else "black"
    middle = pixels(Scene(Thing("circle", colour), size="large", background=background))[24:40, 24:40].mean(axis=(0, 1))
    nearest = min(COLOURS, key=lambda name: np.linalg.norm(middle - COLOURS[name]))
    assert nearest == colour


def test_textures_differ():
    looks = [pixels(Scene(Thing("square", "red", t), size="large", background="white")) for t in TEXTURES]
    for i, a in enumerate(looks):
        for b in looks[:i]:
            assert np.abs(a - b).mean() > 5


@pytest.mark.parametrize("count", range(1, 6))
def test_as_many_as_said(count):
    from scipy.ndimage import label

    for arrangement in ARRANGEMENTS:
        for seed in range(5):
            scene = Scene(Thing("circle", "black"), count=count, arrangement=arrangement, background="white")
            dark = pixels(scene, seed, size=128).mean(axis=2) < 100
            areas = np.bincount(label(dark)[0].ravel())[1:]
            # Five scattered things may touch, but each is seen nearly whole.
            assert areas.sum() / np.median(areas) == pytest.approx(count, abs=0.3), (arrangement, seed)
            assert arrangement == "scattered" or len(areas) == count


def test_places_and_relations_are_kept():
    def centre(place):
        dark = pixels(Scene(Thing("circle", "black"), place=place, size="small", background="white")).mean(axis=2) < 120
        return np.argwhere(dark).mean(axis=0) / 64

    where = {place: centre(place) for place in PLACES}
    assert where["top"][0] < 0.35 < 0.65 < where["bottom"][0]
    assert where["left"][1] < 0.35 < 0.65 < where["right"][1]
    assert np.abs(where["centre"] - 0.5).max() < 0.08
    both = {
        relation: pixels(
            Scene(Thing("star", "red"), other=Thing("square", "blue"), relation=relation, background="white")
        )
        for relation in RELATIONS
    }
    for relation, image in both.items():
        red, blue = (np.argwhere((image[..., c] > 150) & (image[..., 2 - c] < 100)) for c in (0, 2))
        assert len(red) > 20, relation
        assert len(blue) > 20, relation
        if relation == "above":
            assert red[:, 0].mean() + 10 < blue[:, 0].mean()
        elif relation == "inside":
            assert (red.min(axis=0) > blue.min(axis=0)).all()
            assert (red.max(axis=0) < blue.max(axis=0)).all()


def test_domains_differ_more_than_seeds():
    """Fine structure (neighbouring pixels that differ) tells the domains apart, as noise and strokes should."""

    def rough(domain, seed):
        rng = np.random.default_rng(seed)
        image = np.asarray(render(Scene(Thing("circle", "red"), background="white"), rng, domain), float)
        return np.abs(np.diff(image, axis=0)).mean()

    plain, shifted = ([rough(domain, seed) for seed in range(8)] for domain in DOMAINS)
    assert max(plain) < min(shifted)


def test_any_size():
    for size in (16, 33, 200):
        for domain in DOMAINS:
            assert render(
                demo_classes()[0].scene(np.random.default_rng(0)), np.random.default_rng(0), domain, size
            ).size == (
                size,
                size,
            )


def test_captions_are_true():
    rng = np.random.default_rng(0)
    every = {"shapes": set(), "colours": set(), "textures": set()}
    for _ in range(3000):
        scene = random_scene(rng)
        text = caption(scene, rng)
        every["shapes"].add(scene.thing.shape)
        things = [thing for thing in (scene.thing, scene.other) if thing is not None]
        words = f" {re.sub('[^a-z0-9 ]', '', text)} "
        nouns = SHAPE_WORDS.get(scene.thing.shape, (scene.thing.shape,))
        assert any(f" {n} " in words or f" {plural(n)} " in words for n in nouns), (text, scene)
        for colour in COLOURS:
            if any(f" {w} " in words for w in COLOUR_WORDS.get(colour, (colour,))):
                every["colours"].add(colour)
                assert colour in {scene.background, *(thing.colour for thing in things)}, (text, scene)
        for texture in ("dotted", "checkered", "hollow"):
            if any(f" {w} " in words for w in TEXTURE_WORDS[texture]):
                every["textures"].add(texture)
                assert texture in {thing.texture for thing in things}, (text, scene)
        for count, numbers in NUMBERS.items():
            if any(f" {n} " in words for n in numbers):
                assert scene.count == count, (text, scene)
        for arrangement in ("row", "column"):
            if f" {arrangement} " in words:
                assert scene.arrangement == arrangement
        assert " a a " not in words
    assert every["shapes"] == set(SHAPES)
    assert every["colours"] == set(COLOURS)


def test_words_for_a_thing():
    assert describe(Thing("star", "red", "striped")) == "striped red star"
    assert describe(Thing("cross", "blue"), many=True) == "blue crosses"
    assert plural("lightning bolt") == "lightning bolts"


def test_training_scenes_leave_held_out_pairs_out():
    rng = np.random.default_rng(0)
    pairs = set()
    for _ in range(4000):
        scene = random_scene(rng, held_out=False)
        pairs |= {(t.colour, t.shape) for t in (scene.thing, scene.other) if t is not None}
    assert not pairs & set(HELD_OUT_PAIRS)
    assert len(pairs) == len(COLOURS) * len(SHAPES) - len(HELD_OUT_PAIRS)


def test_background_never_hides_a_thing():
    rng = np.random.default_rng(1)
    scenes = [random_scene(rng) for _ in range(500)] + [c.scene(rng) for c in demo_classes() for _ in range(20)]
    for scene in scenes:
        assert scene.background != scene.thing.colour
        assert scene.other is None or len({scene.background, scene.thing.colour, scene.other.colour}) == 3


def test_demo_classes():
    classes = demo_classes()
    assert len(classes) >= 20
    assert len({c.name for c in classes}) == len({c.folder for c in classes}) == len(classes)
    for concept in classes:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", concept.folder)
        assert concept.folder.replace("_", " ") == concept.name
        rng = np.random.default_rng(0)
        for _ in range(10):
            scene = concept.scene(rng)
            assert scene.thing.shape == concept.shape
            assert concept.colour in (None, scene.thing.colour)
            assert concept.texture in (None, scene.thing.texture)
            assert scene.count == concept.count
    # No image belongs to two classes: classes of one shape differ in something that both fix.
    for i, a in enumerate(classes):
        for b in classes[:i]:
            if (a.shape, a.other) == (b.shape, b.other):
                fixed = ("colour", "texture", "count", "arrangement")
                values = [(getattr(a, f), getattr(b, f)) for f in fixed]
                assert any(u is not None and v is not None and u != v for u, v in values), (a.name, b.name)


def test_demo_folder(tmp_path):
    paths = write_demo(tmp_path / "photos", images_per_class=2, seed=7)
    assert sorted(p.name for p in (tmp_path / "photos").iterdir()) == sorted(c.folder for c in demo_classes())
    assert sorted(paths) == sorted(p for p in (tmp_path / "photos").rglob("*") if p.is_file())
    assert len(paths) == 2 * len(demo_classes())
    for path in paths:
        with Image.open(path) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (128, 128))
    again = write_demo(tmp_path / "again", images_per_class=1, seed=7)
    for path in again:
        assert path.read_bytes() == (tmp_path / "photos" / path.relative_to(tmp_path / "again")).read_bytes()
    other = write_demo(tmp_path / "other", images_per_class=1, seed=8)
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(again, other, strict=True))


def test_mistakes_are_named(tmp_path):
    rng = np.random.default_rng(0)
    scene = random_scene(rng)
    with pytest.raises(ValueError, match="domain is 'photo': use one of plain, shifted"):
        render(scene, rng, "photo")
    with pytest.raises(ValueError, match="size is 4"):
        render(scene, rng, size=4)
    with pytest.raises(ValueError, match="shape is 'blob'"):
        Thing("blob", "red")
    with pytest.raises(ValueError, match="count is 6"):
        dataclasses.replace(scene, count=6, other=None)
    with pytest.raises(ValueError, match="use count=1"):
        Scene(Thing("star", "red"), count=2, other=Thing("ring", "blue"))
    with pytest.raises(ValueError, match="images_per_class is 0"):
        write_demo(tmp_path, 0)
