"""Training of a method's few parameters on embeddings, with torch: seeded, epoch by epoch, best epoch kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _arrays
from .._arrays import Array
from ..journal import Journal

if TYPE_CHECKING:
    from .checkpoint import Checkpoint

Progress = Callable[[int, int], object]
"""Told how many epochs are done, and of how many."""

ONE_VIEW = "one view an image: every epoch sees the same embeddings"


@dataclass(frozen=True)
class Schedule:
    """How to train; the optimiser is given the parameters and the rate."""

    epochs: int
    batch_size: int
    learning_rate: float
    optimiser: Callable[[list[Any], float], Any]
    factor: Callable[[float], float]
    """Factor of the rate at a time, counted in epochs."""


def cosine(epochs: int, warm_up: float | None = None) -> Callable[[float], float]:
    """Rate falling to zero along half a cosine; in the first epoch it is `warm_up` times the full rate, if given."""

    def factor(time: float) -> float:
        if warm_up is not None and time < 1:
            return warm_up
        return (1 + math.cos(math.pi * time / epochs)) / 2

    return factor


def cosine_by_epoch(epochs: int, warm_up: float | None = None) -> Callable[[float], float]:
    """As `cosine`, but constant within an epoch and begun after the warm-up: the rate that CoOp's trainer gives."""
    falling, first = cosine(epochs), 0 if warm_up is None else 1

    def factor(time: float) -> float:
        epoch = math.floor(time)
        return warm_up if warm_up is not None and epoch < 1 else falling(epoch - first)

    return factor


def require_torch(method: str) -> Any:
    """The torch module, or an error that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f'{method} trains with torch: pip install "lpplusplus[torch]".') from error
    return torch


def tensor(x: Array, device: str | None) -> Any:
    """`x` as a tensor on `device`, or where it is."""
    import torch

    x = x if _arrays.is_foreign(x) else torch.from_numpy(np.ascontiguousarray(x))
    return x if device is None else x.to(device)


def finetune(
    parameters: list[Any],
    logits: Callable[[Any], Any],
    views: Any,
    y: Any,
    schedule: Schedule,
    *,
    seed: int,
    history: Journal,
    validation: tuple[Any, Any] | None = None,
    progress: Progress | None = None,
    backward: Callable[[Any, Any], float] | None = None,
    checkpoint: Checkpoint | None = None,
) -> int:
    """Train `parameters` in place, by cross-entropy unless told otherwise; returns the epoch that was kept.

    Parameters
    ----------
    logits
        Of a batch of embeddings, (n, K), at the present parameters.
    views : (N, V, D) tensor
        Or (N, V, …), whatever `logits` takes. Epoch e trains on view e modulo V of every image.
    validation
        Embeddings and labels on which the best epoch is chosen, the first of equally good ones; None keeps the last.
    backward
        Adds the gradient at a batch and its labels to the parameters and returns the loss, for a method whose loss is
        another one, or whose gradient is not the gradient of a loss.
    checkpoint
        Written after each epoch; a training that it holds the beginning of is gone on with, to the same end.
    """
    import torch

    def cross_entropy(batch: Any, labels: Any) -> float:
        loss = torch.nn.functional.cross_entropy(logits(batch), labels)
        loss.backward()
        return float(loss.detach())

    backward = backward or cross_entropy
    if views.shape[1] == 1:
        history.note(ONE_VIEW)
    order = torch.Generator().manual_seed(seed)
    optimiser = schedule.optimiser(parameters, schedule.learning_rate)
    batches = math.ceil(len(y) / schedule.batch_size)
    done, best = 0, Best()
    if checkpoint is not None:
        done, best = checkpoint.resume(parameters, optimiser, order, history)
    for epoch in range(done, schedule.epochs):
        total = 0.0
        rows = torch.randperm(len(y), generator=order).to(y.device)
        for batch, chosen in enumerate(rows.split(schedule.batch_size)):
            rate = schedule.learning_rate * schedule.factor(epoch + batch / batches)
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.zero_grad()
            total += backward(views[chosen, epoch % views.shape[1]], y[chosen]) * len(chosen)
            optimiser.step()
        if not math.isfinite(total):
            raise FloatingPointError(
                f"the loss is {total} in epoch {epoch + 1}: lower learning_rate={schedule.learning_rate:g}."
            )
        history.add(epoch=epoch + 1, loss=total / len(y))
        if validation is not None:
            with torch.no_grad():
                hits = int((logits(validation[0]).argmax(1) == validation[1]).sum())
            history.add(validation_accuracy=hits / len(validation[1]))
            if hits > best.hits:
                best = Best(hits, epoch + 1, [parameter.detach().clone() for parameter in parameters])
        if checkpoint is not None:
            checkpoint.write(epoch + 1, best, parameters, optimiser, order, history)
        if progress is not None:
            progress(epoch + 1, schedule.epochs)
    if not best.values:
        return schedule.epochs
    with torch.no_grad():
        for parameter, value in zip(parameters, best.values, strict=True):
            parameter.copy_(value)
    return best.epoch


class Best(NamedTuple):
    """The best epoch so far; none without validation data."""

    hits: int = -1
    epoch: int = 0
    values: Sequence[Any] = ()
