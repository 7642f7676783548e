"""CLIP-Adapter: a small network that nudges the image embedding."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import _arrays
from .._arrays import Array
from .._checks import Task
from .._parameters import Callback, Choice, Nothing, Number, Rule, Seed, Text
from .._random import generator
from ..base import FewShotClassifier
from ..journal import Journal
from ..training import fewest_shots
from ._directions import LOGIT_SCALE, WITHOUT_TEXT, class_directions
from .finetuning import Progress, Schedule, cosine, finetune, require_torch, tensor

REDUCTION = 4
"""The network's narrow middle has D / 4 dimensions."""
_RATIOS = {"authors": 0.2, "lpp": 0.5}
_RATES = {"authors": 0.002, "lpp": 0.01}
WARM_UP = 1e-5
"""Rate of the first epoch."""


def adapted(F: Array, down: Array, up: Array, ratio: float) -> Array:
    """ratio · relu(up relu(down f)) + (1 - ratio) · f for rows f of `F`."""
    hidden = _relu(F @ down.T)
    return ratio * _relu(hidden @ up.T) + (1 - ratio) * F


class ClipAdapter(FewShotClassifier):
    """Train a two-layer network on the image embedding, blended with the embedding itself, against fixed class names.

    logits = 100·unit(r·relu(W₂ relu(W₁ f)) + (1 - r)·f)·t_k with W₁ of D/4 × D and W₂ of D × D/4, no biases. The epoch
    with the best validation accuracy is kept; without validation data, the last. Needs torch
    (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text` each class's mean image stands in for
    its name.

    Parameters
    ----------
    flavour : {"authors", "lpp"}
        "authors": embeddings as they come, r = 0.2, the blend scaled to unit length, SGD with momentum 0.9, weight
        decay 5e-4 and rate 0.002. "lpp", the LP++ authors' re-implementation: unit embeddings, r = 0.5, the blend as it
        is, plain SGD with rate 0.01. Both with a first epoch at 1e-5 and a rate falling along a cosine.
    ratio : float, optional
        r; 0 is zero-shot.
    epochs : int, optional
        By default as CoOp has it: 50 for one shot, 100 below eight, 200 from there on.
    batch_size : int
    learning_rate : float, optional
    logit_scale : float
        Factor of the cosines.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Told `(done, total)` after each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Start of the network and order of the batches.

    Attributes
    ----------
    down_ : (D/4, D) array
    up_ : (D, D/4) array
    coef_ : (K, D) array
        logit_scale · t_k.
    ratio_ : float
    epoch_ : int
        The epoch that was kept.
    history_ : Journal
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import ClipAdapter
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = ClipAdapter().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.epoch_
    (array(['cat'], dtype='<U3'), 100)
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "flavour": [Choice(("authors", "lpp"))],
        "ratio": [Number(0, 1), Nothing("as the flavour has it")],
        "epochs": [Number(0, whole=True), Nothing("by the number of shots")],
        "batch_size": [Number(1, whole=True)],
        "learning_rate": [Number(0, open=True), Nothing("as the flavour has it")],
        "logit_scale": [Number(0, open=True)],
        "device": [Text(), Nothing("where the data are")],
        "progress": [Callback(), Nothing("silent")],
        "random_state": [Seed()],
    }
    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "down_": "HD", "up_": "DH"}
    fitted_scalars = ("ratio_", "epoch_")
    needs_torch = True

    down_: Array
    up_: Array
    ratio_: float
    epoch_: int

    def __init__(
        self,
        *,
        flavour: str = "authors",
        ratio: float | None = None,
        epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float | None = None,
        logit_scale: float = LOGIT_SCALE,
        device: str | None = None,
        progress: Progress | None = None,
        random_state: Any = 0,
    ) -> None:
        self.flavour = flavour
        self.ratio = ratio
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.logit_scale = logit_scale
        self.device = device
        self.progress = progress
        self.random_state = random_state

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether the network sees unit embeddings."""
        return self.flavour == "lpp"

    def _fit_task(self, task: Task) -> None:
        torch = require_torch("ClipAdapter")
        self.history_ = Journal()
        if task.text is None:
            self.history_.note(WITHOUT_TEXT)
        self.coef_ = float(self.logit_scale) * class_directions(task, self.classes_)
        self.text_ = None if task.text is None else _arrays.copy(task.text)
        self.ratio_ = float(_RATIOS[self.flavour] if self.ratio is None else self.ratio)
        rng = generator(self.random_state)
        names, y = tensor(self.coef_, self.device), tensor(task.y, self.device)
        dim = task.X.shape[1]
        hidden = max(1, dim // REDUCTION)
        shapes = ((hidden, dim), (dim, hidden))
        # As torch starts its linear layers.
        layers = [
            torch.from_numpy(rng.uniform(-1 / math.sqrt(n), 1 / math.sqrt(n), (m, n))).to(names).requires_grad_()
            for m, n in shapes
        ]
        stack = task.X[:, None, :] if task.views is None else task.views
        held = None
        if task.X_val is not None:
            held = tensor(task.X_val, self.device), tensor(task.y_val, self.device)
        self.epoch_ = finetune(
            layers,
            lambda F: self._scores(F, names, *layers),
            tensor(stack, self.device),
            y,
            self._schedule(task),
            seed=int(rng.integers(2**31)),
            history=self.history_,
            validation=held,
            progress=self.progress,
        )
        self.down_, self.up_ = (_arrays.like(layer.detach(), task.X) for layer in layers)

    def _schedule(self, task: Task) -> Schedule:
        shots = fewest_shots(task)
        epochs = (50 if shots < 2 else 100 if shots < 8 else 200) if self.epochs is None else self.epochs
        rate = _RATES[self.flavour] if self.learning_rate is None else self.learning_rate
        return Schedule(epochs, self.batch_size, rate, self._optimiser, cosine(epochs, warm_up=WARM_UP / rate))

    def _optimiser(self, parameters: list[Any], rate: float) -> Any:
        import torch

        extra = {"momentum": 0.9, "weight_decay": 5e-4} if self.flavour == "authors" else {}
        return torch.optim.SGD(parameters, lr=rate, **extra)

    def _scores(self, X: Array, names: Array, down: Array, up: Array) -> Array:
        """Logits of embeddings at any weights of the network; the same in training and in prediction."""
        if self.normalize:
            return adapted(_arrays.unit_rows(X), down, up, self.ratio_) @ names.T
        return _arrays.unit_rows(adapted(X, down, up, self.ratio_)) @ names.T

    def _count_parameters(self) -> int:
        return sum(math.prod(layer.shape) for layer in (self.down_, self.up_))

    def _logits(self, X: Array) -> Array:
        names, down, up = (_arrays.like(part, X) for part in (self.coef_, self.down_, self.up_))
        return self._scores(_arrays.cast(X, names.dtype), names, down, up)


def _relu(x: Array) -> Array:
    return x * (x > 0)
