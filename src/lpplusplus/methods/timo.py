"""TIMO: images weigh the prompts of their class, and prompts join the images in GDA."""

from typing import Annotated, Any, ClassVar

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.class_prompts import weighted
from .._core.parameters import AUTO, nothing, number, with_parameters
from .._core.task import Task
from .gda import GDA, Gaussians
from .zero_shot import choose

GAMMA = 50.0
"""γ where none is chosen."""
GAMMAS = tuple(range(5, 101, 5))
"""Values of γ to choose from."""


@with_parameters
class TIMO(GDA):
    """Training-free, for several prompts per class: `text` of shape (P, K, D) or a list per class.

    The name of a class is a mean of its prompts, weighted by softmax(γ cos) of their cosines with the class's mean
    image. The β prompts with the highest cosines, each scaled by its cosine, are samples of their class beside the
    images in `GDA`. With one prompt and β = 0 it is GDA.

    α is chosen as in `GDA`. When an image is left out, the name of its class is computed without it, too; the prompts
    that serve as samples keep their weights. Without `text`, it is GDA.

    Parameters
    ----------
    gamma : "auto" or float
        γ, how much the images influence the weights of prompts; 0 is the plain mean. "auto" chooses it from 5, 10, …
        100 by the names alone, on the validation data; without them it is 50.
    beta : "auto" or int, optional
        β, by default all P. "auto" chooses it from 0, 1, 2, 4, … P together with α, on the validation data. With both
        "auto" it is TIMO-S.
    image_weight, logit_scale
        As in `GDA`.

    Attributes
    ----------
    coef_ : (K, D) array
    intercept_ : (K,) array
    text_ : (K, D) array or None
        The weighted names.
    alpha_, gamma_ : float
    beta_ : int
    history_ : History
        Columns held_out_accuracy and held_out_loss, one entry for each setting that was tried.

    References
    ----------
    Li et al., Text and image are mutually beneficial: enhancing training-free few-shot classification with CLIP, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from lpplusplus import TIMO
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> text = np.array([[[3.0, 1.0], [1.0, 3.0]], [[2.0, 1.0], [0.0, 1.0]]])  # two prompts, two classes
    >>> model = TIMO().fit(images, ["cat", "cat", "dog", "dog"], text=text)
    >>> model.predict([[0.8, 0.2]]), model.beta_
    (array(['cat'], dtype='<U3'), 2)
    """

    fitted_scalars: ClassVar[dict[str, str]] = {"alpha_": "number", "gamma_": "number", "beta_": "number"}

    memory = None  # type: ignore[assignment]  # Its prompts are samples beside the images.

    gamma: Annotated[str | float, AUTO, number(0)] = GAMMA
    beta: Annotated[str | int | None, AUTO, number(0, whole=True), nothing("all prompts")] = None

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; `search=True` was both "auto"."""
        known = {name: value for name, value in super().translated(given).items() if name != "search"}
        return {**known, "gamma": "auto", "beta": "auto"} if given.get("search") else known

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        self.gamma_, self.beta_ = GAMMA if isinstance(self.gamma, str) else float(self.gamma), 0
        if task.text is None:
            super()._fit_task(task)
            return
        xp, F = backend.namespace(task.X), backend.unit_rows(task.X)
        prompts = task.text[None, :, :] if task.prompts is None else task.prompts
        sums = backend.sum_by_class(F, task.y, task.n_classes)
        cosines = xp.sum(prompts * backend.unit_rows(sums)[None, :, :], axis=2)
        P = prompts.shape[0]
        betas = [min(self.beta, P) if isinstance(self.beta, int | np.integer) else P]
        chosen = [name for name in ("gamma", "beta") if isinstance(getattr(self, name), str)]
        if chosen and task.X_val is None:
            self.history_.note(f"no validation data: γ={self.gamma_:g} and β={betas[0]}, nothing searched")
            chosen = []
        if "gamma" in chosen:
            self.gamma_ = self._best_gamma(task, prompts, cosines)
        if "beta" in chosen:
            betas = sorted({0, P, *(2**j for j in range(P.bit_length()))})  # 2^j is at most P.
        self.text_ = weighted(prompts, cosines, self.gamma_)
        self.coef_ = float(self.logit_scale) * self.text_
        candidates = []
        for beta in betas:
            samples, y = best_prompts(prompts, cosines, beta)
            candidates.append(Gaussians(xp.concat([F, samples]), xp.concat([task.y, y]), task.n_classes))
        names = F @ self.coef_.T
        if task.X_val is None:
            own = self._own_names_left_out(task, F, sums, prompts)
            names[backend.arange(F, F.shape[0]), task.y] = float(self.logit_scale) * backend.row_dots(F, own)
        self.beta_ = betas[self._weigh(task, candidates, names)]
        self.chosen_ = {**(self.chosen_ or {}), **dict.fromkeys(chosen, "validation")}

    def _best_gamma(self, task: Task, prompts: Array, cosines: Array) -> float:
        held, scale = backend.unit_rows(task.X_val), float(self.logit_scale)

        def logits(gamma: int) -> Array:
            return scale * held @ weighted(prompts, cosines, gamma).T

        return float(choose(GAMMAS, logits, task.y_val, self.history_, by_accuracy=True))

    def _own_names_left_out(self, task: Task, F: Array, sums: Array, prompts: Array) -> Array:
        """The weighted name of each image's class without the image, (N, D); the plain mean if no image is left."""
        others = backend.unit_rows(sums[task.y] - F)
        rows = [one[task.y] for one in prompts]
        cosines = backend.namespace(F).stack([backend.row_dots(row, others) for row in rows])
        return weighted(rows, cosines, self.gamma_)


def best_prompts(prompts: Array, cosines: Array, beta: int) -> tuple[Array, Array]:
    """The β prompts of each class with the highest cosines, each times its cosine, and their classes."""
    order = backend.namespace(cosines).argsort(-cosines, axis=0, stable=True)[:beta, :]
    y = backend.arange(cosines, cosines.shape[1])[None, :] + 0 * order
    order, y = order.reshape(-1), y.reshape(-1)
    weights = cosines[order, y]
    # A class with fewer prompts has zeros in their place; without images, all its cosines are zero.
    kept = weights != 0
    return (weights[:, None] * prompts[order, y])[kept], y[kept]
