"""From a folder of images to a trained, saved classifier, with any encoder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .base import FewShotClassifier
from .embedding import Progress
from .encoders import Encoder, EncoderError, open_encoder
from .encoders.prompts import DEFAULT_TEMPLATE, check_templates, class_texts
from .evaluation import Evaluation, evaluate
from .gathering import Gathered, Origin, gather
from .insight import Insight, look_into
from .persistence import ModelFormatError, load
from .probe import LPPlusPlus
from .sources import SourceError

__all__ = ["EncoderError", "ImageClassifier", "SourceError"]


class ImageClassifier:
    """A few labelled images a class in, a classifier of images out.

    Parameters
    ----------
    encoder : str or Encoder
        What embeds images and class names: "embedded" (a small demonstration model, offline), "onnx:FOLDER-OR-HUB-ID",
        "open_clip:ARCH/PRETRAINED", the address of an embedding service, or an `Encoder`.
    template : str or list of str
        Sentence with {} for the class name; the embeddings of several are averaged.
    method : estimator, optional
        What to fit on the embeddings; `LPPlusPlus()` by default. It is cloned, not changed.
    views : int
        Embed this many random crops of each training image instead of its centre. Methods that do not train on views
        average them.
    on_error : {"stop", "skip"}
        What to do about a bad image.
    progress : callable, optional
        Told `(done, total)` while images are embedded.

    Attributes
    ----------
    classifier_ : estimator
        The fitted method.
    classes_ : (K,) numpy array
        Labels: folder names, what the manifest says, or those of a list: strings, or whole numbers if `y` has such.
    names_ : tuple of str
        What the classes are called in prompts.
    origin_ : Origin or None
        The encoder it was trained with; None after training on a file of arrays, which does not say.
    support_, validation_ : Gathered
        What it was trained and validated on (None without validation); not saved.
    class_text_ : (K, D) array or None
        Embeddings of the class names; not saved, though a method may keep them.
    insight_ : Insight
        What training found out, after `look_into`; it is saved with the classifier.

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
    support_: Gathered
    validation_: Gathered | None
    class_text_: NDArray[np.float32] | None
    insight_: Insight
    _where: str | Encoder
    """Where the encoder of the fitted classifier is."""
    _prompts: tuple[str, ...]
    """The templates of the fitted classifier, whatever `template` is now."""
    _views: int

    def __init__(
        self,
        encoder: str | Encoder = "embedded",
        *,
        template: str | Sequence[str] = DEFAULT_TEMPLATE,
        method: FewShotClassifier | None = None,
        views: int = 0,
        on_error: Literal["stop", "skip"] = "stop",
        progress: Progress | None = None,
    ) -> None:
        self.encoder = encoder
        self.template = template
        self.method = method
        self.views = views
        self.on_error = on_error
        self.progress = progress
        self._opened: dict[str, Encoder] = {}

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
    ) -> ImageClassifier:
        """Train on images, a feature store, or a file of arrays.

        Parameters
        ----------
        source
            A folder per class, a `.csv` or `.jsonl` manifest, a list of paths or Pillow images with labels `y`, a
            feature store, or an `.npz` or `.safetensors` file of arrays.
        y
            Labels of a list.
        val, y_val
            Validation images of the same kinds. Not needed.
        names
            What to call each label, in the order that the classes shall have.
        shots, seed
            Train on this many images of each class, chosen by `seed`; by default on all.
        store
            Folder to keep the embeddings in and to take them from.
        allow_empty
            Keep class folders without images, as classes known by their name only.
        """
        templates = check_templates(self.template)
        options: dict[str, Any] = {"on_error": self.on_error, "progress": self.progress}
        support = gather(
            source,
            lambda: self._open(self.encoder),
            y=y,
            training=True,
            names=names,
            allow_empty=allow_empty,
            shots=shots,
            seed=seed,
            views=int(self.views),
            store=store,
            **options,
        )
        where = self.encoder
        if support.origin is not None and where == "embedded":
            where = support.origin.spec  # A feature store knows its encoder; nobody has to name it again.
        validation = None
        extra: dict[str, Any] = {}
        if val is not None:
            validation = gather(val, lambda: self._encoder_for(support.origin, where), y=y_val, **options)
            _check_same(support.origin, validation.origin, _called(source), _called(val))
            extra = {"X_val": validation.rows, "y_val": validation.labels}
        text = support.text
        if text is None and support.origin is not None:
            text = class_texts(self._encoder_for(support.origin, where), support.names, templates)
        model = LPPlusPlus() if self.method is None else clone(self.method)
        model.fit(support.X, support.labels, text=text, classes=list(support.classes), **extra)
        self.classifier_, self.classes_, self.names_ = model, _as_given(model.classes_, y), support.names
        self.origin_, self.support_, self.validation_ = support.origin, support, validation
        self.class_text_, self._where, self._prompts, self._views = text, where, templates, support.views
        if hasattr(self, "insight_"):
            del self.insight_  # It was about the classifier before.
        return self

    def look_into(self, progress: Progress | None = None) -> Insight:
        """Measure what was learned, on the validation data or by cross-validation, and look for odd classes."""
        self._check_fitted()
        if not hasattr(self, "support_"):
            raise SourceError("a loaded classifier no longer has its training images: see its metadata instead.")
        self.insight_ = look_into(self.classifier_, self.support_, self.class_text_, self.validation_, progress)
        return self.insight_

    def predict(self, images: Any) -> NDArray[Any]:
        """Most likely label of each image: a folder, a manifest, a list, a feature store or a file of arrays.

        With `on_error="skip"` there is no answer for an image that cannot be read, and a warning says how many are
        missing; `embed` tells which.
        """
        best = self.predict_proba(images).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, images: Any) -> NDArray[Any]:
        """Probability of each class, (n, K), in the order of `classes_`; of images as in `predict`."""
        found = self.embed(images)
        if found.skipped:
            warnings.warn(
                f"{len(found.skipped)} image(s) cannot be read and have no answer, {found.skipped[0]} first: there are "
                f"{len(found)} answers, in the order of the others. embed(...).paths says which these are.",
                stacklevel=2,
            )
        return self.probabilities(found)

    def embed(self, images: Any, y: Any = None, *, labels: bool = False) -> Gathered:
        """Embeddings of images by the encoder that this classifier was trained with.

        Parameters
        ----------
        images
            Of any kind that `fit` takes.
        y
            Labels of a list, for `evaluate`.
        labels
            Whether labels are wanted; they are where `y` is given.
        """
        self._check_fitted()
        found = gather(
            images,
            lambda: self._encoder_for(self.origin_, self._where),
            y=y,
            labels=labels or y is not None,
            on_error=self.on_error,
            progress=self.progress,
        )
        _check_same(self.origin_, found.origin, "this classifier", _called(images))
        return found

    def probabilities(self, found: Gathered) -> NDArray[Any]:
        """Probability of each class for embedded images."""
        self._check_fitted()
        return np.asarray(self.classifier_.predict_proba(found.rows))

    def evaluate(self, source: Any, y: Any = None) -> Evaluation:
        """Compare with the labels of `source`, of any kind that `fit` takes, or of what `embed` gave with labels."""
        found = source if isinstance(source, Gathered) else self.embed(source, y, labels=True)
        if found.labels is None:
            raise SourceError(f"{_called(source)} has no labels to compare with.")
        position = {str(label): i for i, label in enumerate(self.classes_.tolist())}
        unknown = sorted(set(found.labels.tolist()) - set(position))
        if unknown:
            example = found.paths[found.labels.tolist().index(unknown[0])]
            known = ", ".join(list(position)[:5]) + (", …" if len(position) > 5 else "")
            raise SourceError(
                f"{example} has the class {unknown[0]!r} ({len(unknown)} unknown class(es) in all), which this "
                f"classifier does not have; it has {known}."
            )
        truth = np.array([position[label] for label in found.labels.tolist()], np.intp)
        return evaluate(self.probabilities(found), truth, list(position))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier with what it needs to know of its encoder to one file, atomically."""
        self._check_fitted()
        insight = getattr(self, "insight_", None)
        self.classifier_.save(
            path,
            metadata={
                "images": {
                    "encoder": None if self.origin_ is None else asdict(self.origin_),
                    "templates": list(self._prompts),
                    "names": list(self.names_),
                    "numbers": self.classes_.dtype.kind in "iu",
                    "views": self._views,
                },
                "insight": None if insight is None else insight.as_dict(),
            },
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        encoder: str | Encoder | None = None,
        on_error: Literal["stop", "skip"] = "stop",
        progress: Progress | None = None,
    ) -> ImageClassifier:
        """Read what `save` wrote.

        Parameters
        ----------
        path
            The file.
        encoder
            Where the encoder is now, if not where it was; another model is refused when it is first used.
        on_error, progress
            As in the constructor.
        """
        model = load(path)
        try:
            about = model.metadata_["images"]
            origin = None if about["encoder"] is None else Origin(**about["encoder"])
            names, templates, views = tuple(about["names"]), about["templates"], int(about["views"])
            prompts = check_templates(templates)
            classes = model.classes_.astype(np.int64) if about["numbers"] else model.classes_
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFormatError(
                f"{path} holds a classifier of embeddings without an image encoder: use lpplusplus.load."
            ) from error
        spec = origin.spec if origin is not None else "embedded"
        where = spec if encoder is None else encoder
        loaded = cls(where, template=templates, views=views, on_error=on_error, progress=progress)
        loaded.classifier_, loaded.classes_, loaded.names_, loaded.origin_ = model, classes, names, origin
        loaded._where, loaded._prompts, loaded._views = where, prompts, views
        return loaded

    def _open(self, where: str | Encoder) -> Encoder:
        if isinstance(where, Encoder):
            return where
        if not isinstance(where, str):
            raise TypeError(
                f"encoder is {where!r}: give a name such as 'embedded', or an object of a subclass of "
                f"lpplusplus.encoders.base.Encoder."
            )
        if where not in self._opened:
            self._opened[where] = open_encoder(where)
        return self._opened[where]

    def _encoder_for(self, origin: Origin | None, where: str | Encoder) -> Encoder:
        """The encoder, if it is the one that made embeddings of `origin`."""
        if origin is None:
            raise SourceError(
                "this classifier was trained on a file of arrays, which does not say how they were made: give it "
                "embeddings of the same kind (.npz, .safetensors), not images."
            )
        opened = self._open(where)
        _check_same(origin, Origin.of(opened), "this classifier", "the encoder given now")
        return opened

    def _check_fitted(self) -> None:
        if not hasattr(self, "classifier_"):
            raise SourceError("this ImageClassifier is not trained yet: call fit first.")


def _check_same(mine: Origin | None, other: Origin | None, whose: str, others: str) -> None:
    """Refuse embeddings of two encoders, naming both."""
    if mine is None or other is None or mine.same_as(other):
        return
    raise SourceError(
        f"{whose} belongs to the encoder {mine}, {others} to {other}: their embeddings cannot be compared. Use the "
        f"same encoder for both, or train again."
    )


def _as_given(classes: NDArray[Any], y: Any) -> NDArray[Any]:
    """Labels as the user's list had them: whole numbers come back as such."""
    return classes.astype(np.int64) if y is not None and np.asarray(y).dtype.kind in "iu" else classes


def _called(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "the list of images"
