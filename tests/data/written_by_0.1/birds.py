"""What is in a photo? Run it as `python m.py photo.jpg …`; the file of the same name with .onnx lies beside it.

Needs numpy, Pillow and onnxruntime. Written by lpplusplus, and yours to change.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # Else onnxruntime tells its makers which models are opened.
import onnxruntime

MODEL = Path(__file__).with_suffix(".onnx")


def read(path: str) -> NDArray[np.uint8]:
    """A photo as bytes (height, width, 3): upright, in RGB, and what is transparent on white."""
    image: Image.Image = Image.open(path)
    if image.mode.startswith("I"):  # 16 bits of grey.
        return np.stack([np.asarray((np.asarray(image, np.uint32) * 255 + 32767) // 65535, np.uint8)] * 3, axis=2)
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return np.asarray(image.convert("RGB"))


def main() -> None:
    """Print the three likeliest classes of each photo."""
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    outputs = [one.name for one in session.get_outputs()]
    for path in sys.argv[1:] or sys.exit(__doc__):
        found = dict(zip(outputs, session.run(outputs, {"image": read(path)}), strict=True))
        (row,) = found["probabilities"]
        best = row.argsort()[::-1][:3]
        other = ["(none of these?)"] if found.get("none_of_these", [False])[0] else []
        print(path, *(f"{classes[k]} {row[k]:.4f}" for k in best), *other, sep="\t")


if __name__ == "__main__":
    main()
