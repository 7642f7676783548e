"""ProKeR: what the class names get wrong on the examples, carried to other images by a kernel."""

from typing import Annotated, Any, ClassVar

from .._core import backend
from .._core.backend import Array
from .._core.parameters import AUTO, number, with_parameters
from .._core.task import Task
from .tip_adapter import blockwise, check_keys
from .zero_shot import TextBased

CONSTANTS = {1: (3.0, 0.05), 2: (2.6, 0.05), 4: (1.5, 0.05), 8: (1.66, 0.07), 16: (1.7, 0.1)}
"""β and λ by the number of shots, which the authors found on ImageNet."""


@with_parameters
class ProKeR(TextBased):
    """Training-free: logits 100·(f·t_k + Σ_i k(f, f_i) A_ik) with the kernel k(f, f_i) = exp(-β(1 - f·f_i)).

    A = (K/λ + I)⁻¹ (Y - F Tᵀ) for the examples F, their kernel K and their labels Y, one-hot: a ridge regression on
    what the names leave over. Nothing is chosen, so validation data are not used. Without `text`, the mean image of
    each class stands in for its name.

    Parameters
    ----------
    beta : "auto" or float
        β, the sharpness of the kernel. "auto" is the authors' value for the shots of the smallest class, found on
        ImageNet: 3, 2.6, 1.5, 1.66 and 1.7 from 1, 2, 4, 8 and 16 shots on.
    ridge : "auto" or float
        λ: the larger, the more the examples count. "auto" as for `beta`: 0.05, from 8 shots on 0.07 and from 16 on 0.1.
    logit_scale : float
        Factor of the logits. It changes probabilities, not predictions.

    Attributes
    ----------
    keys_ : (N, D) array
        The unit examples; views of one image are averaged first.
    weights_ : (N, K) array
        logit_scale · A.
    coef_ : (K, D) array
        logit_scale · t_k.
    beta_, ridge_ : float

    References
    ----------
    Bendou et al., ProKeR: a kernel perspective on few-shot adaptation of large vision-language models, CVPR 2025.

    Examples
    --------
    >>> from lpplusplus import ProKeR
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = ProKeR().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.beta_
    (array(['cat'], dtype='<U3'), 2.6)
    """

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "keys_": "ND", "weights_": "NK"}
    fitted_scalars: ClassVar[dict[str, str]] = {"beta_": "factor", "ridge_": "number"}
    trained_arrays = ()

    beta: Annotated[str | float, AUTO, number(0)] = "auto"
    ridge: Annotated[str | float, AUTO, number(0, open=True)] = "auto"

    def _fit_task(self, task: Task) -> None:
        self._set_text(task)
        xp, wide, scale = backend.namespace(task.X), backend.wide_dtype(task.X), float(self.logit_scale)
        known = CONSTANTS[max(shots for shots in CONSTANTS if shots <= task.fewest_shots)]
        self.beta_, self.ridge_ = (
            constant if isinstance(value, str) else float(value)
            for value, constant in zip((self.beta, self.ridge), known, strict=True)
        )
        self.keys_, self.chosen_ = backend.copy(backend.unit_rows(task.X)), {}
        F = backend.cast(self.keys_, wide)
        missing = -(F @ backend.cast(self.coef_, wide).T) / scale
        each = backend.arange(F, F.shape[0])
        missing[each, task.y] += 1
        kernel = xp.exp(-self.beta_ * (1 - F @ F.T)) / self.ridge_
        kernel[each, each] += 1
        self.weights_ = backend.cast(scale * xp.linalg.solve(kernel, missing), task.X.dtype)

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: Any) -> None:
        super()._restore(arrays, scalars, classes)
        check_keys(self.keys_, self.beta_)

    def _logits(self, X: Array) -> Array:
        names, keys, weights = (backend.like(part, X) for part in (self.coef_, self.keys_, self.weights_))
        xp = backend.namespace(keys)

        def logits(F: Array) -> Array:
            return F @ names.T + xp.exp(-self.beta_ * (1 - F @ keys.T)) @ weights

        return blockwise(logits, backend.unit_rows(backend.cast(X, names.dtype)), max(names.shape[0], keys.shape[0]))
