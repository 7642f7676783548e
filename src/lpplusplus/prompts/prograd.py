"""ProGrad: CoOp that takes no step against what the hand-written prompts know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._parameters import Nothing, Number, Rule, Text
from ..encoders.prompts import check_templates
from .base import N_CONTEXT, Common, PromptLearner, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack


def projected(gradient: Any, teacher: Any, strength: float = 1.0) -> Any:
    """`gradient` where it does not oppose `teacher`'s, else without `strength` times its part along it.

    With strength 1 the result is orthogonal to the teacher's gradient.
    """
    inner = (gradient * teacher).sum()
    if inner >= 0:
        return gradient
    return gradient - strength * inner / (teacher * teacher).sum() * teacher


class ProGrad(PromptLearner):
    """CoOp whose gradient g loses what opposes the gradient h of a teacher's loss: g - λ ⟨g, h⟩/⟨h, h⟩ h if ⟨g, h⟩ < 0.

    The teacher is zero-shot with the hand-written prompts, its loss -T² Σ_k p_k log q_k with p and q the teacher's and
    the learned prompts' probabilities at temperature T. Begins at the words before the name in the first of
    `templates`, in the last of the M places after zeros. A step takes two backward passes.

    Parameters
    ----------
    projection : float
        λ; the authors take 0.8 at eight and sixteen shots of flowers, textures and satellite images.
    temperature : float
        T.
    **common
        As in `CoOp`; `context_init` is by default the template's words, `n_context` 16 with any of them.

    Attributes
    ----------
    context_, coef_, text_, logit_scale_, epoch_, encoder_, fingerprint_, history_
        As in `CoOp`; the loss is the cross-entropy.

    Examples
    --------
    >>> from lpplusplus import ProGrad
    >>> model = ProGrad(encoder="open_clip:RN50/openai", templates="a centered satellite photo of {}.")
    >>> model.fit(X, y, classes=names).score(X_test, y_test)  # doctest: +SKIP
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        **PromptLearner.parameter_rules,
        "projection": [Number(0)],
        "temperature": [Number(0, open=True)],
        "context_init": [Text(), Nothing("the template's words before the name")],
    }

    def __init__(self, *, projection: float = 1.0, temperature: float = 1.0, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.projection = projection
        self.temperature = temperature

    def _phrase(self) -> str | None:
        return self.context_init or check_templates(self.templates)[0].partition("{}")[0].strip() or None

    def _length(self, words: int) -> int:
        return self.n_context or max(words, N_CONTEXT)

    def _backward(self, step: Step) -> Any:
        import torch

        loss = torch.nn.functional.cross_entropy(step.logits, step.y)
        teacher = self._teacher_loss(step)
        (own,) = torch.autograd.grad(loss, step.context, retain_graph=True)
        (general,) = torch.autograd.grad(teacher, step.context)
        step.context.grad = projected(own, general, self.projection)
        return loss

    def _teacher_loss(self, step: Step) -> Any:
        t = self.temperature
        p = (self._scores(step.images, step.hand) / t).softmax(dim=1)
        return -(t**2) * (p * (step.logits / t).log_softmax(dim=1)).sum(dim=1).mean()
