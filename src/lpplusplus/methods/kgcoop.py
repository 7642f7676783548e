"""KgCoOp: CoOp that stays near the hand-written prompts."""

from typing import Annotated, Any

from .._core.parameters import TEXT, nothing, number, with_parameters
from .coop import Batch, CoOp

FIRST_WORDS = "a photo of a"


def drift(text: Any, hand: Any) -> Any:
    """1 - mean_k cos(t_k, hand_k): how far the learned prompts are from the hand-written ones; all are unit.

    The paper writes the squared distance, which is twice this value.
    """
    return 1 - (text * hand).sum(dim=-1).mean()


@with_parameters
class KgCoOp(CoOp):
    """CoOp with a penalty: cross-entropy + λ (1 - mean_k cos(t_k, hand_k)), hand_k the hand-written prompt of class k.

    The context begins as "a photo of a". Hand-written prompts are `text` in `fit`, else `templates`.
    All parameters of `CoOp` are parameters here, too; `context_init` is by default "a photo of a".

    Parameters
    ----------
    penalty : float
        λ.

    Attributes
    ----------
    context_, coef_, text_, logit_scale_, epoch_, encoder_, fingerprint_, history_
        As in `CoOp`; the loss includes the penalty.

    Examples
    --------
    >>> from lpplusplus import KgCoOp
    >>> model = KgCoOp(encoder="open_clip:RN50/openai", templates="a photo of a {}, a type of flower.")
    >>> model.fit(X, y, classes=names).score(X_test, y_test)  # doctest: +SKIP
    """

    penalty: Annotated[float, number(0)] = 8.0
    context_init: Annotated[str | None, TEXT, nothing(FIRST_WORDS)] = None

    def _first_words(self) -> str:
        return self.context_init or FIRST_WORDS

    def _loss(self, batch: Batch) -> Any:
        return super()._loss(batch) + self.penalty * drift(batch.text, batch.hand)
