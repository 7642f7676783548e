"""How sure a classifier of images is of its answers: sets of classes, and "none of these"."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.base import FewShotClassifier
from ..encoders import Encoder
from ..encoders.class_text import class_texts
from ..probe.estimator import LPPlusPlus
from .embeddings import Embeddings, Origin
from .errors import SourceError


class Doubting:
    """The part of `ImageClassifier` that says how sure it is."""

    classifier_: FewShotClassifier
    origin_: Origin | None
    _where: str | Encoder
    _prompts: tuple[str, ...]

    def predict_set(self, images: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """A set of classes for each image, (n, K) booleans in the order of `classes_`.

        The right class is in the set with probability `coverage`. Images as in `predict`, or what `embed` returned. See
        `LPPlusPlus.predict_set`; it needs two images per class or validation images.
        """
        probe, found = self._doubting("predict_set"), self._answerable(images)
        return np.asarray(probe.predict_set(found.rows, coverage))

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
        probe, found, text = self._doubting("none_of_these"), self._answerable(images), None
        if len(other_names):
            text = class_texts(self._encoder_of(self.origin_, self._where), list(other_names), self._prompts)
        return np.asarray(probe.none_of_these(found.rows, false_alarms, other_text=text))

    def _doubting(self, what: str) -> LPPlusPlus:
        self._check_fitted()
        if not isinstance(self.classifier_, LPPlusPlus):
            raise SourceError(
                f"{what} is for LPPlusPlus, and this classifier is a {type(self.classifier_).__name__}: train with "
                f"method=LPPlusPlus()."
            )
        return self.classifier_

    def _answerable(self, images: Any) -> Embeddings:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def _encoder_of(self, origin: Origin | None, where: str | Encoder) -> Encoder:
        raise NotImplementedError
