"""CoOp, and the base of the other prompt learners: context vectors beside the class name, through the text tower.

    t_k(v) = unit(tower([start] v₁ … v_M name_k . [end])),   logits = s · f · t_k(v),   f unit

Only v is trained; the model stays as it is, and its image tower is not used. A method differs from the others in its
loss (`_loss`), in its gradient (`_backward`), in how it compares images with text (`_scores`) or in where v begins.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from .._core import backend, checks
from .._core.backend import Array
from .._core.history import History
from .._core.parameters import (
    CALLBACK,
    FLAG,
    SEED,
    TEXT,
    Progress,
    Rule,
    choice,
    generator,
    nothing,
    number,
    with_parameters,
)
from .._core.task import Task
from ..encoders.base import EncoderError
from ..encoders.class_text import DEFAULT_TEMPLATE, check_templates, class_texts
from ..encoders.open_clip import OpenClipEncoder
from ._prompts import ContextPrompts, TextTower, prompt_names
from ._training import Checkpoint, Schedule, TorchTrained, cosine, epochs_by_shots, require_torch, tensor

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
class CoOp(TorchTrained):
    """Learn M vectors to put before every class name, so that each prompt is closest to the images of its class.

    Not black-box: needs an open_clip model, whose text tower runs forward and backward for all classes at every step.
    Images are embeddings, computed once. The epoch with the best validation accuracy is kept; without validation data,
    the last. Needs `pip install "lpplusplus[torch]"` to fit; prediction needs numpy only.

    Hand-written prompts are `text` in `fit`, else `templates`. CoOp only keeps them, as `text_`; `KgCoOp` and
    `ProGrad` train with them.

    Parameters
    ----------
    encoder : str or OpenClipEncoder
        The model that the images were embedded with: "open_clip:ARCH/PRETRAINED", or opened already.
    class_names : list of str, optional
        What prompts call the classes, in the order of `classes` in `fit`. By default the labels, which must then be
        names that read differently; given names may repeat.
    templates : str or sequence of str
        Hand-written prompts, with {} for the name.
    n_context : int, optional
        M; by default 16, or the number of words of `context_init`. If M is larger, the words are the last vectors, with
        zeros before them.
    class_specific : bool
        Learn separate vectors for each class, rather than the same for all.
    class_position : {"end", "middle", "front"}
        Where the name stands.
    context_init : str, optional
        A phrase to begin with, such as "a photo of a"; by default noise of standard deviation 0.02. As in the authors'
        program, words are counted at spaces: "pet, a" is two words but three tokens, so the context begins at the first
        two, and the last one stays as it is, before the name.
    epochs : int, optional
        By default 50 for one shot, 100 for less than eight, 200 from there on.
    batch_size : int
    learning_rate, momentum, weight_decay : float
        Parameters of SGD; the learning rate falls along a cosine, epoch by epoch.
    warm_up : float, optional
        Learning rate of the first epoch.
    logit_scale : float, optional
        Factor of the cosines; by default the model's own, 100 for OpenAI's.
    mixed_precision : bool
        On a GPU, run the text tower in half precision, as the authors do. On a CPU it is always single.
    memory_mib : float, optional
        Memory for the text tower's activations, in MiB. If all classes need more, they are computed in chunks, and
        twice, which takes a third more time.
    device : str, optional
        Where to open an encoder that is given by its name.
    checkpoint : path, optional
        A file that is written after each epoch. If it exists, an interrupted fit goes on from there, and ends as if it
        had not been interrupted; a file of another fit is refused.
    progress : bool or callable, optional
        True for a bar with loss, validation accuracy and time left; or a function, called as `progress(done, total)`
        after each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Random vectors and order of the batches.

    Attributes
    ----------
    context_ : (1 or K, M, W) array
        The vectors.
    coef_ : (K, D) array
        logit_scale_ · t_k, the resulting text classifier.
    text_ : (K, D) array
        Unit features of the hand-written prompts.
    logit_scale_ : float
    epoch_ : int
        The epoch that was kept.
    encoder_, fingerprint_ : str
        The model whose text tower was used.
    history_ : History
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import CoOp
    >>> model = CoOp(encoder="open_clip:RN50/openai", epochs=50, progress=True)
    >>> model.fit(X, y, classes=names, X_val=X_val, y_val=y_val).score(X_test, y_test)  # doctest: +SKIP
    """

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "text_": "KD", "context_": "CMW"}
    fitted_scalars: ClassVar[dict[str, str]] = {
        "epoch_": "number", "logit_scale_": "factor", "encoder_": "word", "fingerprint_": "word",
    }  # fmt: skip
    normalize = True
    trained_arrays = ("context_",)
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
    progress: Annotated[bool | Progress | None, FLAG, CALLBACK, nothing("silent")] = None  # type: ignore[assignment]
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

        with _progress_bar(self.progress, type(self).__name__, self.history_) as progress:
            self._train(
                task,
                [context],
                lambda images: self._scores(images, self._text(prompts, context)),
                self._schedule(task),
                seed=int(rng.integers(2**31)),
                progress=progress,
                backward=backward,
                checkpoint=self._checkpoint(task),
            )
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
        epochs = epochs_by_shots(task.fewest_shots) if self.epochs is None else self.epochs
        factor = cosine(epochs, None if self.warm_up is None else self.warm_up / self.learning_rate, by_epoch=True)
        options = {"momentum": self.momentum, "weight_decay": self.weight_decay}
        remedy = ", or on a GPU set mixed_precision=False" if self.mixed_precision else ""
        return Schedule(epochs, self.batch_size, self.learning_rate, factor, "SGD", options, remedy)

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
        return Checkpoint(self.checkpoint, settings, arrays)


@contextmanager
def _progress_bar(progress: bool | Progress | None, name: str, history: History) -> Iterator[Progress | None]:
    """What to call after each epoch: the caller's own function, a bar on standard error for True, or nothing."""
    if progress is not True:
        yield progress or None
        return
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]  # open_clip depends on it.

    with tqdm(desc=name, unit="epoch") as bar:

        def update(done: int, total: int) -> None:
            if bar.total is None:
                bar.reset(total)
                bar.initial = bar.n = done - 1  # Epochs done before an interruption do not count for the speed.
            last = {"loss": f"{history['loss'][-1]:.3f}"}
            if "validation_accuracy" in history.columns:
                last["validation"] = f"{history['validation_accuracy'][-1]:.1%}"
            bar.set_postfix(last, refresh=False)
            bar.update(done - bar.n)

        yield update
