"""From trained towers to the files that the package ships: ONNX, half-precision weights, tokenizer, preprocessing."""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .towers import CONTEXT, MEAN, SIZE, STD, DualEncoder

TOLERANCE = 1e-4
LEARNED = 0.15
"""Share of an embedding's squared length that is learned; the rest is the same for all images, or for all texts."""
GAP = 0.3
"""Cosine between the constant parts of images and of texts."""


def export(model: DualEncoder, tokenizer: Tokenizer, images: Tensor, tokens: Tensor, folder: Path) -> float:
    """Write the model; returns the largest difference between torch and onnxruntime on the given inputs.

    What is written has CLIP's geometry, which LP++ counts on when it starts the text's weights at 250 times the mean
    cosine: images and texts each in a narrow cone, with a gap between the cones, so that all cosines between them are
    near 0.3 and differ little. To that end unit embeddings are shrunk and two constant coordinates take up the rest of
    the length. The order of classes for an image stays what it was.

    Raises
    ------
    RuntimeError
        If they differ by more than `TOLERANCE`.
    """
    image, text = (_ready(tower) for tower in (model.image, model.text))
    (folder / "visual").mkdir(parents=True, exist_ok=True)
    (folder / "textual").mkdir(parents=True, exist_ok=True)
    worst = max(
        _tower(image, images, "image", *geometry((1.0, 0.0)), folder / "visual" / "model.onnx"),
        _tower(text, tokens, "text", *geometry((GAP, (1 - GAP**2) ** 0.5)), folder / "textual" / "model.onnx"),
    )
    if worst > TOLERANCE:
        raise RuntimeError(f"torch and onnxruntime differ by {worst:.1e}, more than {TOLERANCE}: the export is wrong.")
    tokenizer.save(str(folder / "textual" / "tokenizer.json"))
    _json(folder / "textual" / "tokenizer_config.json", {"model_max_length": CONTEXT, "pad_token": "[PAD]"})
    _json(
        folder / "visual" / "preprocess_cfg.json",
        {
            "size": [SIZE, SIZE],
            "mode": "RGB",
            "mean": MEAN,
            "std": STD,
            "interpolation": "bicubic",
            "resize_mode": "shortest",
            "fill_color": 0,
        },
    )
    return worst


def _ready(tower: nn.Module) -> nn.Module:
    """A copy for inference: batch norms folded, weights rounded to what half precision holds."""
    tower = copy.deepcopy(tower).eval().to(memory_format=torch.contiguous_format)
    for module in tower.modules():
        if isinstance(module, nn.Sequential) and [type(m) for m in module] == [nn.Conv2d, nn.BatchNorm2d]:
            module[0], module[1] = fuse_conv_bn_eval(module[0], module[1]), nn.Identity()
    with torch.no_grad():
        for weight in tower.parameters():
            weight.copy_(weight.half().float())
    return tower


def geometry(direction: tuple[float, float]) -> tuple[float, tuple[float, float]]:
    """By how much to shrink unit embeddings, and the constant coordinates that make them unit again."""
    rest = (1 - LEARNED) ** 0.5
    return LEARNED**0.5, (rest * direction[0], rest * direction[1])


def _tower(tower: nn.Module, inputs: Tensor, name: str, shrink: float, tail: tuple[float, float], path: Path) -> float:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # The exporter that needs no further packages calls itself deprecated.
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        torch.onnx.export(
            tower,
            (inputs[:2],),
            buffer,
            input_names=[name],
            output_names=["embedding"],
            dynamic_axes={name: {0: "batch"}, "embedding": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )
        unit = nn.functional.normalize(tower(inputs), dim=1)
        expected = torch.cat([shrink * unit, torch.tensor(tail).expand(len(unit), 2)], dim=1).numpy()
    model = placed(_halved(onnx.load_from_string(buffer.getvalue())), shrink, tail)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return float(np.abs(session.run(None, {name: inputs.numpy()})[0] - expected).max())


def _halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Large weights stored in 16 bits and cast back on loading, where onnxruntime folds the cast away."""
    graph = model.graph
    casts = []
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) >= 64:
            half, full = f"{tensor.name}.half", tensor.name
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), half))
            casts.append(helper.make_node("Cast", [half], [full], to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.doc_string = "Demonstration model of lpplusplus: knows rendered scenes only, nothing of the real world."
    return model


def placed(model: onnx.ModelProto, shrink: float, tail: tuple[float, float]) -> onnx.ModelProto:
    """The model with its output scaled to unit length, shrunk, and followed by two constants; see `export`."""
    graph = model.graph
    (output,) = graph.output
    for node in graph.node:
        node.output[:] = ["raw" if name == output.name else name for name in node.output]
    width = output.type.tensor_type.shape.dim[1]
    constants = {
        "shrink": np.array(shrink, np.float32),
        "columns": np.array([0, 0, 0, 2], np.int64),
        "tail": np.array([[0.0] * width.dim_value + list(tail)], np.float32),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    graph.node.extend(
        [
            helper.make_node("LpNormalization", ["raw"], ["unit"], axis=1, p=2),
            helper.make_node("Mul", ["unit", "shrink"], ["shrunk"]),
            helper.make_node("Pad", ["shrunk", "columns"], ["wide"]),
            helper.make_node("Add", ["wide", "tail"], [output.name]),
        ]
    )
    width.dim_value += 2
    return model


def _json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
