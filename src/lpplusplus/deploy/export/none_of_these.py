"""None of these, as nodes behind the head: see `probe/none_of_these.py` for the score."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import backend
from .graph import Graph


def add_none_of_these(g: Graph, model: Any, f: str, logits: str, limit: float) -> None:
    """Add the outputs "familiarity" and "none_of_these", both (n,), from scaled embeddings and their logits."""
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
