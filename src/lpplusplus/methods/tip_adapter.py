"""Tip-Adapter: a cache of the examples beside the text classifier, nothing trained."""

from typing import Annotated

from .._core.parameters import FLAG, pair, with_parameters
from .._core.task import Task
from .cache.classifier import CacheClassifier
from .cache.grid_search import grid

GRID_START = 0.1
"""Where the grids of α and of β begin."""


@with_parameters
class TipAdapter(CacheClassifier):
    """Training-free: logits 100·f·t_k + α Σ_{i: y_i = k} exp(-β(1 - f·f_i)).

    Without `text`, the mean image of each class stands in for its name.

    Parameters
    ----------
    alpha, beta : float
        Weight and sharpness of the cache; not used where they are searched.
    search : bool
        Choose α and β on a grid: on the validation data or, without them, on the support with each image's own key
        left out. If some class has a single example, there is nothing to leave out, and `alpha` and `beta` are used.
    grid_top : (float, float)
        Where the grids of α and of β end; they begin at 0.1.
    grid_steps : (int, int)
        Number of values of α and of β.
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

    search: Annotated[bool, FLAG] = False
    grid_top: Annotated[tuple[float, float], pair((GRID_START, GRID_START), whole=False)] = (50.0, 50.0)
    grid_steps: Annotated[tuple[int, int], pair((1, 1))] = (200, 200)

    def _fit_task(self, task: Task) -> None:
        self._fill_cache(task)
        self.chosen_ = {}
        if not self.search:
            return
        alphas, betas = (grid(GRID_START, *end) for end in zip(self.grid_top, self.grid_steps, strict=True))
        if task.X_val is not None:
            self._search(task.X_val, task.y_val, alphas, betas)
        elif task.fewest_shots >= 2:
            self._search(task.X, task.y, alphas, betas, leave_one_out=True)
        else:
            self.history_.note("no validation data and a class with a single example: α and β stay as given")

    def _count_parameters(self) -> int:
        return 0
