"""Is the evidence that `lpp predict --why` shows where it says, and is its sentence about backgrounds right?

    python -m studies.why --photos $LPP_DATA/photos            # prints both tables

Deletion: the cells with the most evidence are made grey, one after the other, against cells in random order, by how
often the answer stays. Backgrounds: the middle of each photo, an ellipse, is pasted on another background, and the
report's sentence says which classes may be recognised by it. It should name none where backgrounds say nothing (the
photos as they are, random backgrounds), and many where nothing but the background tells the classes apart.

`AT_BORDER` was chosen on 12 of the breeds (--classes chosen) with other textures; the tables are about the other 25.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from lpplusplus.encoders.pixels.decoding import open_image
from lpplusplus.images import ImageClassifier
from lpplusplus.images.explaining import GRID, Explainer

SIDE, TRAIN, TEST = 224, 8, 8
STEPS = (2, 4, 8, 12, 16, 24)
"""Cells of 49 that are made grey."""
MIDDLE = (34, 34, 190, 190)
"""The ellipse that stays of a photo."""
Make = Callable[[Image.Image, int, int], Image.Image]


def square(path: Path) -> Image.Image:
    """The centre of a photo."""
    photo = open_image(path)
    side, (width, height) = min(photo.size), photo.size
    left, top = (width - side) // 2, (height - side) // 2
    return photo.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))


def texture(rng: np.random.Generator) -> Image.Image:
    """A pattern of two colours, with noise."""
    down, across = np.mgrid[:SIDE, :SIDE] / rng.uniform(2, 12)
    patterns = (np.sin(across), np.sin(across + down), np.sin(across) * np.sin(down))
    mix = (patterns[rng.integers(3)][..., None] + 1) / 2
    first, second = rng.integers(0, 256, (2, 3))
    pixels = first * mix + second * (1 - mix) + rng.normal(0, 12, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def pasted(photo: Image.Image, background: Image.Image) -> Image.Image:
    """The middle of a photo on a background."""
    mask = Image.new("L", photo.size, 0)
    ImageDraw.Draw(mask).ellipse(MIDDLE, fill=255)
    return Image.composite(photo, background, mask.filter(ImageFilter.GaussianBlur(3)))


def photos_of(folder: Path, classes: list[str]) -> dict[str, list[Image.Image]]:
    """The first photos of each class."""
    return {name: [square(path) for path in sorted((folder / name).iterdir())[: TRAIN + TEST]] for name in classes}


def trained(photos: dict[str, list[Image.Image]], encoder: str) -> ImageClassifier:
    """On the first photos of each class."""
    pairs = [(photo, name) for name, some in photos.items() for photo in some[:TRAIN]]
    return ImageClassifier(encoder).fit([photo for photo, _ in pairs], [name for _, name in pairs])


def deletion(clf: ImageClassifier, photos: dict[str, list[Image.Image]], rng: np.random.Generator) -> dict[str, Any]:
    """How often the answer stays when cells go, by evidence and at random, in percent."""
    explain, stays = Explainer(clf), {"by evidence": np.zeros(len(STEPS)), "at random": np.zeros(len(STEPS))}
    asked = [photo for some in photos.values() for photo in some[TRAIN:]]
    for photo in asked:
        told = explain(photo)
        orders = {"by evidence": np.argsort(-told.lead, axis=None), "at random": rng.permutation(GRID * GRID)}
        for name, order in orders.items():
            hidden = [grey(photo, order[:count]) for count in STEPS]
            stays[name] += clf.predict(hidden) == told.answer
    return {name: 100 * kept / len(asked) for name, kept in stays.items()}


def grey(photo: Image.Image, cells: Any) -> Image.Image:
    """A photo without some of its cells."""
    hidden, side = photo.copy(), SIDE // GRID
    colour = photo.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
    for cell in cells.tolist():
        top, left = side * (cell // GRID), side * (cell % GRID)
        hidden.paste(colour, (left, top, left + side, top + side))
    return hidden


def backgrounds(photos: dict[str, list[Image.Image]], others: list[Image.Image]) -> dict[str, tuple[int, float]]:
    """For each kind of background: how many classes the sentence names, and the accuracy on other photos in percent."""
    textures = [texture(np.random.default_rng(1000 + k)) for k in range(len(photos))]
    mixed = [photo for some in photos.values() for photo in some]
    np.random.default_rng(0).shuffle(mixed)  # type: ignore[arg-type]
    kinds: dict[str, Make] = {
        "photos as they are": lambda photo, k, i: photo,
        "a random texture for each photo": lambda photo, k, i: pasted(
            photo, texture(np.random.default_rng(10**6 + 99 * k + i))
        ),
        "a texture for each class": lambda photo, k, i: pasted(photo, textures[k]),
        "a photo's blurred background for each class": lambda photo, k, i: pasted(photo, others[k]),
        "things mixed up, a texture for each class": lambda photo, k, i: pasted(
            mixed[(TRAIN + TEST) * k + i], textures[k]
        ),
        "things mixed up, a photo's background for each class": lambda photo, k, i: pasted(
            mixed[(TRAIN + TEST) * k + i], others[k]
        ),
    }
    found = {}
    for kind, make in kinds.items():
        made = {
            name: [make(photo, k, i) for i, photo in enumerate(some)] for k, (name, some) in enumerate(photos.items())
        }
        clf = trained(made, "embedded")
        named = Explainer(clf).by_background((name, photo) for name, some in made.items() for photo in some[:TRAIN])
        asked = [(photo, name) for name, some in made.items() for photo in some[TRAIN:]]
        right = np.mean(clf.predict([photo for photo, _ in asked]) == [name for _, name in asked])
        found[kind] = (len(named), 100 * float(right))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="folder with the sets pets and caltech")
    parser.add_argument("--classes", choices=("chosen", "other"), default="other", help="which breeds")
    options = parser.parse_args(arguments)
    every = sorted(path.name for path in (options.photos / "pets").iterdir())
    chosen = every[::3][:12]
    classes = chosen if options.classes == "chosen" else [name for name in every if name not in chosen]
    pets = photos_of(options.photos / "pets", classes)
    kinds = sorted((options.photos / "caltech").iterdir())[: len(classes)]
    blurred = [square(min(kind.iterdir())).filter(ImageFilter.GaussianBlur(2)) for kind in kinds]
    print("| the answer stays, % | " + " | ".join(f"{count} of 49 grey" for count in STEPS) + " |\n|" + "---|" * 7)
    for data, photos in (("pets", pets), ("caltech", photos_of(options.photos / "caltech", [k.name for k in kinds]))):
        for encoder in ("embedded", "drawings"):
            for name, kept in deletion(trained(photos, encoder), photos, np.random.default_rng(1)).items():
                print(
                    f"| {data}, {encoder}, {name} | " + " | ".join(f"{value:.1f}" for value in kept) + " |", flush=True
                )
    print(f"\n| background | classes of {len(pets)} named | accuracy, % |\n| --- | ---: | ---: |")
    for kind, (named, right) in backgrounds(pets, blurred).items():
        print(f"| {kind} | {named} | {right:.1f} |", flush=True)


if __name__ == "__main__":
    main()
