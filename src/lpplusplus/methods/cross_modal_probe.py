"""Cross-modal probe: a linear head for which class names are training samples like images."""

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.parameters import CALLBACK, SEED, Progress, generator, nothing, number, several, with_parameters
from .._core.softmax import softmax
from .._core.task import Task
from ..probe.solvers.adam import Moments
from ._training import cosine
from .zero_shot import TextBased

WARM_UP, FIRST_RATE = 50, 1e-5
"""Iterations in which the rate rises, and the rate of the first."""
CHECK = 100
"""Iterations between two looks at the validation data."""


class _Best(NamedTuple):
    hits: int
    iteration: int
    setting: tuple[int, float, float]
    weights: Array


@with_parameters
class CrossModalProbe(TextBased):
    """A linear head 100·f·w_k from the names, trained on images and names alike: half of each batch are names.

    AdamW for 12 800 iterations; the rate rises for 50 and then falls along a cosine. With validation data, all
    combinations of batch size, learning rate and weight decay are tried. Validation accuracy is measured every 100
    iterations, and the weights with the best are kept (the first of equals). Without validation data, the last value of
    each list is used, and all iterations are made. Each prompt of a class is a sample, and so is the mean of an image's
    views. Without `text`, the mean image of each class stands in for its name.

    The settings of one batch size are trained together, in numpy or on the tensors' device. At these rates weight decay
    shrinks the weights by six percent at most, so `weight_decays=(0.01,)` gives nearly the same in a third of the time.

    Parameters
    ----------
    batch_sizes, learning_rates, weight_decays : tuples
        Values to try. A batch has at most as many images as there are, and as many names.
    iterations : int
    logit_scale : float
        Factor of the products.
    progress : callable, optional
        Called as `progress(done, total)` every 100 iterations. Not saved.
    random_state : int, Generator, RandomState or None
        Order of the batches.

    Attributes
    ----------
    coef_ : (K, D) array
        logit_scale · w_k.
    iteration_, batch_size_ : int
    learning_rate_, weight_decay_ : float
        Those of the weights that were kept.
    history_ : History
        Columns batch_size, learning_rate, weight_decay, iteration, loss (of that batch) and validation_accuracy.

    References
    ----------
    Lin et al., Multimodality helps unimodality: cross-modal few-shot learning with multimodal models, CVPR 2023.

    Examples
    --------
    >>> from lpplusplus import CrossModalProbe
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = CrossModalProbe(iterations=300).fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.iteration_
    (array(['cat'], dtype='<U3'), 300)
    """

    fitted_scalars: ClassVar[dict[str, str]] = {
        "iteration_": "number",
        "batch_size_": "number",
        "learning_rate_": "number",
        "weight_decay_": "number",
    }
    trained_arrays = ("coef_",)

    batch_sizes: Annotated[tuple[int, ...], several(number(2, whole=True))] = (8, 32)
    learning_rates: Annotated[tuple[float, ...], several(number(0, open=True))] = (1e-3, 1e-4)
    weight_decays: Annotated[tuple[float, ...], several(number(0))] = (0.0, 0.01, 1e-4)
    iterations: Annotated[int, number(0, whole=True)] = 12_800
    progress: Annotated[Progress | None, CALLBACK, nothing("silent")] = None
    random_state: Annotated[Any, SEED] = 0

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        chosen = slice(-1, None) if task.X_val is None else slice(None)
        batch_sizes = self.batch_sizes[chosen]
        pairs = list(product(self.learning_rates[chosen], self.weight_decays[chosen]))
        done, rng = 0, generator(self.random_state)
        best = _Best(-1, 0, (batch_sizes[-1], *pairs[-1]), self.coef_ / float(self.logit_scale))
        for batch_size in batch_sizes:
            for iteration, losses, weights in self._train(task, batch_size, pairs, rng):
                hits = self._hits(task, weights)
                for i, pair in enumerate(pairs):
                    self.history_.add(batch_size=batch_size, learning_rate=pair[0], weight_decay=pair[1])
                    self.history_.add(iteration=iteration, loss=losses[i])
                    if task.y_val is not None:
                        self.history_.add(validation_accuracy=hits[i] / task.y_val.shape[0])
                    if task.y_val is None or hits[i] > best.hits:
                        best = _Best(hits[i], iteration, (batch_size, *pair), backend.copy(weights[i]))
                if self.progress is not None:
                    self.progress(done + iteration, self.iterations * len(batch_sizes))
            done += self.iterations
        self.iteration_, (self.batch_size_, self.learning_rate_, self.weight_decay_) = best.iteration, best.setting
        self.chosen_ = {}
        if task.X_val is not None:
            lists = {
                "batch size": batch_sizes,
                "learning rate": self.learning_rates,
                "weight decay": self.weight_decays,
            }
            searched = [name for name, values in lists.items() if len(values) > 1]
            self.chosen_ = dict.fromkeys(["iteration", *searched], "validation")
        self.coef_ = float(self.logit_scale) * best.weights
        self.intercept_ = backend.zeros(self.coef_, (task.n_classes,))

    def _train(
        self, task: Task, batch_size: int, pairs: list[tuple[float, float]], rng: np.random.Generator
    ) -> Iterator[tuple[int, list[float], Array]]:
        """Train a head for each pair of rate and decay; yields iteration, losses and weights (G, K, D) now and then."""
        xp = backend.namespace(task.X)
        names, classes = self._name_samples(task)
        X, y = xp.concat([backend.unit_rows(task.X), names]), xp.concat([task.y, classes])
        (N, D), K, G, scale = task.X.shape, task.n_classes, len(pairs), float(self.logit_scale)
        half = batch_size // 2
        streams = _shuffled(rng, N, batch_size - half, 0), _shuffled(rng, names.shape[0], half, N)
        heads = xp.concat([self.coef_[None, :, :] / scale] * G)
        moments = Moments(heads)
        for done in range(1, self.iterations + 1):
            rows = backend.like(np.concatenate([next(stream) for stream in streams]), y)
            B, n = X[rows, :], rows.shape[0]
            z = scale * (B @ heads.reshape(-1, D).T).reshape(n * G, K)  # A row for each sample and head.
            each, own = backend.arange(z, n * G), xp.repeat(y[rows], G)
            right = z[each, own]
            normaliser = softmax(z, out=z)
            z[each, own] -= 1
            steps = moments.direction((z.reshape(n, -1).T @ B * (scale / n)).reshape(G, K, D))
            for head, step, (rate, decay) in zip(heads, steps, pairs, strict=True):
                now = rate_at(done - 1, rate, self.iterations)
                head *= 1 - now * decay
                step *= now
                head -= step
            if done % CHECK == 0 or done == self.iterations:
                losses = normaliser[:, 0] - right
                yield done, [float(loss) for loss in xp.mean(losses.reshape(n, G), axis=0)], heads

    def _name_samples(self, task: Task) -> tuple[Array, Array]:
        """The names, or all prompts, and their classes."""
        names = backend.unit_rows(self.coef_) if task.prompts is None else task.prompts.reshape(-1, task.X.shape[1])
        classes = backend.arange(task.y, task.n_classes)
        repeated = backend.namespace(task.y).concat([classes] * (names.shape[0] // task.n_classes))
        kept = backend.squared_lengths(names) > 0  # Zeros stand where a class has fewer prompts than another.
        return names[kept], repeated[kept]

    def _hits(self, task: Task, weights: Array) -> list[int]:
        """Number of validation images that each head gets right; 0 without any."""
        if task.X_val is None:
            return [0] * weights.shape[0]
        F = backend.unit_rows(task.X_val)
        return [int(((F @ head.T).argmax(1) == task.y_val).sum()) for head in weights]


def rate_at(iteration: int, rate: float, iterations: int) -> float:
    """The learning rate of an iteration, counted from 0: it rises for 50, then falls along a cosine."""
    if iteration == 0:
        return FIRST_RATE
    if iteration < WARM_UP:
        return rate * iteration / WARM_UP
    return rate * cosine(iterations)(iteration - WARM_UP)


def _shuffled(rng: np.random.Generator, n: int, size: int, offset: int) -> Iterator[np.ndarray[Any, Any]]:
    """Batches of `size` of the numbers offset … offset + n - 1, shuffled anew when too few are left."""
    size = min(n, size)
    while True:
        order = offset + rng.permutation(n)
        yield from order[: n - n % size].reshape(-1, size)
