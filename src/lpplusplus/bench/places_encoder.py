"""Images with their places, for the only method that uses places: PLOT."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..encoders import Encoder, EncoderError

if TYPE_CHECKING:
    from PIL import Image


class PlacesEncoder(Encoder):
    """An open_clip encoder that gives an image and its places in one row, as a feature store can hold them."""

    def __init__(self, encoder: Encoder) -> None:
        from PIL import Image

        if not hasattr(encoder, "encode_places"):
            raise EncoderError(
                f"PLOT needs the places of an image, which {encoder.spec} does not give: use open_clip:…."
            )
        self.encoder = encoder
        self.spec, self.preprocessing, self.batch_size = encoder.spec, encoder.preprocessing, encoder.batch_size
        self.fingerprint = f"{encoder.fingerprint}-tokens"
        blank = self.prepare(Image.new("RGB", (64, 64)))
        self.shape: tuple[int, int] = encoder.encode_places([blank]).shape[1:]
        self.dim = self.shape[0] * self.shape[1]

    def prepare(self, image: "Image.Image", rng: np.random.Generator | None = None) -> Any:
        return self.encoder.prepare(image, rng)

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        places: NDArray[np.float32] = self.encoder.encode_places(batch)
        return places.reshape(len(batch), self.dim)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode_texts(texts)
