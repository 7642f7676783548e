"""A training in progress, and its file, so that it can be interrupted after any epoch. Nothing is pickled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors

from ..._core import backend
from ..._core.backend import Array
from ..._core.files import atomic_write
from ..._core.history import History
from ..._core.text import BriefError

KEY, VERSION = "lpplusplus-training", 1


class BestEpoch(NamedTuple):
    """The epoch with the most validation images right, the first of equals; none without validation data."""

    hits: int = -1
    epoch: int = 0
    values: Sequence[Any] = ()
    """The parameters after it."""


@dataclass
class TrainingState:
    """What a checkpoint holds."""

    parameters: list[Any]
    optimiser: Any
    order: Any
    """The torch generator that shuffles the images."""
    history: History
    epoch: int = 0
    """Epochs done."""
    best: BestEpoch = field(default_factory=BestEpoch)


class CheckpointError(BriefError, ValueError):
    """A checkpoint cannot be read or belongs to another training; the message says which and what to do."""


def identity(settings: Mapping[str, Any], arrays: Mapping[str, Array | None]) -> str:
    """A digest of everything that a training depends on."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, array in sorted(arrays.items()):
        if array is not None:
            values = np.ascontiguousarray(backend.to_numpy(array))
            digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.data)
    return digest.hexdigest()


class Checkpoint:
    """The file that a training writes its state to.

    Parameters
    ----------
    path
        A file that need not exist yet, in a folder that does.
    identity
        Digest of the training. A file of another training is refused.
    """

    def __init__(self, path: str | PathLike[str], identity: str) -> None:
        self.path = Path(path)
        self.identity = identity
        if not self.path.parent.is_dir():
            raise CheckpointError(f"checkpoint {self.path}: there is no folder {self.path.parent}. Make it first.")

    def write(self, state: TrainingState) -> None:
        """Replace the file by this state, atomically."""
        import safetensors.torch

        tensors = {f"parameter.{i}": value.detach() for i, value in enumerate(state.parameters)}
        tensors |= {f"best.{i}": value for i, value in enumerate(state.best.values)}
        for i, entries in state.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{name}": value for name, value in entries.items() if value is not None}
        tensors["order"] = state.order.get_state()
        header = {
            "version": VERSION,
            "identity": self.identity,
            "epoch": state.epoch,
            "best": [state.best.hits, state.best.epoch],
            "columns": state.history.as_lists()["columns"],
        }
        content = safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, {KEY: json.dumps(header)})
        with atomic_write(self.path) as file:
            file.write(content)

    def resume(self, state: TrainingState) -> None:
        """Set `state` to that of the file, if there is one."""
        if not self.path.exists():
            return
        header, tensors = self._read()
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

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {})[KEY])
                return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {self.path} is not a whole checkpoint of lpplusplus ({error!r}): remove it to begin anew, "
                f"or name another file."
            ) from error


def _restore(state: TrainingState, header: dict[str, Any], tensors: dict[str, Any]) -> None:
    import torch

    with torch.no_grad():
        for i, parameter in enumerate(state.parameters):
            parameter.copy_(tensors[f"parameter.{i}"])
    best = [tensors[f"best.{i}"].to(p) for i, p in enumerate(state.parameters) if f"best.{i}" in tensors]
    hits, best_epoch = header["best"]
    state.best = BestEpoch(hits, best_epoch, best)
    entries: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, entry = name.split(".", 2)
            entries.setdefault(int(index), {})[entry] = value
    state.optimiser.load_state_dict({**state.optimiser.state_dict(), "state": entries})
    state.order.set_state(tensors["order"])
    state.history.columns = {name: list(values) for name, values in header["columns"].items()}
    state.epoch = int(header["epoch"])
