"""The image tower in eight-bit arithmetic: onnxruntime's static quantisation, calibrated on photos of other packages.

Weights use seven of their eight bits. A processor without VNNI adds pairs of products of bytes in 16 bits: 2 × 255 × 64
fits in them, 2 × 255 × 127 would be cut off. So sums are exact on all processors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
from PIL import Image

from lpplusplus.encoders.pixels.preprocessing import Preprocessing, random_crop

SEED, CROPS = 0, 8
PHOTOS = {
    "sklearn": ("datasets/images", "china.jpg flower.jpg"),
    "skimage": (
        "data",
        "astronaut.png chelsea.png coffee.png motorcycle_left.png rocket.jpg brick.png grass.png gravel.png",
    ),
}
"""Photos in the wheels of scikit-learn and scikit-image: no download, and none of a set that we measure on."""


def quantised(tower: bytes, preprocessing: Preprocessing) -> bytes:
    """The tower with its convolutions and sums in eight bits; its end, from the pooled features on, stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        before.write_bytes(tower)
        quantize_static(
            before,
            after,
            _Crops(preprocessing),
            op_types_to_quantize=["Conv", "Add", "Clip"],
            nodes_to_exclude=["common", "texts"],
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        return after.read_bytes()


class _Crops(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, preprocessing: Preprocessing) -> None:
        self.batches = _crops(preprocessing)

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self.batches, None)


def _crops(preprocessing: Preprocessing) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Random crops of the photos, at several scales."""
    rng = np.random.default_rng(SEED)
    for package, (folder, files) in PHOTOS.items():
        found = find_spec(package)
        if found is None or found.origin is None:
            raise SystemExit(f"calibration needs the photos of {package}: pip install scikit-learn scikit-image")
        for file in files.split():
            photo = Image.open(Path(found.origin).parent / folder / file).convert("RGB")
            for crop in range(CROPS):
                part = random_crop(random_crop(photo, rng), rng) if crop % 2 else random_crop(photo, rng)
                yield {"image": preprocessing.centre(part)[None]}
