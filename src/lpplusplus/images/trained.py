"""What a trained classifier does besides answering: it says how good it is, and it learns of more photos.

It is asked about photos whose labels are known. After a change it is as if trained anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core.files import atomic_write
from .._core.parameters import Progress
from .answers import Answers, answers
from .embeddings import Embeddings
from .errors import SourceError, shown
from .evaluation import Scores
from .insight import Check, Insight, check, examine
from .opening import class_text, open_source, refuse_another, select
from .sources.class_names import listed, prompt_names
from .suggesting import Suggestion, suggestions
from .training_data import TrainingData, all_classes, check_known, new_ones

if TYPE_CHECKING:
    from .classifier import ImageClassifier
    from .explaining import Explanation


class Trained:
    """The part of `ImageClassifier` that judges, and changes, what was learned."""

    def look_into(self: ImageClassifier, progress: Progress | None = None) -> Insight:  # type: ignore[misc]
        """Measure accuracy on the validation data or by cross-validation, and look for odd classes and images."""
        data = self._training_data()
        self.insight_, self.study_ = examine(self.classifier_, data, progress)
        return self.insight_

    @property
    def held_out_(self: ImageClassifier) -> Answers | None:  # type: ignore[misc]
        """The images that `look_into` left out, and the answers about them."""
        return None if self.study_ is None else self.study_.answers

    def left_out(self: ImageClassifier) -> Answers:  # type: ignore[misc]
        """The answers about training or validation photos by classifiers that had not seen them."""
        self._training_data()
        self._look_once(None)
        if self.held_out_ is None:
            raise SourceError("too few photos per class to leave some out.")
        return self.held_out_

    def _look_once(self: ImageClassifier, progress: Progress | None) -> None:  # type: ignore[misc]
        """`look_into`, unless it was called since training."""
        if not hasattr(self, "insight_") or not hasattr(self, "study_"):
            self.look_into(progress)

    def check(self: ImageClassifier, progress: Progress | None = None) -> Check:  # type: ignore[misc]
        """Do I have enough photos? What `look_into` finds, duplicates, and what to expect with 2 and 4 times as many.

        Works on a trained and on a loaded classifier.
        """
        data = self._training_data()
        self._look_once(progress)
        return check(data, self.insight_, self.study_)

    def suggest(self: ImageClassifier, images: Any, count: int = 20) -> list[Suggestion]:  # type: ignore[misc]
        """Which unlabelled photos to label next, the most useful first, with a guess and a reason each.

        They are balanced over the predicted classes, and unlike the photos it was trained on. Copies of these are left
        out.

        Parameters
        ----------
        images
            As in `predict`; or what `embed` returned.
        count
            How many.
        """
        said = answers(self, self.embed(images))
        fresh = [row for row, digest in enumerate(said.images.digests()) if digest not in self._seen]
        return suggestions(said.subset(fresh), getattr(self, "support_", None), count) if fresh else []

    def report(  # type: ignore[misc]
        self: ImageClassifier,
        path: str | os.PathLike[str] | None = None,
        source: Any = None,
        y: Any = None,
        *,
        progress: Progress | None = None,
    ) -> str:
        """A page in HTML that shows how good the classifier is: mistakes with their photos, doubtful photos, and more.

        The page needs nothing else: no network, no script. It holds small copies of some of the photos.

        Parameters
        ----------
        path
            File to write it to; by default it is only returned.
        source, y
            Labelled images to test on, as in `evaluate`. By default the page is about the training: the answers about
            images that were held out.
        progress
            Called as `progress(done, total)` while it is made.
        """
        from .report import evaluation_page, training_page  # Needs Jinja2.

        self._check_fitted()
        if source is not None:
            said = self.answers(source, y)
            page = evaluation_page(self, said, said.scores(self.trained_on(said.images)), progress)
        else:
            self._look_once(progress)
            page = training_page(self, progress)
        if path is not None:
            with atomic_write(path) as file:
                file.write(page.encode())
        return page

    def explain(  # type: ignore[misc]
        self: ImageClassifier, image: Any, classes: Sequence[str] = ()
    ) -> Explanation:
        """Which part of a photo speaks for the answer, and which for the runner-up.

        Parameters
        ----------
        image
            A path, or a Pillow image.
        classes
            Two labels to compare instead of the two likeliest.

        Examples
        --------
        >>> from PIL import Image
        >>> from lpplusplus.images import ImageClassifier
        >>> photos = [Image.new("RGB", (64, 64), colour) for colour in ("red", "darkred", "blue", "navy")]
        >>> clf = ImageClassifier(template="a {} square").fit(photos, ["red", "red", "blue", "blue"])
        >>> told = clf.explain(photos[0])
        >>> told.answer, told.runner_up, told.exact, told.lead.shape
        ('red', 'blue', True, (7, 7))
        """
        from ..encoders.pixels.decoding import open_image
        from .explaining import Explainer

        self._check_fitted()
        return Explainer(self)(open_image(image), [str(label) for label in classes])

    def evaluate(self: ImageClassifier, source: Any, y: Any = None) -> Scores:  # type: ignore[misc]
        """Compare with the labels of `source`: anything that `fit` takes, or what `embed` returned with labels.

        `trained_on` of the result is the number of these images that the classifier was trained on.
        """
        said = self.answers(source, y)
        return said.scores(self.trained_on(said.images))

    def trained_on(self: ImageClassifier, found: Embeddings) -> int:  # type: ignore[misc]
        """How many of these images it was trained on; 0 for a file of a version that did not keep this."""
        self._check_fitted()
        return sum(digest in self._seen for digest in found.digests())

    def answers(self: ImageClassifier, source: Any, y: Any = None) -> Answers:  # type: ignore[misc]
        """Its answers about labelled images, with their labels; `source` as in `evaluate`."""
        images, known = self.embed(source, y, labels=True), [str(label) for label in self.classes_.tolist()]
        if images.labels is None:
            raise SourceError(f"{images.source} has no labels to compare with.")
        unknown = sorted(set(images.labels.tolist()) - set(known))
        if unknown:
            example = images.paths[images.labels.tolist().index(unknown[0])]
            raise SourceError(
                f"this classifier does not know {listed([shown(label) for label in unknown])} (such as {example}); it "
                f"knows {listed(known)}. Leave these images out, or name the class as it does."
            )
        return answers(self, images)

    def add(  # type: ignore[misc]
        self: ImageClassifier,
        source: Any,
        y: Any = None,
        *,
        names: Mapping[str, str] | None = None,
        shots: int | None = None,
        seed: int = 0,
        store: str | os.PathLike[str] | None = None,
    ) -> ImageClassifier:
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
        more = self._embed_own(opened, views=mine.support.views, store=store)
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

    def merge(self: ImageClassifier, other: ImageClassifier) -> ImageClassifier:  # type: ignore[misc]
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

    def remove(self: ImageClassifier, classes: str | Sequence[str] = (), *, photos: Any = ()) -> ImageClassifier:  # type: ignore[misc]
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

    def rename(self: ImageClassifier, old: str, new: str, *, name: str | None = None) -> ImageClassifier:  # type: ignore[misc]
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

    def _texts(self: ImageClassifier, names: Sequence[str]) -> NDArray[np.float32]:  # type: ignore[misc]
        """Embeddings of names, with the templates of this classifier."""
        if self.origin_ is None:
            raise SourceError(
                "this classifier was trained on a file of arrays with text embeddings, and it is not known what made "
                "them: give the text of new classes in such a file, too, or train again."
            )
        some = Embeddings(np.empty((0, 1, 1), np.float32), names=tuple(names), origin=self.origin_)
        text = class_text(some, self._own_encoder, self._prompts)
        assert text is not None
        return text

    def _changed(self: ImageClassifier, data: TrainingData, already_there: int = 0) -> ImageClassifier:  # type: ignore[misc]
        numbers = self.classes_.dtype.kind in "iu"
        self._learn(data, self.classifier_)
        if numbers and all(label.lstrip("-").isdecimal() for label in self.classes_.tolist()):
            self.classes_ = self.classes_.astype(np.int64)
        self.already_there_ = already_there
        return self
