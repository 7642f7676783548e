"""SS-Text: class names moved towards the class's images, in closed form."""

from typing import Annotated, ClassVar

from .._core import backend
from .._core.backend import Array
from .._core.parameters import AUTO, nothing, number, with_parameters
from .._core.task import Task
from .zero_shot import TextBased, choose

TAUS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of τ to choose from."""


@with_parameters
class SSText(TextBased):
    """Training-free: logits 100·cos(f, w_k) with w_k = t_k + n_k / (N τ) · Σ_{i: y_i = k} f_i.

    Class k has n_k of the N images. w_k minimises -Σ_i f_i·w_{y_i} / (N τ) + Σ_k ‖w_k - t_k‖² / (2 n_k): the first part
    of the cross-entropy, and a tie to the name that is looser for classes with more images. Without `text`, the mean
    image of each class stands in for its name.

    Parameters
    ----------
    tau : "auto" or float
        τ: the larger, the closer to zero-shot. "auto" is chosen from decades by accuracy on the validation data;
        without them it is CLIP's temperature 0.01, as published.
    logit_scale : float
        Factor of the cosines.

    Attributes
    ----------
    coef_ : (K, D) array
        logit_scale · w_k / ‖w_k‖.
    tau_ : float
    history_ : History
        Columns held_out_accuracy and held_out_loss, one entry for each τ that was tried.

    References
    ----------
    Silva-Rodríguez et al., Few-shot, now for real: medical VLMs adaptation without balanced sets or validation, MICCAI
    2025.

    Examples
    --------
    >>> from lpplusplus import SSText
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = SSText().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.tau_
    (array(['cat'], dtype='<U3'), 0.01)
    """

    fitted_scalars: ClassVar[dict[str, str]] = {"tau_": "number"}
    trained_arrays = ()

    tau: Annotated[str | float | None, AUTO, number(0, open=True), nothing("auto")] = "auto"

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        xp = backend.namespace(task.X)
        names, N = backend.unit_rows(self.coef_), task.X.shape[0]
        counts = backend.sum_by_class(xp.ones_like(task.X[:, :1]), task.y, task.n_classes)
        moves = counts / N * backend.sum_by_class(backend.unit_rows(task.X), task.y, task.n_classes)

        def directions(tau: float) -> Array:
            # τ·w_k instead of w_k: the same direction, and no overflow at a small τ.
            return float(self.logit_scale) * backend.unit_rows(min(1.0, tau) * names + min(1.0, 1 / tau) * moves)

        automatic = self.tau is None or isinstance(self.tau, str)  # None is how version 0.1 wrote "auto".
        self.tau_, self.chosen_ = 0.01 if automatic else float(self.tau), {}  # type: ignore[arg-type]
        if automatic and task.X_val is not None:
            F = backend.unit_rows(task.X_val)
            self.tau_ = choose(TAUS, lambda t: F @ directions(t).T, task.y_val, self.history_, by_accuracy=True)
            self.chosen_ = {"tau": "validation"}
        self.coef_ = directions(self.tau_)
        self.intercept_ = backend.zeros(self.coef_, (task.n_classes,))
