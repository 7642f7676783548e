"""From a folder of images to a trained, saved classifier, with any encoder."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from .._core.class_prompts import check_text
from .._core.parameters import Progress
from ..encoders import DEFAULT_ENCODER, Encoder, EncoderError, open_encoder
from ..encoders.class_text import DEFAULT_TEMPLATE, check_templates
from ..encoders.pixels.decoding import ImageError
from ..probe.estimator import LPPlusPlus
from .answers import PROBABILITIES, Answers, Question, answers, check_question
from .embeddings import Embeddings, Origin
from .errors import SourceError
from .hold_out import Study
from .insight import Insight
from .opening import check_no_class_lost, class_text, embed_source, open_source, refuse_another, select
from .saving import Saving
from .trained import Trained
from .training_data import TrainingData

__all__ = ["EncoderError", "ImageClassifier", "ImageError", "SourceError"]


class ImageClassifier(Trained, Saving):
    """Learns classes of images from a few labelled images per class.

    Parameters
    ----------
    encoder : str or Encoder, optional
        What turns images and class names into embeddings: "embedded" (small, of photos, offline), "clip",
        "clip-large", "onnx:FOLDER-OR-HUB-ID", "open_clip:ARCH/PRETRAINED", the address of an embedding service, or an
        `Encoder`. By default the encoder that made the feature store which is trained on, else "embedded".
    template : str or list of str
        Sentence with {} for the class name; "@satellite" and other subjects (`encoders.class_text.SUBJECTS`) stand for
        several. With several, `LPPlusPlus` lets the images decide how much each counts, other methods average.
    method : estimator, optional
        The method to fit on the embeddings, by default `LPPlusPlus()`. It is cloned, not changed.
    views : int
        Train on this many random crops of each image instead of its centre. Methods that do not train on views
        average them.
    on_error : {"stop", "skip"}
        What to do about an image that cannot be read.
    progress : callable, optional
        Called as `progress(done, total)` while images are embedded.
    allow_network : bool
        Let an encoder use the network even if you did not name it yourself, but a file did: a feature store, or a saved
        classifier. It may send your images to a service, or fetch a model.

    Attributes
    ----------
    classifier_ : estimator
        The fitted method.
    classes_ : (K,) numpy array
        Labels: folder names, what the manifest says, or those of a list (strings, or whole numbers if `y` has such).
    names_ : tuple of str
        What the classes are called in prompts.
    origin_ : Origin or None
        The encoder it was trained with. None after training on a file of arrays, which does not name its encoder.
    training_data_ : TrainingData
        Photos and names that it was trained on. Missing if the classifier was saved without them.
    support_, validation_ : Embeddings
        The photos of `training_data_`; `validation_` is None without validation.
    class_text_ : (K, D) array or None
        Embeddings of the class names, averaged over the templates. Of `training_data_`.
    already_there_ : int
        Number of photos that the last `add` or `merge` left out because the classifier has them already.
    insight_ : Insight
        What `look_into` found out about the training. Saved with the classifier.
    study_, held_out_ : Study, Answers or None
        What `look_into` measured, and the answers about the images that it left out. Not saved.

    Examples
    --------
    >>> from PIL import Image
    >>> from lpplusplus.images import ImageClassifier
    >>> photos = [Image.new("RGB", (64, 64), colour) for colour in ("red", "darkred", "blue", "navy")]
    >>> clf = ImageClassifier(template="a {} square").fit(photos, ["red", "red", "blue", "blue"])
    >>> clf.predict([Image.new("RGB", (64, 64), "red")])
    array(['red'], dtype='<U4')
    """

    classifier_: FewShotClassifier
    classes_: NDArray[Any]
    names_: tuple[str, ...]
    origin_: Origin | None
    training_data_: TrainingData
    already_there_: int
    insight_: Insight
    study_: Study | None
    _seen: frozenset[bytes]
    """Digests of the images it was trained on."""
    _where: str | Encoder
    """Where the encoder of the fitted classifier is."""
    _prompts: tuple[str, ...]
    """The templates of the fitted classifier, whatever `template` is now."""
    _named_by: dict[str, str]
    """Encoders that a file named, not the user, and the file."""

    def __init__(
        self,
        encoder: str | Encoder | None = None,
        *,
        template: str | Sequence[str] = DEFAULT_TEMPLATE,
        method: FewShotClassifier | None = None,
        views: int = 0,
        on_error: Literal["stop", "skip"] = "stop",
        progress: Progress | None = None,
        allow_network: bool = False,
    ) -> None:
        self.encoder = encoder
        self.template = template
        self.method = method
        self.views = views
        self.on_error = on_error
        self.progress = progress
        self.allow_network = allow_network
        self._opened: dict[str, Encoder] = {}
        self._named_by: dict[str, str] = {}

    def fit(
        self,
        source: Any,
        y: Any = None,
        *,
        val: Any = None,
        y_val: Any = None,
        names: Mapping[str, str] | None = None,
        shots: int | None = None,
        seed: int = 0,
        store: str | os.PathLike[str] | None = None,
        allow_empty: bool = False,
        unlabelled: Any = None,
    ) -> "ImageClassifier":
        """Train on images, a feature store, or a file of arrays.

        Parameters
        ----------
        source
            A folder per class, a `.zip` file of one, a `.csv` or `.jsonl` manifest, a list of paths or Pillow images
            with labels `y`, a feature store, an `.npz` or `.safetensors` file of arrays, or what `open_images` or
            `embed` returned.
        y
            Labels of a list.
        val, y_val
            Validation images of the same kinds. Not needed.
        names
            Display name of each label, in the order of the classes.
        shots, seed
            Train on this many images per class, chosen by `seed`; by default on all.
        store
            Feature store to read embeddings from and write them to.
        allow_empty
            Keep class folders without images, as classes known by their name only.
        unlabelled
            More images, given in the same ways; labels are ignored. They are used only if that lowers the loss of
            held-out images; `classifier_.n_unlabelled_` says how many were. Only with `LPPlusPlus`.
        """
        templates = check_templates(self.template)
        where = DEFAULT_ENCODER if self.encoder is None else self.encoder
        y = y if y is None or isinstance(y, np.ndarray) else list(y)  # It may be an iterator.
        opened = open_source(source, y, allow_empty=allow_empty, part="train")
        opened = select(opened, names=names, shots=shots, seed=seed, training=True)
        support = self._embed_opened(opened, lambda: self._open(where), views=int(self.views), store=store)
        if not allow_empty:
            check_no_class_lost(opened, support)
        if self.encoder is None and support.origin is not None:
            where = support.origin.spec
            if where != DEFAULT_ENCODER:
                self._named_by[where] = support.source
        encoder = partial(self._encoder_of, support.origin, where)
        same: dict[str, Any] = {"required_origin": support.origin, "owner": support.source}
        validation = None
        if val is not None:
            held = open_source(val, y_val, allow_empty=True, part="val")
            validation = self._embed_opened(held, encoder, **same)
        method = LPPlusPlus() if self.method is None else self.method
        free = None
        if unlabelled is not None:
            if not isinstance(method, LPPlusPlus):
                raise SourceError(f"{type(method).__name__} learns from labelled images only: leave out unlabelled.")
            more = open_source(unlabelled, labels=False, allow_empty=True, part="test")
            free = self._embed_opened(more, encoder, **same).without({*support.digests()}).rows
        text = class_text(support, lambda: self._open(where), templates)
        self._learn(TrainingData(support, validation, text, free if free is not None and len(free) else None), method)
        self.classes_ = _as_given(self.classifier_.classes_, y)
        self._where, self._prompts = where, templates
        return self

    def _learn(self, data: TrainingData, method: FewShotClassifier) -> None:
        """Train, and set all that follows from the photos and names."""
        self.classifier_ = data.fitted(method)
        self.classes_, self.names_, self.origin_ = self.classifier_.classes_, data.support.names, data.support.origin
        self.training_data_, self._seen = data, frozenset(data.support.digests())
        for about_the_one_before in ("insight_", "study_"):
            vars(self).pop(about_the_one_before, None)

    @property
    def support_(self) -> Embeddings:
        """What it was trained on."""
        return self.training_data_.support

    @property
    def validation_(self) -> Embeddings | None:
        """What it was validated on; None without validation."""
        return self.training_data_.validation

    @property
    def class_text_(self) -> NDArray[np.float32] | None:
        """Embeddings of the class names, averaged over the templates."""
        text = self.training_data_.text
        return text if text is None or text.ndim == 2 else check_text(text)[0]

    def _training_data(self, owner: str = "this classifier") -> TrainingData:
        """What it was trained on, if it was saved with it."""
        self._check_fitted()
        if not hasattr(self, "training_data_"):
            raise SourceError(
                f"{owner} no longer has its training images, not even their embeddings: it was saved without them "
                f"(--no-support) or by an earlier version, so train it again on the photos."
            )
        return self.training_data_

    def predict(
        self,
        images: Any,
        *,
        only: Sequence[str] = (),
        prior: Mapping[str, float] | Literal["auto"] | None = None,
    ) -> NDArray[Any]:
        """Most likely label of each image: a folder, a manifest, a list, a feature store or a file of arrays.

        Parameters
        ----------
        images
            Of any kind that `fit` takes.
        only
            The labels that the images can have; by default all.
        prior
            How frequent each label is among the images: numbers that need not sum up to 1. "auto" finds that out from
            the images; it needs eight training images per class. By default as frequent as in the training.

        Notes
        -----

        With `on_error="skip"` there is no answer for an image that cannot be read. A warning says how many are missing,
        and `embed(images).paths` names the images that have an answer.
        """
        best = self.predict_proba(images, only=only, prior=prior).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(
        self,
        images: Any,
        *,
        only: Sequence[str] = (),
        prior: Mapping[str, float] | Literal["auto"] | None = None,
    ) -> NDArray[Any]:
        """Probability of each class, (n, K), in the order of `classes_`, for images as in `predict`."""
        known = {str(label): count for label, count in prior.items()} if isinstance(prior, Mapping) else prior
        return self._asked(images, Question(only=[str(label) for label in only], prior=known)).probabilities

    def predict_set(self, images: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """A set of classes for each image, (n, K) booleans in the order of `classes_`.

        The right class is in the set with probability `coverage`. Images as in `predict`, or what `embed` returned. See
        `LPPlusPlus.predict_set`; it needs two images per class or validation images.
        """
        return np.asarray(self._asked(images, Question(sets=coverage)).sets)

    def none_of_these(
        self, images: Any, false_alarms: float = 0.05, *, other_names: Sequence[str] = ()
    ) -> NDArray[np.bool_]:
        """Whether an image shows none of the classes, (n,).

        Parameters
        ----------
        images
            As in `predict`, or what `embed` returned.
        false_alarms
            The fraction of images of the classes that may be rejected.
        other_names
            Names of other things that may be on the images.
        """
        return np.asarray(self._asked(images, Question(none=false_alarms, other_names=tuple(other_names))).none)

    def _asked(self, images: Any, question: Question = PROBABILITIES) -> Answers:
        """The answers about those images that can be read, with a warning about the others."""
        self._check_fitted()
        check_question(self, question)
        embedded = self.embed(images)
        if embedded.skipped and embedded is not images:
            warnings.warn(
                f"{len(embedded.skipped)} image(s) cannot be read and have no answer, {embedded.skipped[0]} first: "
                f"there are {len(embedded)} answers, in the order of the others. embed(...).paths names these.",
                stacklevel=3,
            )
        return answers(self, embedded, question)

    def embed(self, images: Any, y: Any = None, *, labels: bool = False) -> Embeddings:
        """Embeddings of images by the encoder that this classifier was trained with.

        Parameters
        ----------
        images
            Of any kind that `fit` takes.
        y
            Labels of a list, for `evaluate`.
        labels
            Whether labels are needed; always if `y` is given.
        """
        self._check_fitted()
        opened = open_source(images, y, labels=labels or y is not None, allow_empty=True, part="test")
        return self._embed_own(opened)

    def open_encoder(self) -> Encoder:
        """The encoder that this classifier was trained with, opened; another model with the same name is refused."""
        self._check_fitted()
        opened = self._own_encoder()
        refuse_another(self.origin_, Origin.of(opened), "this classifier", "the encoder given now")
        return opened

    @property
    def is_open(self) -> bool:
        """Whether its encoder is open."""
        return isinstance(self._where, Encoder) or self._where in self._opened

    def _open(self, where: str | Encoder) -> Encoder:
        if isinstance(where, Encoder):
            return where
        if not isinstance(where, str):
            raise TypeError(
                f"encoder is {where!r}: give a name such as 'embedded', or an object of a subclass of "
                f"lpplusplus.encoders.base.Encoder."
            )
        if where not in self._opened:
            named_by = self._named_by.get(where)
            self._opened[where] = open_encoder(where, named_by=named_by, allow_network=self.allow_network)
        return self._opened[where]

    def _embed_opened(self, opened: Any, encoder: Callable[[], Encoder], **about: Any) -> Embeddings:
        return embed_source(opened, encoder, on_error=self.on_error, progress=self.progress, **about)

    def _embed_own(self, opened: Any, **about: Any) -> Embeddings:
        """Embeddings by the encoder that it was trained with."""
        return self._embed_opened(opened, self._own_encoder, required_origin=self.origin_, **about)

    def _own_encoder(self) -> Encoder:
        return self._encoder_of(self.origin_, self._where)

    def _encoder_of(self, origin: Origin | None, where: str | Encoder) -> Encoder:
        """The encoder for more images, if the encoder of the training embeddings is known."""
        if origin is None:
            raise SourceError(
                "this classifier was trained on a file of arrays, which does not say how they were made: give it "
                "embeddings of the same kind (.npz, .safetensors), not images."
            )
        return self._open(where)

    def _check_fitted(self) -> None:
        if not hasattr(self, "classifier_"):
            raise SourceError("this ImageClassifier is not trained yet: call fit first.")


def _as_given(classes: NDArray[Any], y: Any) -> NDArray[Any]:
    """Labels as the user's list had them: whole numbers come back as such."""
    return classes.astype(np.int64) if y is not None and np.asarray(y).dtype.kind in "iu" else classes
