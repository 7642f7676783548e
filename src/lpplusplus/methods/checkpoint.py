"""A training on disk after each of its epochs, so that it can be interrupted: safetensors and JSON, never pickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from .. import _arrays
from .._arrays import Array
from ..journal import Journal
from ..persistence import atomic_write
from .finetuning import Best

KEY, VERSION = "lpplusplus-training", 1


class CheckpointError(ValueError):
    """A checkpoint cannot be read or belongs to another training; the message says which and what to do."""


def identity(settings: Mapping[str, Any], arrays: Mapping[str, Array | None]) -> str:
    """A digest of all that a training depends on."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, array in sorted(arrays.items()):
        if array is not None:
            values = np.ascontiguousarray(_arrays.to_numpy(array))
            digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.data)
    return digest.hexdigest()


class Checkpoint:
    """Where a training writes its state, and which training it is.

    Parameters
    ----------
    path
        A file that need not exist yet, in a folder that does.
    identity
        Of the training; a file of another one is refused rather than gone on with.
    """

    def __init__(self, path: str | PathLike[str], identity: str) -> None:
        self.path = Path(path)
        self.identity = identity
        if not self.path.parent.is_dir():
            raise CheckpointError(f"checkpoint {self.path}: there is no folder {self.path.parent}. Make it first.")

    def write(
        self, epoch: int, best: Best, parameters: list[Any], optimiser: Any, order: Any, history: Journal
    ) -> None:
        """Replace the file by the state after `epoch` epochs, atomically."""
        import safetensors.torch

        tensors = {f"parameter.{i}": value.detach() for i, value in enumerate(parameters)}
        tensors |= {f"best.{i}": value for i, value in enumerate(best.values)}
        for i, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{name}": value for name, value in state.items() if value is not None}
        tensors["order"] = order.get_state()
        header = {
            "version": VERSION,
            "identity": self.identity,
            "epoch": epoch,
            "best": [best.hits, best.epoch],
            "columns": history.as_lists()["columns"],
        }
        content = safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, {KEY: json.dumps(header)})
        with atomic_write(self.path) as file:
            file.write(content)

    def resume(self, parameters: list[Any], optimiser: Any, order: Any, history: Journal) -> tuple[int, Best]:
        """Set all to the state in the file, and return the epochs done and the best of them; 0 without a file."""
        import torch

        if not self.path.exists():
            return 0, Best()
        header, tensors = self._read()
        try:
            if header["version"] != VERSION:
                raise CheckpointError(f"checkpoint {self.path} has version {header['version']}: upgrade lpplusplus.")
            if header["identity"] != self.identity:
                raise CheckpointError(
                    f"checkpoint {self.path} is of another training: other data, parameters or weights. Name another "
                    f"file, or remove this one to begin anew."
                )
            with torch.no_grad():
                for i, parameter in enumerate(parameters):
                    parameter.copy_(tensors[f"parameter.{i}"])
            kept = [tensors[f"best.{i}"].to(p) for i, p in enumerate(parameters) if f"best.{i}" in tensors]
            hits, kept_epoch = header["best"]
            best = Best(hits, kept_epoch, kept)
            state: dict[int, dict[str, Any]] = {}
            for name, value in tensors.items():
                if name.startswith("optimiser."):
                    _, index, entry = name.split(".", 2)
                    state.setdefault(int(index), {})[entry] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
            order.set_state(tensors["order"])
            history.columns = {name: list(values) for name, values in header["columns"].items()}
            return int(header["epoch"]), best
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
