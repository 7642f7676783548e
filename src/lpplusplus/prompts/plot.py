"""PLOT: several prompts a class, carried to the places of an image by optimal transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .. import _arrays, _checks
from .._arrays import Array
from .._parameters import Flag, Number, Rule
from .base import Common, PromptLearner, unit
from .slots import Slots
from .transport import SMALLEST_EPSILON, transport_plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

AT_ONCE = 2**22
"""Entries of the plans that are computed at a time."""


class PLOT(PromptLearner):
    """P prompts a class against the L places of an image: logit_k = s Σ_lp T_lp f_l · t_kp.

    T is the plan that carries equal weights of the places to equal weights of the prompts at least cost 1 - f_l · t_kp,
    with entropy: Sinkhorn's iteration, through which no gradient is taken.

    Images are `OpenClipEncoder.encode_tokens`: `fit` takes X of shape (N, V, 1 + L, D) for V views of each image, or
    (N, 1 + L, D), and X_val of (n, 1 + L, D), as do `predict` and the others; token 0 is the whole image.

    Parameters
    ----------
    n_prompts : int
        P.
    epsilon : float
        Weight of the entropy.
    iterations, tolerance
        Sinkhorn's: at most so many, ended when the row factors change by less than the tolerance on average.
    global_term : bool
        Add s f_0 · unit(mean_p t_kp), of the whole image and the mean prompt, as the authors do for ImageNet.
    **common
        As in `CoOp`.

    Attributes
    ----------
    context_ : (P, 1 or K, M, W) array
    prompts_ : (P, K, D) array
        Unit features of the learned prompts.
    text_, logit_scale_, epoch_, encoder_, fingerprint_, history_
        As in `CoOp`.

    Examples
    --------
    >>> from lpplusplus import PLOT
    >>> model = PLOT(encoder=encoder)  # doctest: +SKIP
    >>> tokens = encoder.encode_tokens([encoder.prepare(image) for image in images])  # doctest: +SKIP
    >>> model.fit(tokens, y, classes=names).predict(tokens)  # doctest: +SKIP
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        **PromptLearner.parameter_rules,
        "n_prompts": [Number(1, whole=True)],
        "epsilon": [Number(SMALLEST_EPSILON)],
        "iterations": [Number(1, whole=True)],
        "tolerance": [Number(0)],
        "global_term": [Flag()],
    }
    fitted_arrays: ClassVar[dict[str, str]] = {"prompts_": "PKD", "text_": "KD", "context_": "PCMW"}
    needs_tokens = True

    prompts_: Array

    def __init__(
        self,
        *,
        n_prompts: int = 4,
        epsilon: float = 0.1,
        iterations: int = 100,
        tolerance: float = 1e-2,
        global_term: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        self.n_prompts = n_prompts
        self.epsilon = epsilon
        self.iterations = iterations
        self.tolerance = tolerance
        self.global_term = global_term

    def _scores(self, F: Array, text: Array) -> Array:
        xp = _arrays.namespace(F)
        height = max(1, AT_ONCE // max(1, (F.shape[1] - 1) * text.shape[0] * text.shape[1]))
        z = xp.concat([self._transported(F[a : a + height], text) for a in range(0, F.shape[0], height)])
        if self.global_term:
            z = z + F[:, 0, :] @ unit(xp.mean(text, axis=0)).T
        return self.logit_scale_ * z

    def _transported(self, F: Array, text: Array) -> Array:
        xp = _arrays.namespace(F)
        (n, tokens, dim), (prompts, classes, _) = F.shape, text.shape
        cosines = F[:, 1:, :].reshape(n * (tokens - 1), dim) @ text.reshape(prompts * classes, dim).T
        # One (L, P) problem for each image and class.
        cosines = xp.permute_dims(cosines.reshape(n, tokens - 1, prompts, classes), (0, 3, 1, 2))
        plan = transport_plan(1 - _arrays.detached(cosines), self.epsilon, self.iterations, self.tolerance)
        return xp.sum(plan * cosines, axis=(2, 3))

    def _text(self, slots: Slots, context: Any) -> Any:
        own = context.expand(-1, slots.n_classes, -1, -1)
        return super()._text(slots, own.flatten(0, 1)).unflatten(0, own.shape[:2])

    def _groups(self, n_classes: int) -> tuple[int, ...]:
        return (self.n_prompts, *super()._groups(n_classes))

    def _keep(self, context: Any, text: Any, like: Array) -> None:
        self.context_ = _arrays.like(context.detach(), like, dtype=like.dtype)
        self.prompts_ = _arrays.like(text.detach(), like, dtype=like.dtype)

    def _logits(self, X: Array) -> Array:
        text = _arrays.like(self.prompts_, X)
        return self._scores(unit(_arrays.cast(X, text.dtype)), text)

    # Images with their places, where the other methods have one embedding -------------------------------------------

    def _check_views(self, X: Any) -> tuple[Array, Array | None]:
        ndim = getattr(X, "ndim", None)
        if ndim != 4:
            return self._check_images(X, "X", reset=True), None
        images, views, tokens, dim = X.shape
        rows = self._check_images(X.reshape(images * views, tokens, dim), "X", reset=True)
        stack = rows.reshape(images, views, tokens, dim)
        return _arrays.namespace(stack).mean(stack, axis=1), stack

    def _check_images(self, X: Any, name: str, *, reset: bool) -> Array:
        shape = tuple(getattr(X, "shape", ()))
        if len(shape) != 3 or shape[1] < 2 or 0 in shape:
            wanted = "(images, views, 1 + places, D) or (images, 1 + places, D)" if reset else "(images, 1 + places, D)"
            raise ValueError(
                f"{name} has shape {shape}, but PLOT takes {wanted}: the whole image and its places, from the "
                f"encoder's encode_tokens."
            )
        rows = super()._check_images(X.reshape(-1, shape[2]), f"{name}.reshape(-1, {shape[2]})", reset=reset)
        return rows.reshape(shape)

    def _check_held_out(self, X: Any, name: str) -> Array:
        X = self._check_images(X, name, reset=False)
        _checks.check_no_zero_rows(X, name)
        return X
