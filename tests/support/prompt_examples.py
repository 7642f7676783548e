"""Two tasks on which prompt learners are tried, with the models and the settings that suit them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lpplusplus import PLOT
from lpplusplus.encoders import open_encoder
from lpplusplus.images.drawings import demo_classes
from tools import backgrounds
from tools.drawings.as_open_clip import as_open_clip
from tools.drawings.evaluate import rendered_task

TEST_SEED, TEST_IMAGES = 2024, 40
FIRST_SEED = 10
"""Of supports. Those below it, and other test images, have served to find the settings of `demo`."""


@dataclass(frozen=True)
class Example:
    """A model, a task for it, and how prompts are learned there."""

    encoder: Any
    names: list[str]
    draw: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    """Embeddings with places (n, 1 + places, D) and labels, for a number of images per class and a seed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters of all four methods, where they are not the authors'."""
    epochs: dict[int, int] = field(default_factory=dict)
    """By shots, where they are not the authors'."""

    def learner(self, method: type, shots: int, seed: int) -> Any:
        """One of the methods, not yet fitted."""
        # As its authors do where places alone say too little: on ImageNet.
        own = {"global_term": True} if method is PLOT and self.settings else {}
        return method(encoder=self.encoder, random_state=seed, epochs=self.epochs.get(shots), **self.settings, **own)


def places(encoder, images):
    """(n, 1 + places, D)."""
    pixels = [encoder.prepare(image) for image in images]
    return np.concatenate([encoder.encode_places(pixels[a : a + 64]) for a in range(0, len(pixels), 64)])


def demo() -> Example:
    """The 24 classes of the model of drawings in the shifted domain.

    The authors' settings are for CLIP. This text tower is a quarter as wide and a sixth as deep and knows few words:
    sixteen random vectors confuse it, while a start at the template's words and a rate of 0.2 suit it.
    """
    encoder, names = as_open_clip(), [concept.name for concept in demo_classes()]

    def draw(shots, seed):
        images, labels = rendered_task(shots, seed, "shifted")
        return places(encoder, images), np.array(names)[labels]

    settings = {"learning_rate": 0.2, "context_init": "a photo of a", "n_context": 4}
    return Example(encoder, names, draw, settings, epochs={4: 30, 16: 10})  # Some hundred steps either way.


def background(folder) -> Example:
    """The colour of the background with bare colours for names, with the authors' settings."""
    encoder = open_encoder(backgrounds.train(folder))

    def draw(shots, seed):
        images, labels = backgrounds.photographs(shots, np.random.default_rng(seed))
        return places(encoder, images), labels

    return Example(encoder, list(backgrounds.COLOURS), draw)
