"""GDA: Gaussian discriminant analysis beside the text classifier, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.parameters import Rule, nothing, number
from .._core.task import Task
from ._gaussians import Gaussians
from ._held_out import choose
from ._text_based import TextBased

ALPHAS = tuple(float(f"{10**power:.6g}") for power in np.arange(-4, 2.25, 0.5))
"""Weights to choose from: the authors' seven decades, and the middle of each."""


@dataclass(kw_only=True, eq=False, repr=False)
class GDA(TextBased):
    """Training-free: logits 100·f·t_k + α (f·Pμ_k - μ_k·Pμ_k / 2), P the inverse of the classes' common covariance.

    μ_k is the mean image of class k. This is the classifier of Gaussian classes with one covariance, which is estimated
    so that it has an inverse however few images there are. The mean of an image's views stands for it. Without `text`,
    the mean image of each class stands in for its name.

    α is chosen from a grid by accuracy on the validation data. Without them it is chosen by the log-loss of the
    support, each image scored by the classifier without it, which is known in closed form. With a single image per
    class there is neither a covariance, P = D·I takes its place, nor an image to leave out, and α is `fallback_alpha`.

    Parameters
    ----------
    alpha : float, optional
        Weight of the images; 0 is zero-shot. By default it is chosen.
    fallback_alpha : float
        α if there is nothing to choose it by.
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

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "alpha": [number(0), nothing("chosen on held-out images")],
        "fallback_alpha": [number(0)],
        **TextBased.parameter_rules,
    }
    fitted_scalars: ClassVar[tuple[str, ...]] = ("alpha_",)
    normalize = True

    alpha: float | None = None
    fallback_alpha: float = 1e-3

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        F = backend.unit_rows(task.X)
        self._weigh(task, Gaussians(F, task.y, task.n_classes), F @ self.coef_.T)

    def _weigh(self, task: Task, gaussians: Gaussians, names_left_out: Array) -> None:
        """Choose α, and add the images' part to the text's in `coef_`.

        `names_left_out` is the text's part of the logits of the support, (N, K).
        """
        weights, bias = gaussians.linear()
        self.alpha_ = float(self.fallback_alpha if self.alpha is None else self.alpha)
        if self.alpha is None and task.X_val is not None:
            F = backend.unit_rows(task.X_val)
            names, images = F @ self.coef_.T, F @ weights.T + bias
            self.alpha_ = choose(ALPHAS, lambda a: names + a * images, task.y_val, self.history_, by_accuracy=True)
        elif self.alpha is None:
            rows, scores = gaussians.left_out(task.X.shape[0])
            if rows.shape[0]:
                self.history_.note("no validation data: α by the log-loss of the support, each image left out")
                names, y = names_left_out[rows], task.y[rows]
                self.alpha_ = choose(ALPHAS, lambda a: names + a * scores, y, self.history_, by_accuracy=False)
            else:
                self.history_.note("no validation data and no image to leave out: α is fallback_alpha")
        self.coef_ = self.coef_ + self.alpha_ * weights
        self.intercept_ = self.alpha_ * bias

    def _count_parameters(self) -> int:
        return 0
