"""ProGrad: CoOp that takes no step against what the hand-written prompts know."""

from typing import Annotated, Any

from .._core.parameters import TEXT, nothing, number, with_parameters
from ..encoders.class_text import check_templates
from .coop import N_CONTEXT, Batch, CoOp


def projected(gradient: Any, teacher: Any, strength: float = 1.0) -> Any:
    """`gradient` if it agrees with `teacher`, else minus `strength` times its component along `teacher`.

    With strength 1 the result is then orthogonal to `teacher`.
    """
    inner = (gradient * teacher).sum()
    if inner >= 0:
        return gradient
    return gradient - strength * inner / (teacher * teacher).sum() * teacher


@with_parameters
class ProGrad(CoOp):
    """CoOp without steps against the gradient h of a teacher's loss: g becomes g - λ ⟨g, h⟩/⟨h, h⟩ h if ⟨g, h⟩ < 0.

    The teacher is zero-shot with the hand-written prompts. Its loss is -T² Σ_k p_k log q_k, with the probabilities p of
    the teacher and q of the learned prompts at temperature T. The context begins as the words before the name in the
    first of `templates`, as the last of the M vectors, with zeros before them. A step takes two backward passes.
    All parameters of `CoOp` are parameters here, too. `context_init` is by default the template's words; `n_context` is
    16 by default, also with a phrase.

    Parameters
    ----------
    projection : float
        λ; the authors take 0.8 for 8 and 16 shots of Flowers102, DTD and EuroSAT.
    temperature : float
        T.

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

    projection: Annotated[float, number(0)] = 1.0
    temperature: Annotated[float, number(0, open=True)] = 1.0
    context_init: Annotated[str | None, TEXT, nothing("the template's words before the name")] = None

    def _first_words(self) -> str | None:
        return self.context_init or check_templates(self.templates)[0].partition("{}")[0].strip() or None

    def _context_length(self, words: int) -> int:
        return self.n_context or max(words, N_CONTEXT)

    def _backward(self, batch: Batch) -> Any:
        import torch

        loss = self._loss(batch)
        (own,) = torch.autograd.grad(loss, batch.context, retain_graph=True)
        (general,) = torch.autograd.grad(self._teacher_loss(batch), batch.context)
        batch.context.grad = projected(own, general, self.projection)
        return loss

    def _teacher_loss(self, batch: Batch) -> Any:
        t = self.temperature
        p = (self._scores(batch.images, batch.hand) / t).softmax(dim=1)
        return -(t**2) * (p * (batch.logits / t).log_softmax(dim=1)).sum(dim=1).mean()
