"""PLOT: several prompts per class, compared with the places of an image by optimal transport."""

from typing import Annotated, Any, ClassVar

from .._core import backend, checks
from .._core.backend import Array
from .._core.parameters import FLAG, number, with_parameters
from ._prompts import ContextPrompts
from .coop import CoOp

SMALLEST_EPSILON = 0.03
"""Costs are 1 - cosine, at most 2, and exp(-2/0.03) is still a normal number in single precision."""
AT_ONCE = 2**22
"""Number of entries of transport plans that are computed at a time."""


@with_parameters
class PLOT(CoOp):
    """P prompts per class against the L places of an image: logit_k = s Σ_lp T_lp f_l · t_kp.

    T is the plan of optimal transport from the places to the prompts, each side with equal weights, at the cost
    1 - f_l · t_kp and with an entropy term. It is found by Sinkhorn's iteration, and no gradient is taken through it.

    Images come from `OpenClipEncoder.encode_places`. `fit` takes X of shape (N, 1 + L, D), or (N, V, 1 + L, D) for V
    views of each image; X_val and the images to predict are (n, 1 + L, D). Row 0 of an image is the image as a whole.

    All parameters of `CoOp` are parameters here, too.

    Parameters
    ----------
    n_prompts : int
        P.
    epsilon : float
        Weight of the entropy.
    iterations, tolerance
        Sinkhorn's largest number of iterations; it stops earlier when the row factors change by less than the
        tolerance on average.
    global_term : bool
        Add s f_0 · unit(mean_p t'_kp), which compares the whole image with the mean prompt, as the authors do for
        ImageNet; t'_kp are the prompts' features before they are normalised.

    Attributes
    ----------
    context_ : (P, 1 or K, M, W) array
    prompts_ : (P, K, D) array
        Features of the learned prompts, not normalised.
    text_, logit_scale_, epoch_, encoder_, fingerprint_, history_
        As in `CoOp`.

    Examples
    --------
    >>> from lpplusplus import PLOT
    >>> model = PLOT(encoder=encoder)  # doctest: +SKIP
    >>> places = encoder.encode_places([encoder.prepare(image) for image in images])  # doctest: +SKIP
    >>> model.fit(places, y, classes=names).predict(places)  # doctest: +SKIP
    """

    fitted_arrays: ClassVar[dict[str, str]] = {"prompts_": "PKD", "text_": "KD", "context_": "PCMW"}
    needs_places = True

    n_prompts: Annotated[int, number(1, whole=True)] = 4
    epsilon: Annotated[float, number(SMALLEST_EPSILON)] = 0.1
    iterations: Annotated[int, number(1, whole=True)] = 100
    tolerance: Annotated[float, number(0)] = 1e-2
    global_term: Annotated[bool, FLAG] = False

    def _scores(self, F: Array, text: Array) -> Array:
        xp = backend.namespace(F)
        prompts = _unit(text)
        height = max(1, AT_ONCE // max(1, (F.shape[1] - 1) * text.shape[0] * text.shape[1]))
        z = xp.concat([self._transported(F[a : a + height], prompts) for a in range(0, F.shape[0], height)])
        if self.global_term:
            z = z + F[:, 0, :] @ _unit(xp.mean(text, axis=0)).T
        return self.logit_scale_ * z

    def _transported(self, F: Array, text: Array) -> Array:
        xp = backend.namespace(F)
        (n, rows, dim), (prompts, classes, _) = F.shape, text.shape
        cosines = F[:, 1:, :].reshape(n * (rows - 1), dim) @ text.reshape(prompts * classes, dim).T
        # One (L, P) problem for each image and class.
        cosines = xp.permute_dims(cosines.reshape(n, rows - 1, prompts, classes), (0, 3, 1, 2))
        plan = transport_plan(1 - backend.detached(cosines), self.epsilon, self.iterations, self.tolerance)
        return xp.sum(plan * cosines, axis=(2, 3))

    def _text(self, prompts: ContextPrompts, context: Any) -> Any:
        own = context.expand(-1, len(self._labels), -1, -1)
        return prompts(own.flatten(0, 1)).unflatten(0, own.shape[:2])

    def _context_shape(self, n_classes: int) -> tuple[int, ...]:
        return (self.n_prompts, *super()._context_shape(n_classes))

    def _set_fitted(self, context: Any, text: Any, like: Array) -> None:
        self.context_ = backend.like(context.detach(), like, dtype=like.dtype)
        self.prompts_ = backend.like(text.detach(), like, dtype=like.dtype)

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: Any) -> None:
        super()._restore(arrays, scalars, classes)
        checks.check_no_zero_rows(self.prompts_, "prompts_")

    def _logits(self, X: Array) -> Array:
        text = backend.like(self.prompts_, X)
        return self._scores(backend.unit_vectors(backend.cast(X, text.dtype)), text)

    # Images with their places, where the other methods have one embedding per image ---------------------------------

    def _check_images(self, X: Any, name: str, *, reset: bool) -> Array:
        shape = tuple(getattr(X, "shape", ()))
        if len(shape) != 3 or shape[1] < 2 or 0 in shape:
            wanted = "(images, views, 1 + places, D) or (images, 1 + places, D)" if reset else "(images, 1 + places, D)"
            raise ValueError(
                f"{name} has shape {shape}, but PLOT takes {wanted}: the whole image and its places, from the "
                f"encoder's encode_places."
            )
        rows = super()._check_images(X.reshape(-1, shape[2]), f"{name}.reshape(-1, {shape[2]})", reset=reset)
        return rows.reshape(shape)

    def _check_held_out(self, X: Any, name: str) -> Array:
        X = self._check_images(X, name, reset=False)
        checks.check_no_zero_rows(X, name)
        return X


def _unit(text: Array) -> Array:
    return text / backend.namespace(text).linalg.vector_norm(text, axis=-1, keepdims=True)


def transport_plan(cost: Array, epsilon: float = 0.1, iterations: int = 100, tolerance: float = 1e-2) -> Array:
    """Plans that carry 1/L from each of L rows to 1/P in each of P columns, (…, L, P).

    Rows and columns of exp(-cost/ε) are scaled in turn, from ones, rows first, so that the columns' sums are exact. A
    problem is solved when its row factors change by less than `tolerance` on average. Each problem stops by itself, so
    that its plan does not depend on the others.

    Parameters
    ----------
    cost : (…, L, P) array
    epsilon
        Weight of the entropy.
    iterations, tolerance
        When to stop; with a tolerance of 0, after exactly `iterations`.

    Examples
    --------
    >>> import numpy as np
    >>> transport_plan(np.array([[0.0, 1.0], [1.0, 0.0]])).round(3)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    xp = backend.namespace(cost)
    kernel = xp.exp(-cost / epsilon)
    turned = xp.matrix_transpose(kernel)
    n_rows, n_columns = cost.shape[-2:]
    rows = xp.ones_like(cost[..., :1])
    columns = xp.ones_like(turned[..., :1])
    going = xp.ones_like(rows[..., :1, :], dtype=xp.bool)
    for _ in range(iterations):
        new = (1 / n_rows) / (kernel @ columns)
        change = xp.mean(xp.abs(new - rows), axis=-2, keepdims=True)
        rows = xp.where(going, new, rows)
        columns = xp.where(going, (1 / n_columns) / (turned @ rows), columns)
        going = going & (change >= tolerance)
        if not bool(xp.any(going)):
            break
    return rows * kernel * xp.matrix_transpose(columns)
