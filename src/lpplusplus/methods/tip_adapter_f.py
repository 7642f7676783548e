"""Tip-Adapter-F: Tip-Adapter with trained keys."""

from typing import Annotated, Any, ClassVar

from .._core.parameters import SEED, generator, number, with_parameters
from .._core.task import Task
from ._training import Schedule, TorchTrained, cosine, require_torch, tensor
from .tip_adapter import CacheClassifier, cache_logits


@with_parameters
class TipAdapterF(TorchTrained, CacheClassifier):
    """Tip-Adapter whose keys are trained: AdamW, learning rate 1e-3 falling along a cosine, 20 epochs, α = β = 1.

    The epoch with the best validation accuracy is kept; without validation data, the last. Needs torch
    (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text`, the mean image of each class stands in
    for its name.

    Parameters
    ----------
    cache_weight, beta : float
        α and β, weight and sharpness of the cache, fixed in training.
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
    trained_arrays = ("keys_",)

    epochs: Annotated[int, number(0, whole=True)] = 20
    batch_size: Annotated[int, number(1, whole=True)] = 256
    learning_rate: Annotated[float, number(0, open=True)] = 1e-3
    weight_decay: Annotated[float, number(0)] = 0.01
    random_state: Annotated[Any, SEED] = 0

    def _fit_task(self, task: Task) -> None:
        require_torch(type(self).__name__)
        self._fill_cache(task)
        self._train_keys(task, self.alpha_, int(generator(self.random_state).integers(2**31)))

    def _train_keys(self, task: Task, alpha: float, seed: int, **how: Any) -> None:
        """Train the keys, from where they are."""
        names, values = (tensor(part, self.device) for part in (self.coef_, self.values_))
        keys = tensor(self.keys_, self.device).clone().requires_grad_()
        # The authors' eps, meant for half precision. It damps the first steps and so belongs to the recipe.
        options = {"eps": 1e-4, "weight_decay": self.weight_decay}
        (self.keys_,) = self._train(
            task,
            [keys],
            lambda F: cache_logits(F, names, keys, values, alpha, self.beta_),
            Schedule(self.epochs, self.batch_size, self.learning_rate, cosine(self.epochs), "AdamW", options),
            seed=seed,
            **how,
        )
