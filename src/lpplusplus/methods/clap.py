"""CLAP: class names that are trained, each tied to where it began."""

from dataclasses import replace
from typing import Annotated, Any

from .._core import backend
from .._core.backend import Array
from .._core.parameters import SEED, generator, number, with_parameters
from .._core.softmax import softmax
from .._core.task import Task
from ._training import Schedule, TorchTrained, cosine, require_torch, tensor
from .zero_shot import TextBased

WARM_UP = 1e-5
"""Learning rate of the first epoch."""


@with_parameters
class CLAP(TorchTrained, TextBased):
    """Train the class directions w_k from the names: logits 100·cos(f, w_k), loss CE + mean_k λ_k ‖w_k - v t_k‖².

    λ_k is the mean probability that zero-shot gives to class k for its own images: names that work are held tight. For
    a class without images it is 1. SGD with momentum 0.9, the rate 1e-5 in the first epoch, then along a cosine. The
    epoch with the best validation accuracy is kept; without validation data, the last, as published. The mean of an
    image's views stands for it. Needs torch (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text`,
    the mean image of each class stands in for its name.

    Parameters
    ----------
    text_norm : float
        v, the length of the directions at the start. The authors take text embeddings as CLIP gives them, not
        normalised; their length is about 10 for OpenAI's models. A step turns a longer w_k less, and the penalty on
        moving it is larger.
    epochs, batch_size, learning_rate
        Training.
    logit_scale : float
        Factor of the cosines.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Called as `progress(done, total)` after each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Order of the batches.

    Attributes
    ----------
    coef_ : (K, D) array
        logit_scale · w_k / ‖w_k‖.
    epoch_ : int
        The epoch that was kept; 0 is zero-shot.
    history_ : History
        Columns epoch, loss and validation_accuracy.

    References
    ----------
    Silva-Rodríguez et al., A closer look at the few-shot adaptation of large vision-language models, CVPR 2024.

    Examples
    --------
    >>> from lpplusplus import CLAP
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = CLAP().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.epoch_
    (array(['cat'], dtype='<U3'), 300)
    """

    trained_arrays = ("coef_",)

    text_norm: Annotated[float, number(0, open=True)] = 10.0
    epochs: Annotated[int, number(0, whole=True)] = 300
    batch_size: Annotated[int, number(1, whole=True)] = 256
    learning_rate: Annotated[float, number(0, open=True)] = 0.1
    random_state: Annotated[Any, SEED] = 0

    def _fit_task(self, task: Task) -> None:
        torch = require_torch(type(self).__name__)
        self._set_text(task)
        scale = float(self.logit_scale)
        start = tensor(self.coef_ * (self.text_norm / scale), self.device)
        ties = tensor(self._trust(task), self.device)
        weights = start.clone().requires_grad_()

        def logits(F: Any) -> Any:
            return scale * F @ torch.nn.functional.normalize(weights).T

        factor = cosine(self.epochs, WARM_UP / self.learning_rate, by_epoch=True)
        (trained,) = self._train(
            replace(task, views=None),
            [weights],
            logits,
            Schedule(self.epochs, self.batch_size, self.learning_rate, factor, options={"momentum": 0.9}),
            seed=int(generator(self.random_state).integers(2**31)),
            penalty=lambda: (ties * ((weights - start) ** 2).sum(1)).mean(),
        )
        self.coef_ = scale * backend.unit_rows(trained)
        self.intercept_ = backend.zeros(self.coef_, (task.n_classes,))

    def _trust(self, task: Task) -> Array:
        """λ_k, (K,)."""
        z = backend.unit_rows(task.X) @ self.coef_.T
        softmax(z, out=z)
        own = z[backend.arange(z, z.shape[0]), task.y][:, None]
        xp = backend.namespace(z)
        sums, counts = (backend.sum_by_class(part, task.y, task.n_classes)[:, 0] for part in (own, xp.ones_like(own)))
        return xp.where(counts > 0, sums, xp.ones_like(sums)) / xp.where(counts > 0, counts, xp.ones_like(counts))
