"""What decoding costs beside inference: time of `embed` on JPEG files over the time of inference alone.

    python -m benchmarks.embedding --images 300 --json
    python -m benchmarks.embedding --photos $LPP_DATA/photos/pets --encoder embedded

Without photos the encoder is a convolutional network, made here with random weights and run by onnxruntime on all
cores; pictures are rendered, textured JPEGs of the size of usual photo collections. Contestants take turns:

inference     `encode_prepared` on batches that were decoded and prepared before the clock started
embed         files to embeddings in memory: read, hash, decode, resize, infer
embed+store   the same into a new feature store
one by one    all decoding first, then all inference: what overlapping saves

The ratio is the median over rounds of embed's time over inference's time in the same round.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.measure import interleave, median
from lpplusplus.encoders import Encoder, open_encoder
from lpplusplus.encoders.pixels.decoding import open_image
from lpplusplus.encoders.pixels.preprocessing import Preprocessing
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import ImageSet, from_folder

LIMIT = 1.25
"""How much longer than inference alone embedding files may take."""


class ConvolutionalEncoder(Encoder):
    """A plain residual-free network of 3 × 3 convolutions with random weights: real work for onnxruntime."""

    def __init__(self, width: int = 96, depth: int = 6, dim: int = 512, batch_size: int = 16) -> None:
        import onnxruntime

        self.transform = Preprocessing()
        self.spec, self.fingerprint = "benchmark", f"{width}x{depth}"
        self.preprocessing = self.transform.describe()
        self.dim, self.batch_size = dim, batch_size
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(network(width, depth, dim), options, ["CPUExecutionProvider"])

    def prepare(self, image: Image.Image, rng: np.random.Generator | None = None) -> Any:
        return self.transform.centre(image)

    def encode_prepared(self, batch: Sequence[Any]) -> Any:
        return self.session.run(None, {"pixels": np.stack(batch)})[0]

    def encode_texts(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError("this network has no text tower")


def network(width: int, depth: int, dim: int) -> bytes:
    """The ONNX model: a patch convolution, `depth` 3 × 3 convolutions, mean, projection."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights, nodes, channels, name = [], [], 3, "pixels"
    for layer in range(depth + 1):
        size, stride = (8, 4) if layer == 0 else (3, 1)
        kernel = rng.standard_normal((width, channels, size, size)) / np.sqrt(channels * size * size)
        weights.append(numpy_helper.from_array(kernel.astype(np.float32), f"w{layer}"))
        nodes.append(helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], strides=[stride] * 2,
                                      pads=[size // 2] * 4))  # fmt: skip
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        name, channels = f"r{layer}", width
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    weights.append(numpy_helper.from_array(rng.standard_normal((width, dim)).astype(np.float32), "projection"))
    nodes.append(helper.make_node("MatMul", ["flat", "projection"], ["embedding"]))
    graph = helper.make_graph(
        nodes, "benchmark", [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, 224, 224])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", dim])], weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def render(folder: Path, count: int, width: int, height: int) -> ImageSet:
    """Textured pictures in two classes: smooth colours with grain at several scales, so that files have usual sizes."""
    rng = np.random.default_rng(0)
    for index in range(count):
        layers = [
            np.asarray(Image.fromarray(rng.integers(0, 256, (cells * 3, cells * 4, 3), np.uint8)).resize(
                (width, height), Image.Resampling.BICUBIC), np.float32)
            for cells in (1, 4, 16, 40)
        ]  # fmt: skip
        pixels = sum(layer * share for layer, share in zip(layers, (0.45, 0.25, 0.2, 0.1), strict=True))
        target = folder / f"class{index % 2}" / f"{index:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(target, quality=90)
    return from_folder(folder)


def measure(images: ImageSet, encoder: Encoder, repeats: int, scratch: Path) -> dict[str, list[float]]:
    """Seconds of each contestant, in turns."""
    size = encoder.batch_size
    prepared = [encoder.prepare(open_image(item)) for item in images.items if isinstance(item, Path)]
    store = scratch / "store"

    def inference() -> None:
        for a in range(0, len(prepared), size):
            encoder.encode_prepared(prepared[a : a + size])

    def into_store() -> None:
        shutil.rmtree(store, ignore_errors=True)
        embed(images, encoder, store=store)

    def one_by_one() -> None:
        ready = [encoder.prepare(open_image(item)) for item in images.items if isinstance(item, Path)]
        for a in range(0, len(ready), size):
            encoder.encode_prepared(ready[a : a + size])

    return interleave(
        {
            "inference": inference,
            "embed": lambda: embed(images, encoder),
            "embed+store": into_store,
            "one by one": one_by_one,
        },
        repeats,
    )


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="a folder per class, instead of rendered pictures")
    parser.add_argument("--encoder", help="by name, instead of a network with random weights")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--size", default="500x375", help="width x height of the pictures")
    parser.add_argument("--width", type=int, default=96, help="channels of the network: how much inference costs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    width, height = (int(side) for side in options.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        rendered = Path(folder) / "photos"
        images = from_folder(options.photos) if options.photos else render(rendered, options.images, width, height)
        encoder = open_encoder(options.encoder) if options.encoder else ConvolutionalEncoder(options.width)
        size = sum(item.stat().st_size for item in images.items if isinstance(item, Path)) / len(images)
        times = measure(images, encoder, options.repeats, Path(folder))
    ratios = {
        name: median(a / b for a, b in zip(seconds, times["inference"], strict=True)) for name, seconds in times.items()
    }
    row = {
        "images": len(images), "pixels": None if options.photos else [width, height], "mean_file_bytes": round(size),
        "images_per_second": len(images) / median(times["embed"]),
        "inference_ms_per_image": 1000 * median(times["inference"]) / len(images),
        "seconds": {name: median(seconds) for name, seconds in times.items()}, "ratio": ratios, "limit_ratio": LIMIT,
        "within_limit": ratios["embed+store"] <= LIMIT,
    }  # fmt: skip
    if options.json:
        print(json.dumps(row, indent=1))
        return
    print(f"{len(images)} JPEGs of {size / 1000:.0f} kB; inference {row['inference_ms_per_image']:.1f} ms per image, "
          f"embed {row['images_per_second']:.0f} images per second")  # fmt: skip
    for name, seconds in times.items():
        print(f"{name:12} {median(seconds):8.2f} s  × {ratios[name]:.3f}")
    print(f"embed+store {'is within' if row['within_limit'] else 'EXCEEDS'} {LIMIT:g} × inference")


if __name__ == "__main__":
    main()
