"""The training loop: seeded, epoch by epoch, the best epoch kept."""

import math
from collections.abc import Callable
from typing import Any

from ..._core.history import History
from ..._core.progress import Progress
from ..._core.task import Task
from .checkpoint import BestEpoch, Checkpoint, TrainingState
from .data import TrainingData
from .schedule import Schedule

ONE_VIEW = "one view per image: every epoch sees the same embeddings"


def epoch_by(task: Task) -> dict[str, str]:
    """`chosen_` of a method that `finetune` trains: the epoch, if there are validation data."""
    return {} if task.X_val is None else {"epoch": "validation"}


def finetune(
    parameters: list[Any],
    logits: Callable[[Any], Any],
    data: TrainingData,
    schedule: Schedule,
    *,
    seed: int,
    history: History,
    progress: Progress | None = None,
    backward: Callable[[Any, Any], float] | None = None,
    checkpoint: Checkpoint | None = None,
) -> int:
    """Train `parameters` in place; returns the epoch that was kept: the best on validation data, or the last.

    Parameters
    ----------
    logits
        Logits of a batch of images, (n, K), at the present parameters.
    backward
        Adds the gradient for a batch and its labels to the parameters, and returns the loss. By default the
        cross-entropy of `logits`.
    checkpoint
        Written after each epoch. If it holds the beginning of this training, the training goes on from there.
    """
    import torch

    def cross_entropy(images: Any, y: Any) -> float:
        loss = torch.nn.functional.cross_entropy(logits(images), y)
        loss.backward()
        return float(loss.detach())

    if data.views.shape[1] == 1:
        history.note(ONE_VIEW)
    optimiser = schedule.optimiser(parameters, schedule.learning_rate)
    state = TrainingState(parameters, optimiser, torch.Generator().manual_seed(seed), history)
    if checkpoint is not None:
        checkpoint.resume(state)
    while state.epoch < schedule.epochs:
        loss = _train_one_epoch(state, data, schedule, backward or cross_entropy)
        state.epoch += 1
        history.add(epoch=state.epoch, loss=loss)
        if data.X_val is not None:
            _validate(state, data, logits)
        if checkpoint is not None:
            checkpoint.write(state)
        if progress is not None:
            progress(state.epoch, schedule.epochs)
    if not state.best.values:
        return schedule.epochs
    with torch.no_grad():
        for parameter, value in zip(parameters, state.best.values, strict=True):
            parameter.copy_(value)
    return state.best.epoch


def _train_one_epoch(
    state: TrainingState, data: TrainingData, schedule: Schedule, backward: Callable[[Any, Any], float]
) -> float:
    """One pass over all images; returns their mean loss."""
    import torch

    view = state.epoch % data.views.shape[1]
    batches = torch.randperm(len(data.y), generator=state.order).to(data.y.device).split(schedule.batch_size)
    total = 0.0
    for number, rows in enumerate(batches):
        for group in state.optimiser.param_groups:
            group["lr"] = schedule.learning_rate * schedule.factor(state.epoch + number / len(batches))
        state.optimiser.zero_grad()
        loss = backward(data.views[rows, view], data.y[rows])
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} in epoch {state.epoch + 1}: lower learning_rate={schedule.learning_rate:g}"
                f"{schedule.other_remedy}."
            )
        total += loss * len(rows)
        state.optimiser.step()
    return total / len(data.y)


def _validate(state: TrainingState, data: TrainingData, logits: Callable[[Any], Any]) -> None:
    """Note the accuracy after an epoch, and keep the parameters if it is the best so far."""
    import torch

    with torch.no_grad():
        hits = int((logits(data.X_val).argmax(1) == data.y_val).sum())
    state.history.add(validation_accuracy=hits / len(data.y_val))
    if hits > state.best.hits:
        state.best = BestEpoch(hits, state.epoch, [parameter.detach().clone() for parameter in state.parameters])
