"""Add, remove or rename classes and photos of a trained classifier: the result is as if trained anew."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from ..encoders import Encoder
from .embeddings import Embeddings, Origin
from .errors import SourceError
from .opening import class_text, refuse_another, source_name
from .sources.class_names import prompt_names
from .training_data import (
    TrainingData,
    all_classes,
    check_known,
    joined,
    new_ones,
    renamed,
    without_classes,
    without_photos,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class Growing:
    """The part of `ImageClassifier` that changes what it was trained on."""

    classifier_: FewShotClassifier
    classes_: NDArray[Any]
    origin_: Origin | None
    support_: Embeddings
    validation_: Embeddings | None
    already_there_: int
    _text: NDArray[np.float32] | None
    """Embeddings of the class names: (K, D), or of each template, (templates, K, D)."""
    _unlabelled: NDArray[np.float32] | None
    _where: str | Encoder
    """Where the encoder of the fitted classifier is."""
    _prompts: tuple[str, ...]
    """The templates of the fitted classifier, whatever `template` is now."""
    _views: int

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def _learn(self, data: TrainingData, method: FewShotClassifier) -> None:
        raise NotImplementedError

    def _embed_source(self, images: Any, origin: Origin | None, where: str | Encoder, **about: Any) -> Embeddings:
        raise NotImplementedError

    def _encoder_of(self, origin: Origin | None, where: str | Encoder) -> Encoder:
        raise NotImplementedError

    def add(
        self,
        source: Any,
        y: Any = None,
        *,
        names: Mapping[str, str] | None = None,
        shots: int | None = None,
        seed: int = 0,
        store: str | os.PathLike[str] | None = None,
    ) -> "Self":
        """Train on more photos, too: of existing classes, of new ones, or both.

        The result is, bit for bit, that of training on all photos at once. Photos that the classifier has already (by
        content) are not added again; `already_there_` says how many.

        Parameters
        ----------
        source, y, names, shots, seed, store
            As in `fit`. One class is enough. `names` is for new classes; `rename` changes the others.
        """
        mine = self._training_data()
        about = {"y": y, "names": names, "shots": shots, "seed": seed, "store": store}
        more = self._embed_source(source, self.origin_, self._where, part="train", views=self._views, **about)
        fresh = new_ones(mine.support, more, source_name(source))
        new = [label for label in more.classes if label not in mine.support.classes]
        called_by = dict(zip(more.classes, more.names, strict=True))
        if names is None:
            called_by = prompt_names(all_classes(mine.support.classes, new))
        words = tuple(called_by[label] for label in new)
        text = None
        if new and more.text is not None and self.origin_ is None:
            text = more.text[[more.classes.index(label) for label in new]]
        elif new and self._text is not None:
            text = self._texts(words)
        fresh = replace(fresh, classes=tuple(new), names=words)
        return self._changed(joined(mine, TrainingData(fresh, None, text)), repeated=len(more) - len(fresh))

    def merge(self, other: "Growing") -> "Self":
        """Train on the photos of another classifier, too. Both must have the same encoder.

        Method, templates and the names of classes that both have stay those of this one. Photos that both have count
        once.
        """
        mine, its = self._training_data(), other._training_data("the other classifier")
        refuse_another(self.origin_, other.origin_, "this classifier", "the other")
        fresh = new_ones(mine.support, its.support, "the other classifier")
        text = its.text
        if text is not None and other._prompts != self._prompts and self.origin_ is not None:
            text = self._texts(its.support.names)
        joint = joined(mine, TrainingData(fresh, its.validation, text, its.unlabelled))
        return self._changed(joint, repeated=len(its.support) - len(fresh))

    def remove(self, classes: str | Sequence[str] = (), *, photos: Any = ()) -> "Self":
        """Train without some classes, or without some photos.

        Parameters
        ----------
        classes
            Labels.
        photos
            Files or a folder of photos, compared by content; or names of photos as in `support_.paths`.
        """
        labels = [classes] if isinstance(classes, str) else [str(label) for label in classes]
        data = self._training_data()
        data = without_classes(data, labels) if labels else data
        return self._changed(without_photos(data, photos))

    def rename(self, old: str, new: str, *, name: str | None = None) -> "Self":
        """Train with another label for a class, and other words for it in prompts.

        Parameters
        ----------
        old, new
            Labels. They may be the same, to change only the words.
        name
            Name of the class in prompts; by default made from `new`, as in `fit`.
        """
        mine = self._training_data()
        old, new = str(old), str(new)
        check_known(mine.support, [old])
        labels = [new if label == old else label for label in mine.support.classes]
        words = prompt_names(labels)[new] if name is None else name
        row = None if self._text is None else self._texts([words])
        return self._changed(renamed(mine, old, new, words, row))

    def _training_data(self, owner: str = "this classifier") -> TrainingData:
        """What it was trained on, if it was saved with it."""
        self._check_fitted()
        if not hasattr(self, "support_"):
            raise SourceError(
                f"{owner} no longer has its training images, not even their embeddings: it was saved without them "
                f"(--no-support) or by an earlier version, so train it again on the photos."
            )
        return TrainingData(self.support_, self.validation_, self._text, self._unlabelled)

    def _texts(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of names, with the templates of this classifier."""
        if self.origin_ is None:
            raise SourceError(
                "this classifier was trained on a file of arrays with text embeddings, and it is not known what made "
                "them: give the text of new classes in such a file, too, or train again."
            )
        some = Embeddings(np.empty((0, 1, 1), np.float32), names=tuple(names), origin=self.origin_)
        found = class_text(some, lambda: self._encoder_of(self.origin_, self._where), self._prompts)
        assert found is not None
        return found

    def _changed(self, data: TrainingData, repeated: int = 0) -> "Self":
        numbers = self.classes_.dtype.kind in "iu"
        self._learn(data, self.classifier_)
        if numbers and all(label.lstrip("-").isdecimal() for label in self.classes_.tolist()):
            self.classes_ = self.classes_.astype(np.int64)
        self.already_there_ = repeated
        return self
