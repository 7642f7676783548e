"""Tip-Adapter and its two trained versions: a cache of the examples beside the text classifier."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

from .. import _arrays
from .._arrays import Array
from .._checks import Task
from .._parameters import Callback, Flag, Nothing, Number, Pair, Rule, Seed, Text
from .._random import generator
from ..base import FewShotClassifier
from ..journal import Journal
from ..objective import rows_per_chunk
from ..training import fewest_shots
from ._directions import LOGIT_SCALE, WITHOUT_TEXT, class_directions
from .cache_model import Best, best_of, cache_logits, count_hits, steps
from .finetuning import Progress, Schedule, cosine, finetune, require_torch, tensor

GRID_START = 0.1
"""Where the search of the training-free model begins, for α and for β."""
ALPHA_STARTS = tuple(float(alpha) for alpha in range(1, 11))
"""Tip-Adapter-F*'s candidates for the α to train with."""


class _CacheClassifier(FewShotClassifier):
    """What the three versions share: the cache, and how it answers."""

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "keys_": "ND", "values_": "N"}
    index_arrays = ("values_",)
    fitted_scalars: ClassVar[tuple[str, ...]] = ("alpha_", "beta_")
    normalize = True

    logit_scale: float
    keys_: Array
    values_: Array
    alpha_: float
    beta_: float

    def _remember(self, task: Task) -> None:
        """Fill the cache: an example's views are averaged before they are normalised."""
        self.history_ = Journal()
        if task.text is None:
            self.history_.note(WITHOUT_TEXT)
        self.coef_ = float(self.logit_scale) * class_directions(task, self.classes_)
        self.text_ = None if task.text is None else _arrays.copy(task.text)
        self.keys_ = _arrays.copy(_arrays.unit_rows(task.X))
        self.values_ = _arrays.copy(task.y)

    def _logits(self, X: Array) -> Array:
        names, keys, values = (_arrays.like(part, X) for part in (self.coef_, self.keys_, self.values_))
        F = _arrays.unit_rows(_arrays.cast(X, names.dtype))
        height = rows_per_chunk(max(names.shape[0], keys.shape[0]))
        parts = [
            cache_logits(F[low : low + height, :], names, keys, values, self.alpha_, self.beta_)
            for low in range(0, F.shape[0], height)
        ]
        return _arrays.namespace(F).concat(parts)

    def _search(self, X: Array, y: Array, alphas: Any, betas: Any, *, unseen: bool = True) -> Best:
        """Best α and β for images `X`; with `unseen=False` they are the examples, and none sees its own key."""
        F = _arrays.unit_rows(X)
        cosines = self.keys_ @ F.T
        if not unseen:
            everyone = _arrays.arange(cosines, cosines.shape[0])
            cosines[everyone, everyone] = -_arrays.namespace(cosines).inf
        hits = count_hits(F @ self.coef_.T, cosines, self.values_, y, alphas, betas)
        best = best_of(hits, alphas, betas, y.shape[0])
        self.history_.note(
            f"searched {hits.size} pairs on {'validation data' if unseen else 'the support, each image left out'}: "
            f"α={best.alpha:g}, β={best.beta:g}, {best.accuracy:.1%} right"
        )
        return best


class TipAdapter(_CacheClassifier):
    """Training-free: logits 100·f·t_k + α Σ_{i: y_i = k} exp(-β(1 - f·f_i)).

    Without `text` each class's mean image stands in for its name.

    Parameters
    ----------
    alpha, beta : float
        Weight and sharpness of the cache; not used where they are searched.
    search : bool
        Choose α and β on a grid: on the validation data or, without them, on the support with each image's own key
        left out. Where some class has then no other example to go by, `alpha` and `beta` stay.
    grid_top : (float, float)
        Where the grids of α and of β end; they begin at 0.1.
    grid_steps : (int, int)
        Points of the two grids.
    logit_scale : float
        Factor of the cosines with the text.

    Attributes
    ----------
    keys_ : (N, D) array
        The unit examples; views of one image are averaged first.
    values_ : (N,) array
        Their classes, as indices into `classes_`.
    alpha_, beta_ : float
    coef_ : (K, D) array
        logit_scale · t_k.

    Examples
    --------
    >>> from lpplusplus import TipAdapter
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = TipAdapter().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]])
    array(['cat'], dtype='<U3')
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "alpha": [Number(0)],
        "beta": [Number(0)],
        "search": [Flag()],
        "grid_top": [Pair((GRID_START, GRID_START), whole=False)],
        "grid_steps": [Pair((1, 1))],
        "logit_scale": [Number(0, open=True)],
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        search: bool = False,
        grid_top: tuple[float, float] = (50.0, 50.0),
        grid_steps: tuple[int, int] = (200, 200),
        logit_scale: float = LOGIT_SCALE,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.search = search
        self.grid_top = grid_top
        self.grid_steps = grid_steps
        self.logit_scale = logit_scale

    def _fit_task(self, task: Task) -> None:
        self._remember(task)
        self.alpha_, self.beta_ = float(self.alpha), float(self.beta)
        if not self.search:
            return
        alphas, betas = (
            steps(GRID_START, top, count) for top, count in zip(self.grid_top, self.grid_steps, strict=True)
        )
        if task.X_val is not None:
            best = self._search(task.X_val, task.y_val, alphas, betas)
        elif fewest_shots(task) >= 2:
            best = self._search(task.X, task.y, alphas, betas, unseen=False)
        else:
            self.history_.note("no validation data and a class with a single example: α and β stay as given")
            return
        self.alpha_, self.beta_ = best.alpha, best.beta

    def _count_parameters(self) -> int:
        return 0


class TipAdapterF(_CacheClassifier):
    """Tip-Adapter whose keys are trained: AdamW, rate 1e-3 falling along a cosine, 20 epochs, α = β = 1.

    The epoch with the best validation accuracy is kept; without validation data, the last. Needs torch
    (`pip install "lpplusplus[torch]"`) to fit, not to predict. Without `text` each class's mean image stands in for
    its name.

    Parameters
    ----------
    alpha, beta : float
        Weight and sharpness of the cache, fixed in training.
    epochs, batch_size, learning_rate, weight_decay
        Training. With views of shape (N, V, D) an epoch sees another view of every image; the keys begin at the mean.
    logit_scale : float
        Factor of the cosines with the text.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Told `(done, total)` after each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Order of the batches.

    Attributes
    ----------
    keys_, values_, alpha_, beta_, coef_
        As in `TipAdapter`.
    epoch_ : int
        The epoch that was kept; 0 is the training-free model.
    history_ : Journal
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import TipAdapterF
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = TipAdapterF().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.epoch_, model.history_.notes
    (20, ['one view an image: every epoch sees the same embeddings'])
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "alpha": [Number(0)],
        "beta": [Number(0)],
        "epochs": [Number(0, whole=True)],
        "batch_size": [Number(1, whole=True)],
        "learning_rate": [Number(0, open=True)],
        "weight_decay": [Number(0)],
        "logit_scale": [Number(0, open=True)],
        "device": [Text(), Nothing("where the data are")],
        "progress": [Callback(), Nothing("silent")],
        "random_state": [Seed()],
    }
    fitted_scalars: ClassVar[tuple[str, ...]] = ("alpha_", "beta_", "epoch_")
    needs_torch = True

    epoch_: int

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        epochs: int = 20,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        logit_scale: float = LOGIT_SCALE,
        device: str | None = None,
        progress: Progress | None = None,
        random_state: Any = 0,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.logit_scale = logit_scale
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def _fit_task(self, task: Task) -> None:
        require_torch(type(self).__name__)
        self._remember(task)
        seed = int(generator(self.random_state).integers(2**31))
        self.alpha_, self.beta_ = float(self.alpha), float(self.beta)
        self.keys_, self.epoch_ = self._train_keys(task, self.alpha_, self.beta_, seed, self.history_, self.progress)

    def _train_keys(
        self, task: Task, alpha: float, beta: float, seed: int, history: Journal, progress: Progress | None
    ) -> tuple[Array, int]:
        """A trained copy of the keys, and the epoch it is from."""
        device = self.device
        names, values, y = (tensor(part, device) for part in (self.coef_, self.values_, task.y))
        keys = tensor(self.keys_, device).clone().requires_grad_()
        stack = task.X[:, None, :] if task.views is None else task.views
        n, v, dim = stack.shape
        views = tensor(_arrays.unit_rows(stack.reshape(n * v, dim)).reshape(n, v, dim), device)
        held = None
        if task.X_val is not None:
            held = tensor(_arrays.unit_rows(task.X_val), device), tensor(task.y_val, device)
        epoch = finetune(
            [keys],
            lambda F: cache_logits(F, names, keys, values, alpha, beta),
            views,
            y,
            Schedule(self.epochs, self.batch_size, self.learning_rate, self._optimiser, cosine(self.epochs)),
            seed=seed,
            history=history,
            validation=held,
            progress=progress,
        )
        return _arrays.like(keys.detach(), task.X), epoch

    def _count_parameters(self) -> int:
        return math.prod(self.keys_.shape)

    def _optimiser(self, parameters: list[Any], rate: float) -> Any:
        import torch

        # eps as the authors have it, for half precision; it damps the first steps and so belongs to the recipe.
        return torch.optim.AdamW(parameters, lr=rate, eps=1e-4, weight_decay=self.weight_decay)


class TipAdapterFStar(TipAdapterF):
    """Tip-Adapter-F with its weights searched, as the LP++ paper re-evaluates it.

    The α to train with is the best of 1 … 10 on the validation data, each with its own copy of the keys; then α and β
    are searched again for the trained keys, on a grid from where training had them up to 50. Without validation data
    there is nothing to search on: it is Tip-Adapter-F at `alpha` and `beta`.

    Parameters
    ----------
    alpha, beta, epochs, batch_size, learning_rate, weight_decay, logit_scale, device, progress, random_state
        As in `TipAdapterF`; `alpha` only counts without validation data, `beta` is where β begins.
    grid_top : (float, float)
        Where the grids of α and of β end.
    grid_steps : (int, int)
        Points of the two grids.

    Attributes
    ----------
    alpha_start_ : float
        The α of the training that was kept.
    keys_, values_, alpha_, beta_, coef_, epoch_, history_
        As in `TipAdapterF`; the history is that of the training that was kept.

    Examples
    --------
    >>> from lpplusplus import TipAdapterFStar
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = TipAdapterFStar(epochs=2).fit(images, [0, 0, 1, 1], text=[[3.0, 1.0], [1.0, 3.0]], X_val=images,
    ...                                       y_val=[0, 0, 1, 1])
    >>> model.alpha_start_, model.alpha_, model.beta_
    (1.0, 1.0, 1.0)
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        **TipAdapterF.parameter_rules,
        "grid_top": [Pair((max(ALPHA_STARTS), GRID_START), whole=False)],
        "grid_steps": [Pair((1, 1))],
    }
    fitted_scalars = ("alpha_", "beta_", "epoch_", "alpha_start_")

    alpha_start_: float

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        epochs: int = 20,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        grid_top: tuple[float, float] = (50.0, 50.0),
        grid_steps: tuple[int, int] = (200, 200),
        logit_scale: float = LOGIT_SCALE,
        device: str | None = None,
        progress: Progress | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            alpha=alpha,
            beta=beta,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            logit_scale=logit_scale,
            device=device,
            progress=progress,
            random_state=random_state,
        )
        self.grid_top = grid_top
        self.grid_steps = grid_steps

    def _fit_task(self, task: Task) -> None:
        if task.X_val is None:
            super()._fit_task(task)
            self.alpha_start_ = self.alpha_
            self.history_.note("no validation data: trained at the given α and β, nothing searched")
            return
        require_torch(type(self).__name__)
        self._remember(task)
        seed = int(generator(self.random_state).integers(2**31))
        beta, total = float(self.beta), self.epochs * len(ALPHA_STARTS)
        best: _Trained | None = None
        for i, alpha in enumerate(ALPHA_STARTS):
            journal = Journal()
            progress = None if self.progress is None else _shifted(self.progress, i * self.epochs, total)
            keys, epoch = self._train_keys(task, alpha, beta, seed, journal, progress)
            accuracy = max(journal.columns.get("validation_accuracy", [0.0]))
            self.history_.note(f"trained with α={alpha:g}: {accuracy:.1%} of the validation data right")
            if best is None or accuracy > best.accuracy:
                best = _Trained(alpha, keys, epoch, accuracy, journal)
        assert best is not None
        self.alpha_start_, self.keys_, self.epoch_ = best.alpha, best.keys, best.epoch
        self.history_.columns = best.journal.columns
        self.history_.notes.extend(best.journal.notes)
        alphas, betas = (
            steps(low, top, count)
            for low, top, count in zip((self.alpha_start_, beta), self.grid_top, self.grid_steps, strict=True)
        )
        winner = self._search(task.X_val, task.y_val, alphas, betas)
        self.alpha_, self.beta_ = winner.alpha, winner.beta


class _Trained(NamedTuple):
    """One candidate of the search for the α to train with."""

    alpha: float
    keys: Array
    epoch: int
    accuracy: float
    journal: Journal


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda epoch, _: progress(done + epoch, total)
