"""KgCoOp: CoOp that stays near the hand-written prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._parameters import Nothing, Number, Rule, Text
from .base import Common, PromptLearner, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack


def drift(text: Any, hand: Any) -> Any:
    """1 - mean_k cos(t_k, hand_k): how far learned prompts are from hand-written ones; rows are unit vectors.

    The paper's squared distance of unit vectors is twice that.
    """
    return 1 - (text * hand).sum(dim=-1).mean()


FIRST_WORDS = "a photo of a"


class KgCoOp(PromptLearner):
    """CoOp with a penalty: cross-entropy + λ (1 - mean_k cos(t_k, hand_k)), hand_k the hand-written prompt of class k.

    Begins at "a photo of a". The hand-written prompts are `templates`, or `text` in `fit`.

    Parameters
    ----------
    penalty : float
        λ.
    **common
        As in `CoOp`; `context_init` is by default "a photo of a".

    Attributes
    ----------
    context_, coef_, text_, logit_scale_, epoch_, encoder_, fingerprint_, history_
        As in `CoOp`; the loss is with the penalty.

    Examples
    --------
    >>> from lpplusplus import KgCoOp
    >>> model = KgCoOp(encoder="open_clip:RN50/openai", templates="a photo of a {}, a type of flower.")
    >>> model.fit(X, y, classes=names).score(X_test, y_test)  # doctest: +SKIP
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        **PromptLearner.parameter_rules,
        "penalty": [Number(0)],
        "context_init": [Text(), Nothing(FIRST_WORDS)],
    }

    def __init__(self, *, penalty: float = 8.0, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.penalty = penalty

    def _phrase(self) -> str:
        return self.context_init or FIRST_WORDS

    def _backward(self, step: Step) -> Any:
        import torch

        loss = torch.nn.functional.cross_entropy(step.logits, step.y) + self.penalty * drift(step.text, step.hand)
        loss.backward()
        return loss
