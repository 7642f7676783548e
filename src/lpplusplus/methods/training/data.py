"""A task as torch tensors."""

from typing import Any, NamedTuple

import numpy as np

from ..._core import backend
from ..._core.backend import Array
from ..._core.task import Task


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


class TrainingData(NamedTuple):
    """What a method is trained and validated on."""

    views: Any
    """(N, V, …): V views of each image. Epoch e trains on view e modulo V."""
    y: Any
    X_val: Any = None
    y_val: Any = None

    @classmethod
    def of(cls, task: Task, *, unit: bool, device: Any = None, dtype: Any = None) -> "TrainingData":
        """The images of a task, scaled to unit length if `unit`, on a device."""

        def images(X: Array) -> Any:
            return tensor(backend.unit_vectors(X) if unit else X, device, dtype)

        views = images(task.X[:, None] if task.views is None else task.views)
        if task.X_val is None:
            return cls(views, tensor(task.y, device))
        return cls(views, tensor(task.y, device), images(task.X_val), tensor(task.y_val, device))
