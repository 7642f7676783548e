"""Writing ONNX graphs as arithmetic: `g("Add", x, np.float64(0.5))` adds a node and returns the name of its result."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

OPSET = 17
"""Version of the operators in our own graphs. onnxruntime 1.17 knows up to 20."""
IR_VERSION = 8
"""Version of the file format that belongs to `OPSET`."""


class Graph:
    """A growing ONNX graph. Names begin with `prefix`, so that several graphs can become one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def __call__(self, operator: str, *inputs: Any, result: str = "", **attributes: Any) -> str:
        """Add a node. Inputs are names, or numpy numbers and arrays; by default the graph names the result."""
        name = result or f"{self._prefix}{operator}_{len(self._nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self._nodes.append(onnx.helper.make_node(operator, names, [name], name=f"{name}_node", **attributes))
        return name

    def either(self, condition: str, yes: tuple[str, str], no: tuple[str, str], dtype: Any, **attributes: Any) -> str:
        """One of two nodes, each an operator and its input; `attributes` are pairs, for the first and the second."""
        name = f"{self._prefix}If_{len(self._nodes)}"
        branches = []
        for which, (operator, source) in enumerate((yes, no)):
            result = f"{name}_{which}"
            own = {key: pair[which] for key, pair in attributes.items()}
            node = onnx.helper.make_node(operator, [source], [result], name=f"{result}_node", **own)
            kind = onnx.helper.make_tensor_value_info(result, _kind(dtype), None)
            branches.append(onnx.helper.make_graph([node], result, [], [kind]))
        return self("If", condition, result=name, then_branch=branches[0], else_branch=branches[1])

    def constant(self, value: Any) -> str:
        """The name of an array that is part of the graph; equal arrays are kept once."""
        array = np.asarray(value)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = f"{self._prefix}constant_{len(self._constants)}"
            self._tensors.append(onnx.numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def input(self, name: str, dtype: Any, shape: tuple[int | str, ...]) -> str:
        """Declare an input; a letter in `shape` is a length that may differ from run to run."""
        self._inputs.append(_declared(name, dtype, shape))
        return name

    def output(self, name: str, dtype: Any, shape: tuple[int | str, ...]) -> None:
        """Declare that the result of this name is an output."""
        self._outputs.append(_declared(name, dtype, shape))

    @property
    def parts(self) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """Its nodes and its constants, for use in another graph."""
        return self._nodes, self._tensors

    def model(self, opset: int = OPSET, ir_version: int = IR_VERSION) -> onnx.ModelProto:
        """The graph as a model that onnx has checked."""
        graph = onnx.helper.make_graph(self._nodes, self._prefix.strip("_"), self._inputs, self._outputs, self._tensors)
        model: onnx.ModelProto = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=ir_version
        )
        onnx.checker.check_model(model)
        return model


def _declared(name: str, dtype: Any, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, _kind(dtype), shape)


def _kind(dtype: Any) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
