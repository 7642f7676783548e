"""CLIP-Adapter: a small network that changes the image embedding a little."""

import math
from typing import Annotated, Any, ClassVar, NamedTuple

from .._core import backend
from .._core.backend import Array
from .._core.parameters import SEED, choice, generator, nothing, number, with_parameters
from .._core.task import Task
from ._training import Schedule, TorchTrained, cosine, epochs_by_shots, require_torch, tensor
from .zero_shot import TextBased

REDUCTION = 4
"""The network's narrow middle has D / 4 dimensions."""
WARM_UP = 1e-5
"""Learning rate of the first epoch."""


class _Flavour(NamedTuple):
    ratio: float
    learning_rate: float
    sgd: dict[str, float]


FLAVOURS = {
    "authors": _Flavour(0.2, 0.002, {"momentum": 0.9, "weight_decay": 5e-4}),
    "lpp": _Flavour(0.5, 0.01, {}),
}


def adapted(F: Array, down: Array, up: Array, ratio: float) -> Array:
    """ratio · relu(up relu(down f)) + (1 - ratio) · f for rows f of `F`."""
    hidden = _relu(F @ down.T)
    return ratio * _relu(hidden @ up.T) + (1 - ratio) * F


def _relu(x: Array) -> Array:
    return x * (x > 0)


@with_parameters
class ClipAdapter(TorchTrained, TextBased):
    """Train a two-layer network on the image embedding and blend its output with the embedding; class names are fixed.

    Logits are 100·unit(r·relu(W₂ relu(W₁ f)) + (1 - r)·f)·t_k with W₁ of D/4 × D and W₂ of D × D/4, no biases. The
    epoch with the best validation accuracy is kept; without validation data, the last. Needs torch
    (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text`, the mean image of each class stands in
    for its name.

    Parameters
    ----------
    flavour : {"authors", "lpp"}
        "authors": embeddings as they come, r = 0.2, the blend scaled to unit length, SGD with momentum 0.9, weight
        decay 5e-4 and learning rate 0.002. "lpp", the LP++ authors' version: unit embeddings, r = 0.5, the blend as it
        is, plain SGD with learning rate 0.01. In both the rate is 1e-5 in the first epoch, then falls along a cosine.
    ratio : float, optional
        r, by default that of the flavour; 0 is zero-shot.
    epochs : int, optional
        By default CoOp's rule: 50 for one shot, 100 for less than eight, 200 from there on.
    batch_size : int
    learning_rate : float, optional
        By default that of the flavour.
    logit_scale : float
        Factor of the cosines.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Called as `progress(done, total)` after each epoch. Not saved.
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
    history_ : History
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import ClipAdapter
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = ClipAdapter().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.epoch_
    (array(['cat'], dtype='<U3'), 100)
    """

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "down_": "HD", "up_": "DH"}
    fitted_scalars: ClassVar[dict[str, str]] = {"ratio_": "factor", "epoch_": "number"}
    trained_arrays = ("down_", "up_")

    flavour: Annotated[str, choice(tuple(FLAVOURS))] = "authors"
    ratio: Annotated[float | None, number(0, 1), nothing("as the flavour has it")] = None
    epochs: Annotated[int | None, number(0, whole=True), nothing("by the number of shots")] = None
    batch_size: Annotated[int, number(1, whole=True)] = 32
    learning_rate: Annotated[float | None, number(0, open=True), nothing("as the flavour has it")] = None
    random_state: Annotated[Any, SEED] = 0

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether the network sees unit embeddings."""
        return self.flavour == "lpp"

    def _fit_task(self, task: Task) -> None:
        torch = require_torch(type(self).__name__)
        self._set_text(task)
        self.ratio_ = float(FLAVOURS[self.flavour].ratio if self.ratio is None else self.ratio)
        rng = generator(self.random_state)
        names = tensor(self.coef_, self.device)
        dim = task.X.shape[1]
        hidden = max(1, dim // REDUCTION)
        # As torch starts its linear layers.
        layers = [
            torch.from_numpy(rng.uniform(-1 / math.sqrt(n), 1 / math.sqrt(n), (m, n))).to(names).requires_grad_()
            for m, n in ((hidden, dim), (dim, hidden))
        ]
        self.down_, self.up_ = self._train(
            task,
            layers,
            lambda F: self._scores(F, names, *layers),
            self._schedule(task),
            seed=int(rng.integers(2**31)),
            unit=False,
        )

    def _schedule(self, task: Task) -> Schedule:
        flavour = FLAVOURS[self.flavour]
        epochs = epochs_by_shots(task.fewest_shots) if self.epochs is None else self.epochs
        rate = flavour.learning_rate if self.learning_rate is None else self.learning_rate
        return Schedule(epochs, self.batch_size, rate, cosine(epochs, WARM_UP / rate), options=flavour.sgd)

    def _scores(self, X: Array, names: Array, down: Array, up: Array) -> Array:
        """Logits of embeddings at any weights of the network, in training and in prediction."""
        if self.normalize:
            return adapted(backend.unit_rows(X), down, up, self.ratio_) @ names.T
        return backend.unit_rows(adapted(X, down, up, self.ratio_)) @ names.T

    def _logits(self, X: Array) -> Array:
        names, down, up = (backend.like(part, X) for part in (self.coef_, self.down_, self.up_))
        return self._scores(backend.cast(X, names.dtype), names, down, up)
