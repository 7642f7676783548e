"""Linear adapter: one matrix on the image embedding, tied to the identity."""

from typing import Annotated, ClassVar

from .._core import backend
from .._core.backend import Array
from .._core.parameters import nothing, number, with_parameters
from .._core.task import Task
from ._training import Schedule, TorchTrained, cosine, require_torch, tensor
from .zero_shot import TextBased


@with_parameters
class LinearAdapter(TorchTrained, TextBased):
    """Train a D×D matrix A from the identity: logits 100·cos(A f, t_k), loss CE + λ ‖A - I‖².

    λ = 1 / S for S images in the smallest class. Adam, full batches, the rate falls along a cosine. This is ProLIP on
    embeddings, instead of on the encoder's features before its last projection. The epoch with the best validation
    accuracy is kept; without validation data, the last, as published. Needs torch (`pip install "lpplusplus[torch]"`)
    to fit, not to predict. Without `text`, the mean image of each class stands in for its name.

    Parameters
    ----------
    penalty : float, optional
        λ, by default 1 / S.
    epochs, learning_rate
        Training. The authors found rates from 1e-5 to 1e-2 to give much the same; 300 steps at 1e-3 are enough to reach
        the lowest loss. With views, X of shape (N, V, D), each epoch sees another view of every image.
    logit_scale : float
        Factor of the cosines.
    device : str, optional
        Where to train, such as "cuda"; by default where the data are.
    progress : callable, optional
        Called as `progress(done, total)` after each epoch. Not saved.

    Attributes
    ----------
    matrix_ : (D, D) array
    coef_ : (K, D) array
        logit_scale · t_k.
    epoch_ : int
        The epoch that was kept; 0 is zero-shot.
    history_ : History
        Columns epoch, loss and validation_accuracy.

    References
    ----------
    Fahes et al., CLIP's visual embedding projector is a few-shot cornucopia, WACV 2026.

    Examples
    --------
    >>> from lpplusplus import LinearAdapter
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> model = LinearAdapter().fit(images, ["cat", "cat", "dog", "dog"], text=[[3.0, 1.0], [1.0, 3.0]])
    >>> model.predict([[0.8, 0.2]]), model.epoch_
    (array(['cat'], dtype='<U3'), 300)
    """

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD?", "matrix_": "DD"}
    trained_arrays = ("matrix_",)

    penalty: Annotated[float | None, number(0), nothing("1 / S")] = None
    epochs: Annotated[int, number(0, whole=True)] = 300
    learning_rate: Annotated[float, number(0, open=True)] = 1e-3

    def _fit_task(self, task: Task) -> None:
        torch = require_torch(type(self).__name__)
        self._set_text(task)
        names = tensor(self.coef_, self.device)
        identity = torch.eye(task.X.shape[1]).to(names)
        matrix = identity.clone().requires_grad_()
        penalty = 1 / task.fewest_shots if self.penalty is None else float(self.penalty)

        # The authors' eps, meant for half precision. It damps small gradients and so belongs to the recipe.
        factor = cosine(self.epochs, by_epoch=True)
        (self.matrix_,) = self._train(
            task,
            [matrix],
            lambda F: adapted(F, matrix) @ names.T,
            Schedule(self.epochs, len(task.y), self.learning_rate, factor, "Adam", {"eps": 1e-4}),
            penalty=lambda: penalty * ((matrix - identity) ** 2).sum(),
        )

    def _logits(self, X: Array) -> Array:
        names, matrix = (backend.like(part, X) for part in (self.coef_, self.matrix_))
        return adapted(backend.unit_rows(backend.cast(X, names.dtype)), matrix) @ names.T


def adapted(F: Array, matrix: Array) -> Array:
    """Rows A f of unit length; zero rows stay zero."""
    return backend.unit_rows(F @ matrix.T)
