"""Tip-Adapter-F: Tip-Adapter with trained keys."""

import math
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

from .._core import backend
from .._core.backend import Array
from .._core.history import History
from .._core.parameters import CALLBACK, SEED, TEXT, nothing, number, with_parameters
from .._core.progress import Progress
from .._core.seeds import generator
from .._core.task import Task
from .cache.classifier import CacheClassifier
from .cache.model import cache_logits
from .training.data import TrainingData, require_torch, tensor
from .training.finetune import epoch_by, finetune
from .training.schedule import Schedule, cosine


class TrainedKeys(NamedTuple):
    """The result of one training."""

    keys: Array
    epoch: int
    """The epoch that they are from."""
    history: History


@with_parameters
class TipAdapterF(CacheClassifier):
    """Tip-Adapter whose keys are trained: AdamW, learning rate 1e-3 falling along a cosine, 20 epochs, α = β = 1.

    The epoch with the best validation accuracy is kept; without validation data, the last. Needs torch
    (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text`, the mean image of each class stands in
    for its name.

    Parameters
    ----------
    alpha, beta : float
        Weight and sharpness of the cache, fixed in training.
    epochs, batch_size, learning_rate, weight_decay
        Training. With views, X of shape (N, V, D), each epoch sees another view of every image; the keys begin at the
        mean of the views.
    logit_scale : float
        Factor of the cosines with the text.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Called as `progress(done, total)` after each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Order of the batches.

    Attributes
    ----------
    keys_, values_, alpha_, beta_, coef_
        As in `TipAdapter`.
    epoch_ : int
        The epoch that was kept; 0 is the training-free model.
    history_ : History
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import TipAdapterF
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = TipAdapterF().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.epoch_, model.history_.notes
    (20, ['one view per image: every epoch sees the same embeddings'])
    """

    fitted_scalars: ClassVar[dict[str, str]] = {**CacheClassifier.fitted_scalars, "epoch_": "number"}
    needs_torch = True

    epochs: Annotated[int, number(0, whole=True)] = 20
    batch_size: Annotated[int, number(1, whole=True)] = 256
    learning_rate: Annotated[float, number(0, open=True)] = 1e-3
    weight_decay: Annotated[float, number(0)] = 0.01
    device: Annotated[str | None, TEXT, nothing("where the data are")] = None
    progress: Annotated[Progress | None, CALLBACK, nothing("silent")] = None
    random_state: Annotated[Any, SEED] = 0

    def _fit_task(self, task: Task) -> None:
        require_torch(type(self).__name__)
        self._fill_cache(task)
        seed = int(generator(self.random_state).integers(2**31))
        self._keep(self._train_keys(task, self.alpha_, seed, self.progress))
        self.chosen_ = epoch_by(task)

    def _train_keys(self, task: Task, alpha: float, seed: int, progress: Progress | None) -> TrainedKeys:
        """Train a copy of the keys."""
        names, values = (tensor(part, self.device) for part in (self.coef_, self.values_))
        keys = tensor(self.keys_, self.device).clone().requires_grad_()
        history = History()
        epoch = finetune(
            [keys],
            lambda F: cache_logits(F, names, keys, values, alpha, self.beta_),
            TrainingData.of(task, unit=True, device=self.device),
            self._schedule(),
            seed=seed,
            history=history,
            progress=progress,
        )
        return TrainedKeys(backend.like(keys.detach(), task.X), epoch, history)

    def _keep(self, trained: TrainedKeys) -> None:
        self.keys_, self.epoch_ = trained.keys, trained.epoch
        self.history_.columns = trained.history.columns
        self.history_.notes.extend(trained.history.notes)

    def _schedule(self) -> Schedule:
        import torch

        # The authors' eps, meant for half precision. It damps the first steps and so belongs to the recipe.
        adam = partial(torch.optim.AdamW, eps=1e-4, weight_decay=self.weight_decay)
        return Schedule(self.epochs, self.batch_size, self.learning_rate, adam, cosine(self.epochs))

    def _count_parameters(self) -> int:
        return math.prod(self.keys_.shape)
