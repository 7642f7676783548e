"""How good a trained classifier is, and what would make it better: it is asked about photos whose labels are known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .._core.files import atomic_write
from .._core.parameters import Progress
from .answers import Answers, answers
from .embeddings import Embeddings
from .errors import SourceError, shown
from .evaluation import Scores
from .insight import Check, Insight, check, examine
from .sources.class_names import listed
from .suggesting import Suggestion, suggestions

if TYPE_CHECKING:
    from .classifier import ImageClassifier


class Judging:
    """The part of `ImageClassifier` that says how good it is, and what would make it better."""

    def look_into(self: ImageClassifier, progress: Progress | None = None) -> Insight:  # type: ignore[misc]
        """Measure accuracy on the validation data or by cross-validation, and look for odd classes and images."""
        data = self._training_data()
        self.insight_, self.study_ = examine(self.classifier_, data, progress)
        return self.insight_

    @property
    def held_out_(self: ImageClassifier) -> Answers | None:  # type: ignore[misc]
        """The images that `look_into` left out, and the answers about them."""
        return None if self.study_ is None else self.study_.answers

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
