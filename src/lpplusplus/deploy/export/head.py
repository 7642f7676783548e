"""Writing ONNX graphs as arithmetic; and one from embeddings to probabilities, by each method.

`g("Add", x, np.float64(0.5))` adds a node to the graph `g`, and returns the name of its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from ..._core import backend
from ..._core.base import FewShotClassifier
from ...images.answers import none_threshold
from ...methods.clip_adapter import ClipAdapter
from ...methods.coop import CoOp
from ...methods.linear_adapter import LinearAdapter
from ...methods.plot import PLOT
from ...methods.proker import ProKeR
from ...methods.tip_adapter import CacheClassifier

OPSET = 17
"""Version of the operators in our own graphs. onnxruntime 1.17 knows up to 20."""
IR_VERSION = 8
"""Version of the file format that belongs to `OPSET`."""
FLOAT, DOUBLE = 1, 11
"""ONNX's numbers for the two types."""


class ExportError(ValueError):
    """A classifier cannot be exported; the message says why and what to do."""


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


def head_model(model: FewShotClassifier, opset: int, ir_version: int, dtype: Any = np.float32) -> onnx.ModelProto:
    """A graph from "embedding", (n, D) of type `dtype`, to "probabilities", (n, K) in single precision."""
    g = Graph("head_")
    x = g.input("embedding", dtype, ("n", model.n_features_in_))
    z = _logits(g, model, x)
    g("Cast", g("Softmax", z, axis=1), to=FLOAT, result="probabilities")
    g.output("probabilities", np.float32, ("n", len(model.classes_)))
    limit = none_threshold(model)
    if limit is not None:
        scaled = _ready(g, model, x)
        _add_none_of_these(g, model, _unit(g, scaled) if model.normalize else scaled, z, limit)
    return g.model(opset, ir_version)


def probabilities(g: Graph, model: FewShotClassifier, x: str) -> str:
    """Add a fitted method to a graph: from embeddings of any precision to probabilities in that of the method."""
    return g("Softmax", _logits(g, model, x), axis=1)


def _ready(g: Graph, model: FewShotClassifier, x: str) -> str:
    """Embeddings in the precision of the method."""
    return g("Cast", x, to=DOUBLE if _array(model.coef_).dtype == np.float64 else FLOAT)


def _logits(g: Graph, model: FewShotClassifier, x: str) -> str:
    kind, x = type(model), _ready(g, model, x)
    if isinstance(model, CacheClassifier | ProKeR):
        return _cache(g, model, x)
    if isinstance(model, LinearAdapter):
        return _linear(g, _unit(g, _product(g, _unit(g, x), model.matrix_)), model.coef_)
    if isinstance(model, ClipAdapter):
        return _clip_adapter(g, model, x)
    if isinstance(model, CoOp) and not isinstance(model, PLOT):
        return _linear(g, _unit(g, x), model.coef_)
    if kind._logits is FewShotClassifier._logits:
        return _linear(g, _unit(g, x) if model.normalize else x, model.coef_, model.intercept_)
    raise ExportError(f"{kind.__name__} cannot be exported: it needs more of an image than its embedding.")


def _cache(g: Graph, model: CacheClassifier | ProKeR, x: str) -> str:
    """Tip-Adapter and ProKeR: a product with the keys, an exponential, and a product with the keys' weights."""
    f, keys = _unit(g, x), _array(model.keys_)
    if isinstance(model, ProKeR):
        weights = _array(model.weights_)
    else:
        weights = np.zeros((len(keys), len(model.classes_)), keys.dtype)
        weights[np.arange(len(keys)), _array(model.values_)] = model.alpha_
    one, beta = (keys.dtype.type(number) for number in (1, model.beta_))
    near = g("Exp", g("Mul", g("Sub", _product(g, f, keys), one), beta))
    return g("Add", _linear(g, f, model.coef_), g("MatMul", near, weights))


def _clip_adapter(g: Graph, model: ClipAdapter, x: str) -> str:
    f = _unit(g, x) if model.normalize else x
    hidden = g("Relu", _product(g, f, model.down_))
    ratio, rest = (_array(model.coef_).dtype.type(part) for part in (model.ratio_, 1 - model.ratio_))
    mixed = g("Add", g("Mul", g("Relu", _product(g, hidden, model.up_)), ratio), g("Mul", f, rest))
    return _linear(g, mixed if model.normalize else _unit(g, mixed), model.coef_)


def _linear(g: Graph, x: str, coef: Any, intercept: Any = None) -> str:
    z = _product(g, x, coef)
    return z if intercept is None else g("Add", z, _array(intercept))


def _product(g: Graph, x: str, rows: Any) -> str:
    return g("MatMul", x, np.ascontiguousarray(_array(rows).T))


def _unit(g: Graph, x: str) -> str:
    """Rows of length 1; zero rows stay zero. Squares are doubles, which neither overflow nor vanish."""
    wide = g("Cast", x, to=DOUBLE)
    squares = g("ReduceSum", g("Mul", wide, wide), np.array([1]), keepdims=1)
    squares = g("Where", g("Greater", squares, np.float64(0)), squares, np.float64(1))
    return g("CastLike", g("Div", wide, g("Sqrt", squares)), x)


def _array(value: Any) -> np.ndarray[Any, Any]:
    return backend.to_numpy(value)


def _add_none_of_these(g: Graph, model: Any, f: str, logits: str, limit: float) -> None:
    """Add the outputs "familiarity" and "none_of_these", both (n,): see `probe/none_of_these.py` for the score."""
    f, z = (g("Cast", one, to=11) for one in (f, logits))
    means, counts, scatter = (_double(part) for part in (model.class_means_, model.class_counts_, model.scatter_))
    means, counts = means[counts > 0], counts[counts > 0]
    inside, centres = g("MatMul", f, scatter.T.copy()), means @ scatter.T
    products = g("Sub", g("MatMul", f, means.T.copy()), g("MatMul", inside, centres.T.copy()))
    own = g("Sub", _sum(g, g("Mul", f, f)), _sum(g, g("Mul", inside, inside)))
    theirs = ((means**2).sum(axis=1) - (centres**2).sum(axis=1))[None, :]
    d = g("Add", g("Sub", own, g("Mul", products, np.float64(2))), theirs)
    d = g("Mul", d, (counts / (counts + 1))[None, :])
    mean = g("Div", _sum(g, d), np.float64(len(counts)))
    mean = g("Add", mean, g("Cast", g("Equal", mean, np.float64(0)), to=11))  # 0 / 0 where all images are the same one.
    nearness = g("Div", _max(g, g("Neg", d)), mean)
    seen = [g("Sub", _max(g, z), g("Div", _sum(g, z), np.float64(len(model.classes_)))), nearness]
    if model.text_ is not None:
        seen.append(_max(g, g("MatMul", f, _double(model.text_).T.copy())))
    held_out = _double(model.held_out_evidence_)
    deviation = held_out.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1)
    scaled = g("Div", g("Sub", g("Concat", *seen, axis=1), held_out.mean(axis=0)[None, :]), deviation[None, :])
    score = g("Div", g("ReduceSum", scaled, np.array([1]), keepdims=0), np.float64(len(seen)))
    g("Cast", score, to=1, result="familiarity")
    g("Less", score, np.float64(limit), result="none_of_these")
    g.output("familiarity", np.float32, ("n",))
    g.output("none_of_these", np.bool_, ("n",))


def _max(g: Graph, x: str) -> str:
    """(n, 1); not by `ReduceMax`, whose axes are given differently in different versions of ONNX."""
    return g("GatherElements", x, g("ArgMax", x, axis=1, keepdims=1), axis=1)


def _sum(g: Graph, x: str) -> str:
    return g("ReduceSum", x, np.array([1]), keepdims=1)


def _double(part: Any) -> np.ndarray[Any, Any]:
    return backend.to_numpy(part).astype(np.float64)
