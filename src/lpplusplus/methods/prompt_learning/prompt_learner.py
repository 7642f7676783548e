"""The base of the prompt learners: class names and context vectors go through the text tower, images are embeddings.

    t_k(v) = unit(tower([start] v₁ … v_M name_k . [end])),   logits = s · f · t_k(v),   f unit

Only v is trained; the model stays as it is, and its image tower is not used. A method differs from the others in its
loss (`_loss`), in its gradient (`_backward`), in how it compares images with text (`_scores`) or in where v begins.
"""

import math
from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ..._core import backend, checks
from ..._core.backend import Array
from ..._core.base import FewShotClassifier
from ..._core.history import History
from ..._core.parameters import CALLBACK, FLAG, SEED, TEXT, Rule, choice, nothing, number, with_parameters
from ..._core.progress import Progress
from ..._core.seeds import generator
from ..._core.task import Task
from ...encoders.base import EncoderError
from ...encoders.class_text import DEFAULT_TEMPLATE, check_templates, class_texts
from ...encoders.open_clip import OpenClipEncoder
from ..training.checkpoint import Checkpoint, identity
from ..training.data import TrainingData, require_torch, tensor
from ..training.finetune import epoch_by, finetune
from ..training.schedule import Schedule, cosine_by_epoch, epochs_by_shots
from .context_prompts import ContextPrompts, prompt_names
from .progress_bar import progress_bar
from .text_tower import TextTower

N_CONTEXT = 16
"""Number of context vectors by default."""
SPREAD = 0.02
"""Standard deviation of random context vectors."""
SCHEME = "open_clip:"


class Batch(NamedTuple):
    """Some training images, and the present state of the prompts."""

    images: Any
    """(n, D) unit embeddings; with their places, (n, 1 + L, D), for PLOT."""
    y: Any
    context: Any
    """The parameters."""
    text: Any
    """(K, D) unit features of the learned prompts; for PLOT (P, K, D), not normalised."""
    hand: Any
    """(K, D) unit features of the hand-written prompts, or `text` of `fit`."""
    logits: Any


def _are_templates(value: Any) -> bool:
    try:
        return bool(check_templates(value))
    except (ValueError, TypeError):
        return False


@with_parameters
class PromptLearner(FewShotClassifier):
    """Base of the prompt learners; see the module's docstring. The parameters are described in `CoOp`."""

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD", "context_": "CMW"}
    fitted_scalars: ClassVar[dict[str, str]] = {
        "epoch_": "number", "logit_scale_": "factor", "encoder_": "word", "fingerprint_": "word",
    }  # fmt: skip
    normalize = True
    needs_torch = True
    black_box = False

    encoder: Annotated[
        str | OpenClipEncoder,
        Rule(lambda x: isinstance(x, OpenClipEncoder), "an OpenClipEncoder"),
        Rule(lambda x: isinstance(x, str) and bool(x), f"its spec, {SCHEME}ARCH/PRETRAINED"),
    ]
    class_names: Annotated[
        Sequence[str] | None,
        Rule(lambda x: isinstance(x, Sequence) and not isinstance(x, str), "a list of names, one per class"),
        nothing("the labels"),
    ] = None
    templates: Annotated[
        str | tuple[str, ...],
        Rule(_are_templates, f'one or several texts with {{}} exactly once each, such as "{DEFAULT_TEMPLATE}"'),
    ] = DEFAULT_TEMPLATE
    n_context: Annotated[
        int | None, number(1, whole=True), nothing(f"{N_CONTEXT}, or as many as context_init has words")
    ] = None
    class_specific: Annotated[bool, FLAG] = False
    class_position: Annotated[str, choice(("end", "middle", "front"))] = "end"
    context_init: Annotated[str | None, TEXT, nothing("random vectors")] = None
    epochs: Annotated[int | None, number(0, whole=True), nothing("by the number of shots")] = None
    batch_size: Annotated[int, number(1, whole=True)] = 32
    learning_rate: Annotated[float, number(0, open=True)] = 2e-3
    momentum: Annotated[float, number(0, 1)] = 0.9
    weight_decay: Annotated[float, number(0)] = 5e-4
    warm_up: Annotated[float | None, number(0), nothing("no warm-up")] = 1e-5
    logit_scale: Annotated[float | None, number(0, open=True), nothing("the model's own")] = None
    mixed_precision: Annotated[bool, FLAG] = True
    memory_mib: Annotated[float | None, number(0, open=True), nothing("as much as it takes")] = None
    device: Annotated[str | None, TEXT, nothing("the fastest there is, or where the encoder is")] = None
    checkpoint: Annotated[
        str | PathLike[str] | None,
        Rule(lambda x: isinstance(x, str | PathLike) and bool(x), "the name of a file"),
        nothing("not written"),
    ] = None
    progress: Annotated[bool | Progress | None, FLAG, CALLBACK, nothing("silent")] = None
    random_state: Annotated[Any, SEED] = 0

    # What a method may do differently ----------------------------------------------------------------------------

    def _loss(self, batch: Batch) -> Any:
        """The loss of a batch; here the cross-entropy."""
        import torch

        return torch.nn.functional.cross_entropy(batch.logits, batch.y)

    def _backward(self, batch: Batch) -> Any:
        """Leave the gradient of a batch in its context; returns the loss."""
        loss = self._loss(batch)
        loss.backward()
        return loss

    def _text(self, prompts: ContextPrompts, context: Any) -> Any:
        """Features of the learned prompts; here (K, D), unit."""
        import torch

        return torch.nn.functional.normalize(prompts(context), dim=-1)

    def _scores(self, F: Array, text: Array) -> Array:
        """Logits of unit images."""
        return self.logit_scale_ * (F @ text.T)

    def _first_words(self) -> str | None:
        """Words that the context begins as; None for noise."""
        return self.context_init

    def _context_length(self, words: int) -> int:
        """M, for a context that begins with this many words."""
        return self.n_context or words or N_CONTEXT

    def _context_shape(self, n_classes: int) -> tuple[int, ...]:
        """How many contexts there are: the shape of `context_` before (M, W)."""
        return (n_classes if self.class_specific else 1,)

    def _set_fitted(self, context: Any, text: Any, like: Array) -> None:
        """Set the fitted arrays, in the library, on the device and in the precision of `like`."""
        self.context_ = backend.like(context.detach(), like, dtype=like.dtype)
        self.coef_ = self.logit_scale_ * backend.like(text.detach(), like, dtype=like.dtype)

    def _logits(self, X: Array) -> Array:
        coef = backend.like(self.coef_, X)
        return backend.unit_rows(backend.cast(X, coef.dtype)) @ coef.T

    def _count_parameters(self) -> int:
        return math.prod(self.context_.shape)

    # What they share -----------------------------------------------------------------------------------------------

    def _fit_task(self, task: Task) -> None:
        torch = require_torch(type(self).__name__)
        encoder = self._opened()
        self._check_images_of(task, encoder)
        self.history_ = History()
        names = prompt_names(self._labels, self.class_names)
        half = torch.float16 if self.mixed_precision and encoder.device.type == "cuda" else None
        tower = TextTower(encoder, half)
        rng = generator(self.random_state)
        context, fixed = self._start(tower, len(names), rng)
        context.requires_grad_()
        prompts = self._prompts(tower, names, context.shape[-2] + len(fixed), fixed)
        self.encoder_, self.fingerprint_ = encoder.spec, encoder.fingerprint
        own_scale = float(torch.as_tensor(encoder.model.logit_scale).exp())
        self.logit_scale_ = own_scale if self.logit_scale is None else float(self.logit_scale)
        texts = class_texts(encoder, names, self.templates) if task.text is None else task.text
        self.text_ = backend.copy(backend.like(texts, task.X, dtype=task.X.dtype))
        hand = tensor(self.text_, encoder.device, tower.dtype)

        def backward(images: Any, y: Any) -> float:
            text = self._text(prompts, context)
            return float(self._backward(Batch(images, y, context, text, hand, self._scores(images, text))).detach())

        with progress_bar(self.progress, type(self).__name__, self.history_) as progress:
            self.epoch_ = finetune(
                [context],
                lambda images: self._scores(images, self._text(prompts, context)),
                TrainingData.of(task, unit=True, device=encoder.device, dtype=tower.dtype),
                self._schedule(task),
                seed=int(rng.integers(2**31)),
                history=self.history_,
                progress=progress,
                backward=backward,
                checkpoint=self._checkpoint(task),
            )
        self.chosen_ = epoch_by(task)
        with torch.no_grad():
            self._set_fitted(context, self._text(prompts, context), task.X)

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

    def _check_images_of(self, task: Task, encoder: OpenClipEncoder) -> None:
        """Raise for images that the encoder cannot have embedded."""
        if encoder.dim != self.n_features_in_:
            raise ValueError(
                f"X has {self.n_features_in_} columns but {encoder.spec} gives {encoder.dim}: embed the images with "
                f"the encoder whose prompts are learned."
            )
        checks.check_no_zero_rows(task.X, "X")
        if task.X_val is not None:
            checks.check_no_zero_rows(task.X_val, "X_val")

    def _start(self, tower: TextTower, n_classes: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Where the context begins, (…, M, W), and what stays fixed between it and the name, (e, W).

        It begins at noise, or at a phrase in the last slots with zeros before it. As in the authors' programs, a
        phrase of n words sets n vectors to its first n tokens. With punctuation it has more, and these stay fixed.
        """
        import torch

        shape, phrase = self._context_shape(n_classes), self._first_words()
        if phrase is None:
            size = (*shape, self._context_length(0), tower.width)
            noise = torch.from_numpy(rng.normal(0, SPREAD, size)).to(tower.device, tower.dtype)
            return noise, noise.new_empty((0, tower.width))
        written = phrase.replace("_", " ")
        tokens = tower.embed(tower.word_tokens(written)).detach()
        words = min(len(written.split()), len(tokens))
        if not len(tokens):
            raise ValueError(f"context_init={phrase!r} has no words: write some, such as 'a photo of a', or None.")
        count = self._context_length(words)
        if count < words:
            raise ValueError(
                f"context_init={phrase!r} has {words} words for n_context={count} vectors: shorten it, or leave "
                f"n_context=None."
            )
        padded = torch.nn.functional.pad(tokens[:words], (0, 0, count - words, 0))
        return padded.expand(*shape, -1, -1).clone(), tokens[words:]

    def _prompts(self, tower: TextTower, names: list[str], n_places: int, fixed: Any) -> ContextPrompts:
        prompts = ContextPrompts(tower, names, n_places, self.class_position, fixed=fixed, memory_mib=self.memory_mib)
        pair = None if self.class_specific else prompts.same_names()
        if pair is None:
            return prompts
        first, second = (str(self._labels[i]) for i in pair)
        same = f"classes {first!r} and {second!r} read the same in a prompt: no shared context can tell them apart"
        if self.class_names is None:
            raise ValueError(f"{same}. Rename one, give class_names=, or set class_specific=True.")
        self.history_.note(same)
        return prompts

    def _schedule(self, task: Task) -> Schedule:
        import torch

        epochs = epochs_by_shots(task.fewest_shots) if self.epochs is None else self.epochs
        sgd = partial(torch.optim.SGD, momentum=self.momentum, weight_decay=self.weight_decay)
        warm_up = None if self.warm_up is None else self.warm_up / self.learning_rate
        remedy = ", or on a GPU set mixed_precision=False" if self.mixed_precision else ""
        return Schedule(epochs, self.batch_size, self.learning_rate, sgd, cosine_by_epoch(epochs, warm_up), remedy)

    def _checkpoint(self, task: Task) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        # Where and how it is computed may change between runs. A generator's state is in the file.
        free = {"encoder", "device", "memory_mib", "checkpoint", "progress"}
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        if not isinstance(self.random_state, int | np.integer):
            del settings["random_state"]
        settings |= {"method": type(self).__name__, "weights": self.fingerprint_, "classes": self._labels.tolist()}
        stack = task.X if task.views is None else task.views
        arrays = {"X": stack, "y": task.y, "X_val": task.X_val, "y_val": task.y_val, "text": self.text_}
        return Checkpoint(self.checkpoint, identity(settings, arrays))
