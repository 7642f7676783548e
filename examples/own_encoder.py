"""An encoder of your own: python examples/own_encoder.py

An encoder turns images and sentences into vectors of one space. This one knows nothing but colours: it compares every
pixel, and every colour that a sentence names, with 27 fixed colours. A real one would call your model in the same four
places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageColor

from lpplusplus import ZeroShot
from lpplusplus.encoders import Encoder
from lpplusplus.images import ImageClassifier

ANCHORS = np.stack(np.meshgrid(*[[0.0, 0.5, 1.0]] * 3), axis=-1).reshape(27, 3)


def nearness(colours):
    """How much each of the 27 anchors is like a colour: (…, 3) to (…, 27)."""
    distances = ((np.asarray(colours)[..., None, :] - ANCHORS) ** 2).sum(axis=-1)
    near = np.exp(-10 * distances)
    return near / near.sum(axis=-1, keepdims=True)


class ColourEncoder(Encoder):
    """Colours of images and of words."""

    spec = "colours"
    dim = 27
    fingerprint = "colours-1"  # Another one means other embeddings: saved classifiers then refuse to mix the two.
    preprocessing = "resize to 16 × 16"

    def prepare(self, image: Image.Image, rng: np.random.Generator | None = None) -> Any:
        """One RGB image as `encode_prepared` takes it, with `rng` a random crop of it. Runs on several threads."""
        if rng is not None:
            left, top = rng.uniform(0, image.width / 4), rng.uniform(0, image.height / 4)
            image = image.crop((left, top, left + 3 * image.width / 4, top + 3 * image.height / 4))
        return np.asarray(image.resize((16, 16)), np.float32) / 255

    def encode_prepared(self, batch: Sequence[Any]) -> Any:
        """Embeddings of a batch of prepared images, (n, 27)."""
        return nearness(np.stack(batch)).mean(axis=(1, 2)).astype(np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Any:
        """Embeddings of sentences, (n, 27)."""
        return np.array([self._sentence(text) for text in texts], np.float32)

    def _sentence(self, text: str):
        words = [word for word in re.findall(r"[a-z]+", text.lower()) if word in ImageColor.colormap]
        colours = [np.array(ImageColor.getrgb(word)) / 255 for word in words]
        return nearness(colours).mean(axis=0) if colours else np.full(27, 1 / 27)


def photographs(names: Sequence[str], per_class: int, seed: int) -> tuple[list[Image.Image], list[str]]:
    """Made-up photographs of cloth: the named colour in bad light, with other things in the picture."""
    rng, images, labels = np.random.default_rng(seed), [], []
    for name in names:
        for _ in range(per_class):
            cloth = np.array(ImageColor.getrgb(name)) * rng.uniform(0.4, 1) + rng.normal(0, 25, (48, 48, 3))
            clutter = rng.uniform(0, 255, 3)
            cloth[: rng.integers(10, 30)] = clutter
            images.append(Image.fromarray(np.clip(cloth, 0, 255).astype(np.uint8)))
            labels.append(name)
    return images, labels


def main() -> None:
    """Compare what the words know with what four examples per class add."""
    names = ["crimson", "tomato", "orange", "gold", "olive", "teal", "navy", "indigo", "orchid", "salmon"]
    (images, labels), (new, truth) = photographs(names, 4, seed=0), photographs(names, 40, seed=1)
    for what, method in (("words alone", ZeroShot()), ("words and examples", None)):
        clf = ImageClassifier(encoder=ColourEncoder(), template="a {} cloth", method=method).fit(images, labels)
        print(f"{what}: {100 * clf.evaluate(new, truth).accuracy:.1f} %")


if __name__ == "__main__":
    main()
