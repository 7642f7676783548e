"""The classifiers for skl2onnx: after `register()`, a scikit-learn `Pipeline` that ends in one of them converts."""

import sys
from typing import Any

import numpy as np
import onnx

from ..._core.model_file import method
from .head import DOUBLE, FLOAT, ExportError, Graph, probabilities

INT64, STRING = 7, 8
"""ONNX's numbers for the types of labels."""


def register() -> None:
    """Register the classifiers of this package with skl2onnx, which has to be installed.

    Examples
    --------
    >>> from lpplusplus.deploy.export.skl2onnx import register
    >>> register()  # doctest: +SKIP
    >>> skl2onnx.to_onnx(pipeline, X[:1].astype("float32"))  # doctest: +SKIP
    """
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    options = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]}
    for kind in filter(None, map(method, sys.modules[__name__.partition(".")[0]].__all__)):
        update_registered_converter(
            kind, f"LPP{kind.__name__}", calculate_linear_classifier_output_shapes, _convert, options=options
        )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add a fitted classifier to skl2onnx's graph: labels and probabilities."""
    model = operator.raw_operator
    labels = np.asarray(model.classes_)
    if labels.dtype.kind not in "iuUO":
        raise ExportError(f"labels of type {labels.dtype} cannot be exported: use strings or whole numbers.")
    g = Graph(scope.get_unique_operator_name("lpp") + "_")
    found = probabilities(g, model, operator.inputs[0].full_name)
    double = type(operator.outputs[1].type).__name__ == "DoubleTensorType"
    g("Cast", found, to=DOUBLE if double else FLOAT, result=operator.outputs[1].full_name)
    best = g("ArgMax", found, axis=1, keepdims=0)
    nodes, tensors = g.parts
    names = scope.get_unique_variable_name("classes")
    if labels.dtype.kind in "iu":
        container.add_initializer(names, INT64, labels.shape, labels.astype(np.int64).tolist())
    else:
        container.add_initializer(names, STRING, labels.shape, [str(one).encode() for one in labels.tolist()])
    for tensor in tensors:
        container.add_initializer(tensor.name, tensor.data_type, list(tensor.dims), _values(tensor))
    for node in nodes:
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        container.add_node(node.op_type, [*node.input], [*node.output], name=node.name, **attributes)
    container.add_node("Gather", [names, best], [operator.outputs[0].full_name], name=f"{names}_gather", axis=0)


def _values(tensor: Any) -> list[Any]:
    return list(onnx.numpy_helper.to_array(tensor).ravel().tolist())
