"""Text features of many prompts in little memory: chunk by chunk, each computed again in the backward pass.

torch's own checkpointing computes the same. But it keeps every chunk's result in memory between the temporaries of its
neighbours, so that memory cannot be used again: a process grew to three times its budget.
"""

from collections.abc import Callable
from typing import Any

import torch


class Chunked(torch.autograd.Function):  # type: ignore[misc]
    """The results of `compute(vectors, rows)` for all chunks of rows, in one tensor.

    `vectors` are (1, M, W), shared by all rows, or (n, M, W), one set per row, of which `compute` gets those of `rows`.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Any, compute: Callable[[Any, slice], Any], chunks: list[slice]) -> Any:
        ctx.save_for_backward(vectors)
        ctx.compute, ctx.chunks = compute, chunks
        out: Any = None
        for rows in chunks:
            part = compute(_of(vectors, rows), rows)
            out = part.new_empty((chunks[-1].stop, part.shape[1])) if out is None else out
            out[rows] = part
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (vectors,), (gradient,) = ctx.saved_tensors, gradients
        total = torch.zeros_like(vectors)
        for rows in ctx.chunks:
            part = _of(vectors, rows).detach().requires_grad_()
            with torch.enable_grad():
                features = ctx.compute(part, rows)
            (found,) = torch.autograd.grad(features, part, gradient[rows])
            _of(total, rows).add_(found)
        return total, None, None


def _of(vectors: Any, rows: slice) -> Any:
    return vectors if len(vectors) == 1 else vectors[rows]
