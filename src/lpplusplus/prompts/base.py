"""What the prompt learners share: names and context vectors go through the text tower, images are cached features.

    t_k(v) = unit(tower([start] v₁ … v_M name_k . [end])),   logits = s · f · t_k(v),   f unit

v is trained; the image tower never runs, and all towers stay as they are. A method differs in how the gradient is
formed, `_backward`, or in how text and images are compared, `_scores`.
"""

from __future__ import annotations

import math
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

import numpy as np

from .. import _arrays, _checks
from .._arrays import Array
from .._checks import Task
from .._parameters import Callback, Choice, Flag, Nothing, Number, Rule, Seed, Text
from .._random import generator
from ..base import FewShotClassifier
from ..encoders.base import EncoderError
from ..encoders.open_clip import OpenClipEncoder
from ..encoders.prompts import DEFAULT_TEMPLATE, check_templates, class_texts
from ..journal import Journal
from ..methods.checkpoint import Checkpoint, identity
from ..methods.finetuning import Progress, Schedule, cosine_by_epoch, finetune, require_torch, tensor
from ..sources.class_names import display_name
from ..training import fewest_shots
from .bar import shown
from .slots import Slots
from .tower import TextTower

if TYPE_CHECKING:
    from typing_extensions import Required

N_CONTEXT = 16
SPREAD = 0.02
"""Standard deviation of random context vectors."""
SCHEME = "open_clip:"


class Common(TypedDict, total=False):
    """Parameters of every prompt learner, for those that add some; described in `CoOp`."""

    encoder: Required[str | OpenClipEncoder]
    templates: str | tuple[str, ...]
    n_context: int | None
    class_specific: bool
    class_position: str
    context_init: str | None
    epochs: int | None
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    warm_up: float | None
    logit_scale: float | None
    mixed_precision: bool
    memory_mib: float | None
    device: str | None
    checkpoint: str | PathLike[str] | None
    progress: bool | Progress | None
    random_state: Any


class Step(NamedTuple):
    """One batch in training."""

    images: Any
    """(n, D) unit features; with their places, (n, 1 + L, D), for PLOT."""
    y: Any
    context: Any
    """The parameters."""
    text: Any
    """(K, D) unit features of the learned prompts; (P, K, D) for PLOT."""
    hand: Any
    """(K, D) unit features of the hand-written prompts, or of `text=`."""
    logits: Any


class PromptLearner(FewShotClassifier):
    """Base of the prompt learners; see the module's docstring. All parameters are described in `CoOp`."""

    parameter_rules: ClassVar[dict[str, list[Rule]]]
    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD", "context_": "CMW"}
    fitted_scalars: ClassVar[tuple[str, ...]] = ("epoch_", "logit_scale_", "encoder_", "fingerprint_")
    refuse_twins = True
    """Whether two classes that read the same are an error. The benchmark has them where a data set has."""
    normalize = True
    needs_torch = True
    black_box = False

    context_: Array
    epoch_: int
    logit_scale_: float
    encoder_: str
    fingerprint_: str

    def __init__(
        self,
        *,
        encoder: str | OpenClipEncoder,
        templates: str | tuple[str, ...] = DEFAULT_TEMPLATE,
        n_context: int | None = None,
        class_specific: bool = False,
        class_position: str = "end",
        context_init: str | None = None,
        epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 2e-3,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        warm_up: float | None = 1e-5,
        logit_scale: float | None = None,
        mixed_precision: bool = True,
        memory_mib: float | None = None,
        device: str | None = None,
        checkpoint: str | PathLike[str] | None = None,
        progress: bool | Progress | None = None,
        random_state: Any = 0,
    ) -> None:
        self.encoder = encoder
        self.templates = templates
        self.n_context = n_context
        self.class_specific = class_specific
        self.class_position = class_position
        self.context_init = context_init
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.warm_up = warm_up
        self.logit_scale = logit_scale
        self.mixed_precision = mixed_precision
        self.memory_mib = memory_mib
        self.device = device
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's list of parameters, with those that a method hands on to this class."""
        own = {name for kind in cls.__mro__ if issubclass(kind, PromptLearner) for name in signature(kind).parameters}
        return sorted(own - {"common"})

    # What a method may do differently ----------------------------------------------------------------------------

    def _backward(self, step: Step) -> Any:
        """Leave the gradient of a batch in the context; returns the loss. Here: of the cross-entropy."""
        import torch

        loss = torch.nn.functional.cross_entropy(step.logits, step.y)
        loss.backward()
        return loss

    def _text(self, slots: Slots, context: Any) -> Any:
        """Unit text features of the learned prompts."""
        import torch

        return torch.nn.functional.normalize(slots(context), dim=-1)

    def _scores(self, F: Array, text: Array) -> Array:
        """Logits of unit image features, in training as in prediction."""
        return self.logit_scale_ * (F @ text.T)

    def _phrase(self) -> str | None:
        """Words that the context begins as; None for noise."""
        return self.context_init

    def _length(self, words: int) -> int:
        """M, of a context that begins with so many words."""
        return self.n_context or words or N_CONTEXT

    def _groups(self, n_classes: int) -> tuple[int, ...]:
        """How many contexts there are, in the shape of `context_` before (M, W)."""
        return (n_classes if self.class_specific else 1,)

    def _keep(self, context: Any, text: Any, like: Array) -> None:
        """Set the fitted arrays."""
        self.context_ = _arrays.like(context.detach(), like, dtype=like.dtype)
        self.coef_ = self.logit_scale_ * _arrays.like(text.detach(), like, dtype=like.dtype)

    def _logits(self, X: Array) -> Array:
        coef = _arrays.like(self.coef_, X)
        return _arrays.unit_rows(_arrays.cast(X, coef.dtype)) @ coef.T

    def _count_parameters(self) -> int:
        return math.prod(self.context_.shape)

    # What they share -----------------------------------------------------------------------------------------------

    def _fit_task(self, task: Task) -> None:
        torch = require_torch(type(self).__name__)
        encoder = self._opened()
        if encoder.dim != self.n_features_in_:
            raise ValueError(
                f"X has {self.n_features_in_} columns but {encoder.spec} gives {encoder.dim}: embed the images with "
                f"the encoder whose prompts are learned."
            )
        _checks.check_no_zero_rows(task.X, "X")
        if task.X_val is not None:
            _checks.check_no_zero_rows(task.X_val, "X_val")
        names = class_names(self.classes_)
        rng = generator(self.random_state)
        half = torch.float16 if self.mixed_precision and encoder.device.type == "cuda" else None
        tower = TextTower(encoder, half)
        context = self._start(tower, len(names), rng).requires_grad_()
        memory = None if self.memory_mib is None else int(self.memory_mib * 2**20)
        slots = Slots(
            tower, names, context.shape[-2], self.class_position, copies=math.prod(context.shape[:-3]), memory=memory
        )
        twins = slots.twins() if self.refuse_twins and not self.class_specific else None
        if twins is not None:
            first, second = (str(self.classes_[i]) for i in twins)
            raise ValueError(
                f"classes {first!r} and {second!r} read the same in a prompt, so that no shared context can tell them "
                f"apart: rename one, or set class_specific=True."
            )
        self.history_ = Journal()
        self.encoder_, self.fingerprint_ = encoder.spec, encoder.fingerprint
        own_scale = float(torch.as_tensor(encoder.model.logit_scale).exp())
        self.logit_scale_ = own_scale if self.logit_scale is None else float(self.logit_scale)
        hand = class_texts(encoder, names, self.templates) if task.text is None else task.text
        self.text_ = _arrays.copy(_arrays.like(hand, task.X, dtype=task.X.dtype))
        on = {"device": encoder.device, "dtype": tower.dtype}
        hand = tensor(self.text_, None).to(**on)
        stack = task.X[:, None] if task.views is None else task.views
        held = None
        if task.X_val is not None:
            held = tensor(unit(task.X_val), None).to(**on), tensor(task.y_val, encoder.device)

        def backward(F: Any, y: Any) -> float:
            text = self._text(slots, context)
            loss = float(self._backward(Step(F, y, context, text, hand, self._scores(F, text))).detach())
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"{type(self).__name__}: the loss is {loss}: lower learning_rate={self.learning_rate:g}"
                    f"{', or set mixed_precision=False' if half is not None else ''}."
                )
            return loss

        with shown(self.progress, type(self).__name__, self.history_) as progress:
            self.epoch_ = finetune(
                [context],
                lambda F: self._scores(F, self._text(slots, context)),
                tensor(unit(stack), None).to(**on),
                tensor(task.y, encoder.device),
                self._schedule(task),
                seed=int(rng.integers(2**31)),
                history=self.history_,
                validation=held,
                progress=progress,
                backward=backward,
                checkpoint=self._checkpoint(task),
            )
        with torch.no_grad():
            self._keep(context, self._text(slots, context), task.X)

    def _opened(self) -> OpenClipEncoder:
        """The encoder, opened if it was only named."""
        if isinstance(self.encoder, OpenClipEncoder):
            if self.device is not None and self.encoder.device.type != self.device.partition(":")[0]:
                raise ValueError(
                    f"device={self.device!r}, but the encoder is on {self.encoder.device}: open it there, or name it "
                    f"by its spec {self.encoder.spec!r}."
                )
            return self.encoder
        if not self.encoder.startswith(SCHEME):
            raise EncoderError(
                f"encoder={self.encoder!r}: {type(self).__name__} needs the gradient of the text tower, which only "
                f"{SCHEME}ARCH/PRETRAINED gives. With other encoders use LPPlusPlus, which needs embeddings only."
            )
        return OpenClipEncoder(self.encoder.removeprefix(SCHEME), device=self.device)

    def _start(self, tower: TextTower, n_classes: int, rng: np.random.Generator) -> Any:
        """Where the context begins, (…, M, W): noise, or a phrase's words in the last places after zeros."""
        import torch

        groups, phrase = self._groups(n_classes), self._phrase()
        if phrase is None:
            shape = (*groups, self._length(0), tower.width)
            return torch.from_numpy(rng.normal(0, SPREAD, shape)).to(tower.device, tower.dtype)
        words = tower.words(phrase)
        count = self._length(len(words))
        if count < len(words):
            raise ValueError(
                f"context_init={phrase!r} has {len(words)} tokens for n_context={count} vectors: shorten it, or leave "
                f"n_context=None."
            )
        padded = torch.nn.functional.pad(words, (0, 0, count - len(words), 0))
        return padded.expand(*groups, -1, -1).clone()

    def _schedule(self, task: Task) -> Schedule:
        shots = fewest_shots(task)
        epochs = (50 if shots < 2 else 100 if shots < 8 else 200) if self.epochs is None else self.epochs
        warm_up = None if self.warm_up is None else self.warm_up / self.learning_rate
        factor = cosine_by_epoch(epochs, warm_up)
        return Schedule(epochs, self.batch_size, self.learning_rate, self._optimiser, factor)

    def _optimiser(self, parameters: list[Any], rate: float) -> Any:
        import torch

        return torch.optim.SGD(parameters, lr=rate, momentum=self.momentum, weight_decay=self.weight_decay)

    def _checkpoint(self, task: Task) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        # Where and how it is computed may change on the way; a generator has moved on, but its state is in the file.
        free = {"encoder", "device", "memory_mib", "checkpoint", "progress"}
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        if not isinstance(self.random_state, int | np.integer):
            del settings["random_state"]
        settings |= {"method": type(self).__name__, "weights": self.fingerprint_, "classes": self.classes_.tolist()}
        stack = task.X if task.views is None else task.views
        arrays = {"X": stack, "y": task.y, "X_val": task.X_val, "y_val": task.y_val, "text": self.text_}
        return Checkpoint(self.checkpoint, identity(settings, arrays))


def unit(x: Array) -> Array:
    """Embeddings along the last axis, scaled to length 1."""
    return _arrays.unit_rows(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def class_names(classes: np.ndarray[Any, Any]) -> list[str]:
    """What to write in a prompt for each label, which must be a name: underscores are spaces.

    >>> class_names(np.array(["red_fox", "owl"]))
    ['red fox', 'owl']
    """
    names = []
    for label in classes.tolist():
        if not isinstance(label, str) or not display_name(label):
            raise ValueError(
                f"class {label!r} has no name, and a prompt needs one: use class names as labels, such as "
                f"y = names[y] and classes=names."
            )
        names.append(display_name(label))
    return names


class _AnEncoder:
    """The rule for `encoder`."""

    def allows(self, value: object) -> bool:
        return isinstance(value, OpenClipEncoder) or (isinstance(value, str) and bool(value))

    def describe(self) -> str:
        return f"an OpenClipEncoder or its spec, {SCHEME}ARCH/PRETRAINED"


class _Templates:
    """The rule for `templates`."""

    def allows(self, value: object) -> bool:
        try:
            check_templates(value)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return False
        return True

    def describe(self) -> str:
        return f'one or several texts with {{}} exactly once each, such as "{DEFAULT_TEMPLATE}"'


class _File:
    """The rule for `checkpoint`."""

    def allows(self, value: object) -> bool:
        return isinstance(value, PathLike) or (isinstance(value, str) and bool(value))

    def describe(self) -> str:
        return "the name of a file"


PromptLearner.parameter_rules = {
    "encoder": [_AnEncoder()],
    "templates": [_Templates()],
    "n_context": [Number(1, whole=True), Nothing(f"{N_CONTEXT}, or as many as context_init has words")],
    "class_specific": [Flag()],
    "class_position": [Choice(("end", "middle", "front"))],
    "context_init": [Text(), Nothing("random vectors")],
    "epochs": [Number(0, whole=True), Nothing("by the number of shots")],
    "batch_size": [Number(1, whole=True)],
    "learning_rate": [Number(0, open=True)],
    "momentum": [Number(0, 1)],
    "weight_decay": [Number(0)],
    "warm_up": [Number(0), Nothing("no warm-up")],
    "logit_scale": [Number(0, open=True), Nothing("the model's own")],
    "mixed_precision": [Flag()],
    "memory_mib": [Number(0, open=True), Nothing("as much as it takes")],
    "device": [Text(), Nothing("the fastest there is, or where the encoder is")],
    "checkpoint": [_File(), Nothing("not written")],
    "progress": [Flag(), Callback(), Nothing("silent")],
    "random_state": [Seed()],
}
