"""Add, remove or rename classes and photos of a trained classifier: the result is as if trained anew."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .embeddings import Embeddings
from .errors import SourceError
from .opening import class_text, open_source, refuse_another, select
from .sources.class_names import prompt_names
from .training_data import TrainingData, all_classes, check_known, new_ones

if TYPE_CHECKING:
    from .classifier import ImageClassifier


class Growing:
    """The part of `ImageClassifier` that changes what it was trained on."""

    def add(  # type: ignore[misc]
        self: "ImageClassifier",
        source: Any,
        y: Any = None,
        *,
        names: Mapping[str, str] | None = None,
        shots: int | None = None,
        seed: int = 0,
        store: str | os.PathLike[str] | None = None,
    ) -> "ImageClassifier":
        """Train on more photos, too: of existing classes, of new ones, or both.

        The result is, bit for bit, that of training on all photos at once. Photos that the classifier has already (by
        content) are not added again; `already_there_` says how many.

        Parameters
        ----------
        source, y, names, shots, seed, store
            As in `fit`. One class is enough. `names` is for new classes; `rename` changes the others.
        """
        mine = self._training_data()
        opened = select(open_source(source, y, allow_empty=True, part="train"), names=names, shots=shots, seed=seed)
        more = self._embed_opened(opened, self.origin_, self._where, views=mine.support.views, store=store)
        fresh = new_ones(mine.support, more, more.source)
        new = [label for label in more.classes if label not in mine.support.classes]
        if names is None:
            named = prompt_names(all_classes(mine.support.classes, new))
        else:
            named = dict(zip(more.classes, more.names, strict=True))
        words = tuple(named[label] for label in new)
        text = None
        if new and more.text is not None and self.origin_ is None:
            text = more.text[[more.classes.index(label) for label in new]]
        elif new and mine.text is not None:
            text = self._texts(words)
        fresh = replace(fresh, classes=tuple(new), names=words)
        return self._changed(mine.joined(TrainingData(fresh, None, text)), len(more) - len(fresh))

    def merge(self: "ImageClassifier", other: "ImageClassifier") -> "ImageClassifier":  # type: ignore[misc]
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
        return self._changed(mine.joined(replace(its, support=fresh, text=text)), len(its.support) - len(fresh))

    def remove(self: "ImageClassifier", classes: str | Sequence[str] = (), *, photos: Any = ()) -> "ImageClassifier":  # type: ignore[misc]
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
        return self._changed((data.without_classes(labels) if labels else data).without_photos(photos))

    def rename(self: "ImageClassifier", old: str, new: str, *, name: str | None = None) -> "ImageClassifier":  # type: ignore[misc]
        """Train with another label for a class, and other words for it in prompts.

        Parameters
        ----------
        old, new
            Labels. They may be the same, to change only the words.
        name
            Name of the class in prompts; by default made from `new`, as in `fit`.
        """
        mine, old, new = self._training_data(), str(old), str(new)
        check_known(mine.support, [old])
        labels = [new if label == old else label for label in mine.support.classes]
        words = prompt_names(labels)[new] if name is None else name
        return self._changed(mine.renamed(old, new, words, None if mine.text is None else self._texts([words])))

    def _texts(self: "ImageClassifier", names: Sequence[str]) -> NDArray[np.float32]:  # type: ignore[misc]
        """Embeddings of names, with the templates of this classifier."""
        if self.origin_ is None:
            raise SourceError(
                "this classifier was trained on a file of arrays with text embeddings, and it is not known what made "
                "them: give the text of new classes in such a file, too, or train again."
            )
        some = Embeddings(np.empty((0, 1, 1), np.float32), names=tuple(names), origin=self.origin_)
        text = class_text(some, lambda: self._encoder_of(self.origin_, self._where), self._prompts)
        assert text is not None
        return text

    def _changed(self: "ImageClassifier", data: TrainingData, already_there: int = 0) -> "ImageClassifier":  # type: ignore[misc]
        numbers = self.classes_.dtype.kind in "iu"
        self._learn(data, self.classifier_)
        if numbers and all(label.lstrip("-").isdecimal() for label in self.classes_.tolist()):
            self.classes_ = self.classes_.astype(np.int64)
        self.already_there_ = already_there
        return self
