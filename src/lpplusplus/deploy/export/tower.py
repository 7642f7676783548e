"""An encoder's image tower as an ONNX model, if it has one; and its weights in eight bits."""

from __future__ import annotations

import copy
import io
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ...encoders.base import Encoder
from ...encoders.onnx import OnnxEncoder
from ...encoders.open_clip import OpenClipEncoder
from ...encoders.pixels.preprocessing import Preprocessing
from .head import IR_VERSION, OPSET, ExportError

OLDEST = 13
"""Oldest opset whose operators work as our own graphs use them."""
HEAVY = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": None}
"""Operators with large weights as their second input, and the axis of outputs; Gemm's depends on `transB`."""
SMALL = 1024
"""Weights of fewer entries stay as they are."""
HEAD_ONLY = "--head-only exports what follows the encoder: embeddings in, probabilities out."


@dataclass(frozen=True)
class ImageTower:
    """An image tower that takes one prepared image."""

    model: onnx.ModelProto
    input: str
    output: str
    preprocessing: Preprocessing

    @property
    def opset(self) -> int:
        """Version of ONNX's operators."""
        return int(next(one.version for one in self.model.opset_import if one.domain in ("", "ai.onnx")))

    def dtype(self, name: str) -> Any:
        """Type of the numbers of its input or of an output."""
        declared = next(one for one in (*self.model.graph.input, *self.model.graph.output) if one.name == name)
        return onnx.helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type)


def image_tower(encoder: Encoder) -> ImageTower:
    """The image tower of an encoder, or an `ExportError`."""
    if isinstance(encoder, OnnxEncoder):
        path, source, result, how = encoder.image_tower
        tower = ImageTower(onnx.load(path), source, result, how)  # With the weights that lie beside it.
    elif isinstance(encoder, OpenClipEncoder):
        tower = _from_torch(encoder)
    else:
        raise ExportError(f"the encoder {encoder.spec} is neither an ONNX model nor one of open_clip. {HEAD_ONLY}")
    if tower.opset < OLDEST:
        tower.model.CopyFrom(onnx.version_converter.convert_version(tower.model, OPSET))
    tower.model.ir_version = max(tower.model.ir_version, IR_VERSION)
    shape = next(one for one in tower.model.graph.input if one.name == tower.input).type.tensor_type.shape
    if shape.dim and shape.dim[0].dim_value > 1:
        raise ExportError(f"{encoder.spec} takes {shape.dim[0].dim_value} images at once, not one. {HEAD_ONLY}")
    return tower


def _from_torch(encoder: OpenClipEncoder) -> ImageTower:
    """The tower of an open_clip model, by torch's own exporter."""
    import torch

    model, how = copy.deepcopy(encoder.model).cpu(), encoder.preprocess
    model.forward = model.encode_image
    for parameter in model.parameters():
        parameter.requires_grad_()  # Without gradients torch uses fused attention, which ONNX does not have.
    example, file = torch.zeros(1, 3, how.size, how.size), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The newer exporter needs another package.
        torch.onnx.export(
            model,
            (example,),
            file,
            input_names=["image"],
            output_names=["embedding"],
            opset_version=OPSET,
            dynamo=False,
        )
    return ImageTower(onnx.load_from_string(file.getvalue()), "image", "embedding", how)


def in_eight_bits(model: onnx.ModelProto) -> None:
    """Store large weights as bytes with a scale per output; the arithmetic stays in floating point.

    Activations are not quantised: their range is not known without images, and measuring it for each image
    (onnxruntime's dynamic quantisation) costs more accuracy and is slower for convolutions. Weights are converted back
    by Cast and Mul, which onnxruntime runs once, when it opens the file; it would run DequantizeLinear for each image.
    """
    graph = model.graph
    stored = {one.name: one for one in graph.initializer}
    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast" and node.input[0] in stored}
    users = Counter(name for node in graph.node for name in node.input)
    added = []
    for node in filter(_has_weights, list(graph.node)):
        name = node.input[1]
        cast = casts.get(name)
        origin = name if cast is None else cast.input[0]
        if origin not in stored or max(users[name], users[origin]) > 1 or not _worth_it(stored[origin]):
            continue
        weights, kind = onnx.numpy_helper.to_array(stored[origin]), stored[origin].data_type
        graph.initializer.remove(stored[origin])
        if cast is not None:
            kind = onnx.TensorProto.FLOAT
            graph.node.remove(cast)
        numbers, scales = _bytes(weights.astype(np.float32), _axis_of_outputs(node, weights.ndim))
        made = (numbers, origin), (scales, f"{origin}_scale")
        graph.initializer.extend(onnx.numpy_helper.from_array(*one) for one in made)
        added += _widened(origin, kind)
        node.input[1] = f"{origin}_whole"
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*added, *rest])


def _has_weights(node: onnx.NodeProto) -> bool:
    return node.op_type in HEAVY and len(node.input) > 1


def _widened(origin: str, kind: int) -> list[onnx.NodeProto]:
    """The steps from bytes and scales back to weights of the type that they had."""
    return [
        onnx.helper.make_node(step, inputs, [f"{origin}_{result}"], f"{origin}_{result}_node", **to)
        for step, inputs, result, to in (
            ("Cast", [origin], "wide", {"to": onnx.TensorProto.FLOAT}),
            ("Mul", [f"{origin}_wide", f"{origin}_scale"], "scaled", {}),
            ("Cast", [f"{origin}_scaled"], "whole", {"to": kind}),
        )
    ]


def _worth_it(weights: onnx.TensorProto) -> bool:
    return weights.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16) and np.prod(weights.dims) >= SMALL


def _axis_of_outputs(node: onnx.NodeProto, ndim: int) -> int:
    axis = HEAVY[node.op_type]
    if axis is None:
        axis = 0 if any(one.name == "transB" and one.i for one in node.attribute) else 1
    return axis % ndim


def _bytes(weights: np.ndarray[Any, Any], axis: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The weights as whole numbers from -127 to 127, and the scale of each output, in a shape that broadcasts."""
    others = tuple(one for one in range(weights.ndim) if one != axis)
    scales = np.abs(weights).max(axis=others, keepdims=True) / 127
    scales[scales == 0] = 1
    return np.rint(weights / scales).astype(np.int8), scales.astype(np.float32)
