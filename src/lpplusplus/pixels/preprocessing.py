"""CLIP's way from a picture to the input of its image encoder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Preprocessing:
    """Shorter side to `size` (bicubic), centre crop, scale to [0, 1], standardise; all that changes an embedding."""

    size: int = 224
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    interpolation: str = "bicubic"
    resize: str = "shortest"

    def describe(self) -> str:
        """Canonical text, a part of the feature store's key."""
        return json.dumps(asdict(self), sort_keys=True)

    def centre(self, image: Image.Image) -> NDArray[np.float32]:
        """(3, size, size) input for the encoder from an upright RGB image."""
        raise NotImplementedError

    def random_view(self, image: Image.Image, rng: np.random.Generator) -> NDArray[np.float32]:
        """The same from a random crop of 50–100 % of the area, mirrored half of the time: the paper's augmentation."""
        raise NotImplementedError
