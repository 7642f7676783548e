"""A small real encoder for tests: the image, scaled to 16 × 16, times a random matrix drawn from a seed."""

import json
import time

import numpy as np

from lpplusplus.encoders import Encoder, EncoderKind


class ToyEncoder(Encoder):
    def __init__(self, dim=24, seed=0, batch_size=4, size=16, delay=0.0):
        self.spec = f"toy:{seed}"
        self.dim, self.batch_size, self.size, self.delay = dim, batch_size, size, delay
        self.fingerprint = f"toy-{seed}-{dim}"
        self.preprocessing = json.dumps({"size": size})
        self.weights = np.random.default_rng(seed).standard_normal((3 * size * size, dim)).astype(np.float32)
        self.batches = []

    def prepare(self, image, rng=None):
        assert image.mode == "RGB"
        if rng is not None:
            width, height = image.size
            left, top = rng.uniform(0, width / 3), rng.uniform(0, height / 3)
            image = image.crop((left, top, left + 2 * width / 3, top + 2 * height / 3))
        return np.asarray(image.resize((self.size, self.size)), np.float32) / 255

    def encode_prepared(self, batch):
        self.batches.append(len(batch))
        time.sleep(self.delay)
        # One product a batch: its last bits may depend on how many images share it, as with real runtimes.
        return np.stack(batch).reshape(len(batch), -1) @ self.weights

    def encode_texts(self, texts):
        rows = [np.random.default_rng(list(text.encode()) or [0]).standard_normal(self.dim) for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.dim)


KIND = EncoderKind(
    scheme="toy:SEED",
    about="a random projection, for tests",
    needs="images",
    packages=("PIL",),
    open=lambda spec, access: ToyEncoder(seed=int(spec.removeprefix("toy:"))),
)
