"""GDA: Gaussian discriminant analysis beside the text classifier, in closed form."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.folds import evenly
from .._core.parameters import nothing, number, with_parameters
from .._core.rows import MEMORY, Rows, unit_rows
from .._core.task import Task
from ._gaussians import Gaussians
from ._held_out import choose
from ._text_based import TextBased

ALPHAS = tuple(float(f"{10**power:.6g}") for power in np.arange(-4, 2.25, 0.5))
"""Weights to choose from: the authors' seven decades, and the middle of each."""
ENOUGH_LEFT_OUT = 2000
"""Images of a file that are left out in turn; more would not change the choice."""


@with_parameters
class GDA(TextBased):
    """Training-free: logits 100·f·t_k + α (f·Pμ_k - μ_k·Pμ_k / 2), P the inverse of the classes' common covariance.

    μ_k is the mean image of class k. This is the classifier of Gaussian classes with one covariance, which is estimated
    so that it has an inverse however few images there are. The mean of an image's views stands for it. Without `text`,
    the mean image of each class stands in for its name.

    α is chosen from a grid by accuracy on the validation data. Without validation data it is chosen by leave-one-out
    log-loss on the support, in closed form, at the best scale of the logits for each α (the scale changes no
    prediction). An image can be left out if its class keeps two others. If no class has three images, α gives the image
    part and the text part of the logits the same standard deviation over the wrong classes. With a single image per
    class there is no covariance, and P = D·I takes its place. A memory map larger than a GiB is read block by block,
    and 2 000 of its images are left out in turn.

    Parameters
    ----------
    alpha : float, optional
        Weight of the images; 0 is zero-shot. By default it is chosen.
    logit_scale : float
        Factor of the cosines with the text.

    Attributes
    ----------
    coef_ : (K, D) array
    intercept_ : (K,) array
    alpha_ : float
    history_ : History
        Columns held_out_accuracy and held_out_loss, one entry for each α that was tried.

    References
    ----------
    Wang et al., A hard-to-beat baseline for training-free CLIP-based adaptation, ICLR 2024.

    Examples
    --------
    >>> from lpplusplus import GDA
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = GDA().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]])
    array(['cat'], dtype='<U3')
    """

    fitted_scalars: ClassVar[dict[str, str]] = {"alpha_": "number"}
    normalize = True
    memory = MEMORY

    alpha: Annotated[float | None, number(0), nothing("chosen on held-out images")] = None

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        F, some = unit_rows(task.X), None
        if isinstance(F, Rows):
            some = evenly(np.arange(len(F)), ENOUGH_LEFT_OUT)
        gaussians = Gaussians(F, task.y, task.n_classes, some)
        if some is not None:
            F = F[some, :]
            task = replace(task, X=F, y=task.y[some])
        self._weigh(task, [gaussians], F @ self.coef_.T)

    def _weigh(self, task: Task, candidates: Sequence[Gaussians], names: Array) -> int:
        """Choose α, and with validation data the Gaussians; add the image part to `coef_`, which has the text part.

        `names` is the text's part of the logits of the support, (N, K). Returns which of the candidates was chosen.
        """
        linear = [one.linear() for one in candidates]
        alphas = ALPHAS if self.alpha is None else (float(self.alpha),)
        settings = [(i, alpha) for i in range(len(candidates)) for alpha in alphas]
        chosen, decided = settings[0], ""
        if task.X_val is not None:
            F = backend.unit_rows(task.X_val)
            names, y, scores = F @ self.coef_.T, task.y_val, [F @ weights.T + bias for weights, bias in linear]
            chosen = choose(settings, lambda s: names + s[1] * scores[s[0]], y, self.history_, by_accuracy=True)
            decided = "validation"
        elif self.alpha is None:
            rows, held = candidates[0].left_out(task.X.shape[0])
            if rows.shape[0]:
                self.history_.note("no validation data: α by the log-loss of the support, each image left out")
                names, y = names[rows, :], task.y[rows]
                chosen = choose(settings, lambda s: names + s[1] * held, y, self.history_, by_accuracy=False)
                decided = "leave-one-out"
            else:
                self.history_.note("no validation data and no image to leave out: α by the deviation of both parts")
                chosen = 0, equal_deviation(names, backend.unit_rows(task.X) @ linear[0][0].T + linear[0][1], task.y)
                decided = "the support's deviations"
        self.chosen_ = {"alpha": decided} if self.alpha is None else {}
        index, self.alpha_ = chosen
        self.coef_ = self.coef_ + self.alpha_ * linear[index][0]
        self.intercept_ = self.alpha_ * linear[index][1]
        return index

    def _count_parameters(self) -> int:
        return 0


def equal_deviation(names: Array, images: Array, y: Array) -> float:
    """α at which both parts of the logits, (N, K), have the same standard deviation over the wrong classes.

    With two classes of one image each there is no deviation; then α is the middle of the grid.
    """
    wrong = backend.arange(names, names.shape[1])[None, :] != y[:, None]
    text, image = (float(np.std(backend.to_numpy(part[wrong]))) for part in (names, images))
    return text / image if image > 1e-6 * backend.largest(images) else ALPHAS[len(ALPHAS) // 2]
