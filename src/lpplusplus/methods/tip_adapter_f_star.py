"""Tip-Adapter-F*: Tip-Adapter-F with α and β searched, as the LP++ paper re-evaluates it."""

from typing import Annotated, Any, ClassVar

from .._core.history import History
from .._core.parameters import Progress, generator, pair, with_parameters
from .._core.task import Task
from ._training import require_torch
from .tip_adapter import grid
from .tip_adapter_f import TipAdapterF

ALPHA_STARTS = tuple(float(alpha) for alpha in range(1, 11))
"""Candidates for the α to train with."""


@with_parameters
class TipAdapterFStar(TipAdapterF):
    """Tip-Adapter-F with its weights searched, as the LP++ paper re-evaluates it.

    The keys are trained once for each α of 1 … 10, every time from the same start, and the best on the validation data
    are kept. Then α and β are searched for those keys, on a grid from the values used in training up to 50. Without
    validation data there is nothing to search on: it is Tip-Adapter-F at `cache_weight` and `beta`.

    Parameters
    ----------
    cache_weight, beta, epochs, batch_size, learning_rate, weight_decay, logit_scale, device, progress, random_state
        As in `TipAdapterF`. `cache_weight` is used only without validation data; `beta` is where the grid of β begins.
    grid_top : (float, float)
        Where the grids of α and of β end.
    grid_steps : (int, int)
        Number of values of α and of β.

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

    fitted_scalars: ClassVar[dict[str, str]] = {**TipAdapterF.fitted_scalars, "alpha_start_": "number"}

    grid_top: Annotated[tuple[float, float], pair((max(ALPHA_STARTS), 0.1), whole=False)] = (50.0, 50.0)
    grid_steps: Annotated[tuple[int, int], pair((1, 1))] = (200, 200)

    def _fit_task(self, task: Task) -> None:
        if task.X_val is None:
            super()._fit_task(task)
            self.alpha_start_ = self.alpha_
            self.history_.note("no validation data: trained at the given α and β, nothing searched")
            return
        require_torch(type(self).__name__)
        self._fill_cache(task)
        seed = int(generator(self.random_state).integers(2**31))
        start = self.keys_
        best: Any = (-1.0,)
        notes = self.history_.notes
        for done, alpha in enumerate(ALPHA_STARTS):
            self.keys_, self.history_ = start, History()
            self._train_keys(task, alpha, seed, progress=self._part_of_progress(done))
            accuracy = max(self.history_.columns.get("validation_accuracy", [0.0]))
            notes.append(f"trained with α={alpha:g}: {accuracy:.1%} of the validation data right")
            if accuracy > best[0]:
                best = accuracy, alpha, self.keys_, self.epoch_, self.history_
        _, self.alpha_start_, self.keys_, self.epoch_, self.history_ = best
        self.history_.notes[:0] = notes
        self.chosen_ = {**(self.chosen_ or {}), "cache weight in training": "validation"}
        starts = (self.alpha_start_, self.beta_)
        alphas, betas = (grid(*axis) for axis in zip(starts, self.grid_top, self.grid_steps, strict=True))
        self._search(task.X_val, task.y_val, alphas, betas)

    def _part_of_progress(self, before: int) -> Progress | None:
        """Progress of one training, as part of all."""
        told, total = self.progress, len(ALPHA_STARTS) * self.epochs
        return None if told is None else lambda done, _: told(before * self.epochs + done, total)
