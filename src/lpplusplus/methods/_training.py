"""Training with torch: seeded, epoch by epoch, the best epoch on validation data kept; and a file to go on from."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import safetensors

from .._core import backend
from .._core.backend import Array
from .._core.base import FewShotClassifier
from .._core.errors import BriefError
from .._core.files import atomic_write
from .._core.history import History
from .._core.parameters import CALLBACK, TEXT, Progress, nothing, with_parameters
from .._core.task import Task

ONE_VIEW = "one view per image: every epoch sees the same embeddings"
KEY, VERSION = "lpplusplus-training", 1


class Schedule(NamedTuple):
    """How long and how fast to train."""

    epochs: int
    batch_size: int
    learning_rate: float
    factor: Callable[[float], float]
    """Factor of the learning rate as a function of time, in epochs."""
    optimiser: str = "SGD"
    """A class of `torch.optim`."""
    options: Mapping[str, float] = {}
    """What the optimiser takes beside the learning rate."""
    remedy: str = ""
    """What to do about a loss that is not finite, besides lowering the learning rate."""


def epochs_by_shots(shots: int) -> int:
    """CoOp's rule: 50 epochs for one shot, 100 for less than eight, 200 from there on.

    >>> [epochs_by_shots(shots) for shots in (1, 2, 4, 8, 16)]
    [50, 100, 100, 200, 200]
    """
    return 50 if shots < 2 else 100 if shots < 8 else 200


def cosine(epochs: int, warm_up: float | None = None, *, by_epoch: bool = False) -> Callable[[float], float]:
    """A factor that falls from 1 to 0 along half a cosine; in the first epoch it is `warm_up`, if given.

    With `by_epoch` it is constant within an epoch and begins after the warm-up, as in CoOp's trainer.
    """

    def factor(time: float) -> float:
        if warm_up is not None and time < 1:
            return warm_up
        time = math.floor(time) - (warm_up is not None) if by_epoch else time
        return (1 + math.cos(math.pi * time / epochs)) / 2

    return factor


def require_torch(method: str) -> Any:
    """The torch module, or an error that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f'{method} trains with torch: pip install "lpplusplus[torch]".') from error
    return torch


def tensor(x: Array, device: Any = None, dtype: Any = None) -> Any:
    """`x` as a tensor; by default on the device and of the type that it has."""
    import torch

    x = x if backend.is_foreign(x) else torch.from_numpy(np.ascontiguousarray(x))
    return x.to(device=device, dtype=dtype)


@dataclass
class Training:
    """The state of a training between two epochs: what a checkpoint holds."""

    parameters: list[Any]
    optimiser: Any
    order: Any
    """The torch generator that shuffles the images."""
    history: History
    epoch: int = 0
    """Epochs done."""
    best: tuple[int, int] = (-1, 0)
    """The most validation images right after an epoch, and the first epoch with so many."""
    kept: Sequence[Any] = ()
    """The parameters after it; none without validation data."""

    def one_epoch(self, X: Any, y: Any, schedule: Schedule, backward: Callable[[Any, Any], float]) -> None:
        """One pass over all images, whose mean loss is noted."""
        import torch

        batches = torch.randperm(len(y), generator=self.order).to(y.device).split(schedule.batch_size)
        total = 0.0
        for number, rows in enumerate(batches):
            for group in self.optimiser.param_groups:
                group["lr"] = schedule.learning_rate * schedule.factor(self.epoch + number / len(batches))
            self.optimiser.zero_grad()
            loss = backward(X[rows], y[rows])
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} in epoch {self.epoch + 1}: lower learning_rate={schedule.learning_rate:g}"
                    f"{schedule.remedy}."
                )
            total += loss * len(rows)
            self.optimiser.step()
        self.epoch += 1
        self.history.add(epoch=self.epoch, loss=total / len(y))

    def judge(self, hits: int, count: int) -> None:
        """Keep the parameters if more validation images are right than after all epochs before."""
        self.history.add(validation_accuracy=hits / count)
        if hits > self.best[0]:
            self.best, self.kept = (hits, self.epoch), [parameter.detach().clone() for parameter in self.parameters]


@with_parameters
class TorchTrained(FewShotClassifier):
    """Base of methods that train parameters with torch."""

    fitted_scalars: ClassVar[dict[str, str]] = {"epoch_": "number"}
    needs_torch = True

    device: Annotated[str | None, TEXT, nothing("where the data are")] = None
    progress: Annotated[Progress | None, CALLBACK, nothing("silent")] = None

    def _train(
        self,
        task: Task,
        parameters: list[Any],
        logits: Callable[[Any], Any],
        schedule: Schedule,
        *,
        seed: int = 0,
        unit: bool = True,
        penalty: Callable[[], Any] | None = None,
        backward: Callable[[Any, Any], float] | None = None,
        progress: Progress | None = None,
        checkpoint: "Checkpoint | None" = None,
    ) -> list[Array]:
        """Train parameters in place; set `epoch_`, the one that is kept: the best on validation data, or the last.

        Parameters
        ----------
        logits
            Logits of a batch of images, (n, K), at the present parameters.
        unit
            Whether images are scaled to unit length.
        penalty
            Added to the cross-entropy of `logits`.
        backward
            Adds the gradient for a batch and its labels to the parameters, and returns the loss; instead of both.
        checkpoint
            Written after each epoch. If it holds the beginning of this training, the training goes on from there.

        Returns
        -------
        The parameters, in the library of the task.
        """
        import torch

        def images(X: Array) -> Any:
            return tensor(backend.unit_vectors(X) if unit else X, parameters[0].device, parameters[0].dtype)

        def cross_entropy(batch: Any, labels: Any) -> float:
            loss = torch.nn.functional.cross_entropy(logits(batch), labels)
            loss = loss if penalty is None else loss + penalty()
            loss.backward()
            return float(loss.detach())

        views = images(task.X[:, None] if task.views is None else task.views)
        y = tensor(task.y, views.device)
        held_out = None if task.X_val is None else (images(task.X_val), tensor(task.y_val, views.device))
        if views.shape[1] == 1:
            self.history_.note(ONE_VIEW)
        optimiser = getattr(torch.optim, schedule.optimiser)(parameters, schedule.learning_rate, **schedule.options)
        state = Training(parameters, optimiser, torch.Generator().manual_seed(seed), self.history_)
        if checkpoint is not None:
            checkpoint.resume(state)
        while state.epoch < schedule.epochs:
            # Epoch e trains on view e modulo the number of views.
            state.one_epoch(views[:, state.epoch % views.shape[1]], y, schedule, backward or cross_entropy)
            if held_out is not None:
                with torch.no_grad():
                    hits = int((logits(held_out[0]).argmax(1) == held_out[1]).sum())
                state.judge(hits, len(held_out[1]))
            if checkpoint is not None:
                checkpoint.write(state)
            if progress := progress or self.progress:
                progress(state.epoch, schedule.epochs)
        self.epoch_ = state.best[1] if state.kept else schedule.epochs
        self.chosen_ = {} if task.X_val is None else {"epoch": "validation"}
        with torch.no_grad():
            for parameter, value in zip(parameters, state.kept, strict=False):
                parameter.copy_(value)
        return [backend.like(parameter.detach(), task.X) for parameter in parameters]


class CheckpointError(BriefError, ValueError):
    """A checkpoint cannot be read or belongs to another training; the message says which and what to do."""


class Checkpoint:
    """The file that a training writes its state to after each epoch. Nothing is pickled.

    Parameters
    ----------
    path
        A file that need not exist yet, in a folder that does.
    settings, arrays
        Everything that the training depends on. A file of another training is refused.
    """

    def __init__(
        self, path: str | PathLike[str], settings: Mapping[str, Any], arrays: Mapping[str, Array | None]
    ) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise CheckpointError(f"checkpoint {self.path}: there is no folder {self.path.parent}. Make it first.")
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
        for name, array in sorted(arrays.items()):
            if array is not None:
                values = np.ascontiguousarray(backend.to_numpy(array))
                digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
                digest.update(values.data)
        self.identity = digest.hexdigest()

    def write(self, state: Training) -> None:
        """Replace the file by this state, atomically."""
        import safetensors.torch

        tensors = {f"parameter.{i}": value.detach() for i, value in enumerate(state.parameters)}
        tensors |= {f"best.{i}": value for i, value in enumerate(state.kept)}
        for i, entries in state.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{name}": value for name, value in entries.items() if value is not None}
        tensors["order"] = state.order.get_state()
        header = {
            "version": VERSION,
            "identity": self.identity,
            "epoch": state.epoch,
            "best": state.best,
            "columns": state.history.as_lists()["columns"],
        }
        content = safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, {KEY: json.dumps(header)})
        with atomic_write(self.path) as file:
            file.write(content)

    def resume(self, state: Training) -> None:
        """Set `state` to that of the file, if there is one."""
        if not self.path.exists():
            return
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {})[KEY])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {self.path} is not a whole checkpoint of lpplusplus ({error!r}): remove it to begin anew, "
                f"or name another file."
            ) from error
        try:
            if header["version"] != VERSION:
                raise CheckpointError(f"checkpoint {self.path} has version {header['version']}: upgrade lpplusplus.")
            if header["identity"] != self.identity:
                raise CheckpointError(
                    f"checkpoint {self.path} is of another training: other data, parameters or weights. Name another "
                    f"file, or remove this one to begin anew."
                )
            _restore(state, header, tensors)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise CheckpointError(f"checkpoint {self.path} is damaged ({error!r}): remove it to begin anew.") from error


def _restore(state: Training, header: dict[str, Any], tensors: dict[str, Any]) -> None:
    import torch

    with torch.no_grad():
        for i, parameter in enumerate(state.parameters):
            parameter.copy_(tensors[f"parameter.{i}"])
    state.kept = [tensors[f"best.{i}"].to(p) for i, p in enumerate(state.parameters) if f"best.{i}" in tensors]
    hits, best_epoch = header["best"]
    state.best = hits, best_epoch
    entries: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, entry = name.split(".", 2)
            entries.setdefault(int(index), {})[entry] = value
    state.optimiser.load_state_dict({**state.optimiser.state_dict(), "state": entries})
    state.order.set_state(tensors["order"])
    state.history.columns = {name: list(values) for name, values in header["columns"].items()}
    state.epoch = int(header["epoch"])
