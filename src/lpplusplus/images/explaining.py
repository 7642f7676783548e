"""Which part of a photo speaks for the answer: the evidence for a class in each cell of a grid over the photo.

Exact where an embedding is a sum over the photo and the method is linear, as with the embedded encoder and LP++. For
any other encoder by occlusion: a part of the photo is made grey, and what the class loses by that is its evidence.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .._core import backend
from .._core.base import FewShotClassifier
from .answers import method_of
from .embeddings import Embeddings

if TYPE_CHECKING:
    from .classifier import ImageClassifier

GRID = 7
"""Cells of a side, by occlusion."""
WINDOW = 2
"""Cells of a side that are made grey together: less than that hardly changes an answer."""
AT_BORDER = 1 / 3
"""A class may be recognised by the background if more than this part of the evidence lies in the outermost cells, in
most of its photos. Where the thing itself is recognised it is a tenth to a quarter: `python -m studies.why`."""
FEWEST, MOST_PER_CLASS, MOST_PHOTOS = 4, 8, 400
"""Photos that are looked at for that: of a class, and in all."""

_Evidence = tuple[NDArray[Any], NDArray[Any], tuple[float, float, float, float]]
"""A number for each class; evidence by cell, (h, w, K); the place of the grid."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where on a photo the evidence for its answer is.

    Attributes
    ----------
    answer, runner_up : str
        The two likeliest classes; or those that were asked about.
    classes : list of str
        All classes.
    by_class : (h, w, K) array
        Evidence for each class in each cell of the grid. If `exact`, the sum over the cells is the class's logit;
        otherwise it is what the logarithm of its probability loses without the cell.
    box : (left, top, right, bottom)
        Where the grid lies, in pixels of the photo.
    exact : bool
        Whether the evidence was computed, or measured by occlusion.
    seconds : float
        How long it took.
    """

    answer: str
    runner_up: str
    classes: list[str]
    by_class: NDArray[np.float64]
    box: tuple[float, float, float, float]
    exact: bool
    seconds: float

    def evidence(self, label: str) -> NDArray[np.float64]:
        """Evidence for a class, (h, w)."""
        return np.asarray(self.by_class[..., self.classes.index(label)])

    @property
    def lead(self) -> NDArray[np.float64]:
        """Evidence for the answer less that for the runner-up, (h, w)."""
        return self.evidence(self.answer) - self.evidence(self.runner_up)

    def at_border(self, label: str) -> float:
        """Part of what speaks for a class, against the mean of the others, that lies in the outermost cells."""
        others = (self.by_class.sum(axis=2) - self.evidence(label)) / max(1, len(self.classes) - 1)
        speaks = (self.evidence(label) - others).clip(0)
        inner = speaks[1:-1, 1:-1].sum()
        return float(1 - inner / speaks.sum()) if speaks.any() else 0.0


class Explainer:
    """Explains answers of one classifier.

    Attributes
    ----------
    exact : bool
        Whether evidence is computed; measuring it takes some forty embeddings a photo.
    """

    def __init__(self, clf: ImageClassifier) -> None:
        self._encoder, self._method = clf.open_encoder(), method_of(clf)
        self._labels = [str(label) for label in self._method.classes_.tolist()]
        self.exact = type(self._method)._logits is FewShotClassifier._logits and self._encoder.has_cells

    @classmethod
    def at_hand(cls, clf: ImageClassifier) -> Explainer | None:
        """For a report, which should neither fetch an encoder nor take minutes: if the encoder is open, and exact."""
        explainer = cls(clf) if clf.is_open else None
        return explainer if explainer is not None and explainer.exact else None

    def __call__(self, picture: Image.Image, classes: Sequence[str] = ()) -> Explanation:
        """Where on an upright RGB picture the evidence is: for the two likeliest classes, or for two `classes`."""
        start = time.perf_counter()
        logits, by_class, box = self._computed(picture) if self.exact else self._by_occlusion(picture)
        unknown = [label for label in classes if label not in self._labels]
        if unknown or len(classes) not in (0, 2):
            raise ValueError(f"classes must be two labels that this classifier knows: got {list(classes)}.")
        best = [self._labels[k] for k in np.argsort(-logits, kind="stable")]
        answer, runner_up = classes or (best[0], best[min(1, len(best) - 1)])
        return Explanation(answer, runner_up, self._labels, by_class, box, self.exact, time.perf_counter() - start)

    def by_background(self, pictures: Iterable[tuple[str, Image.Image | None]]) -> list[str]:
        """Classes that may be recognised by the background of their photos, from photos with their labels."""
        shares: dict[str, list[float]] = {}
        for label, picture in pictures:
            if picture is not None:
                shares.setdefault(label, []).append(self(picture).at_border(label))
        return [label for label, some in shares.items() if len(some) >= FEWEST and np.median(some) > AT_BORDER]

    def _computed(self, picture: Image.Image) -> _Evidence:
        parts, box = self._encoder.cells(picture)
        length = np.linalg.norm(parts.sum(axis=(0, 1))) if self._method.normalize else 1.0
        bias = backend.to_numpy(self._method.intercept_).astype(float) / (parts.shape[0] * parts.shape[1])
        by_class = parts @ backend.to_numpy(self._method.coef_).astype(float).T / length + bias
        return by_class.sum(axis=(0, 1)), by_class, box

    def _by_occlusion(self, picture: Image.Image) -> _Evidence:
        """Log-probabilities, and what the windows over each cell take from them on average."""
        across, down = (np.linspace(0, side, GRID + 1).round().astype(int).tolist() for side in picture.size)
        grey = tuple(np.asarray(picture.resize((1, 1), Image.Resampling.BOX))[0, 0].tolist())
        corners = [(i, j) for i in range(GRID - WINDOW + 1) for j in range(GRID - WINDOW + 1)]
        pictures = [picture]
        for i, j in corners:
            pictures.append(picture.copy())
            pictures[-1].paste(grey, (across[j], down[i], across[j + WINDOW], down[i + WINDOW]))
        told = np.asarray(self._method.predict_log_proba(self._encoder.encode_images(pictures)), float)
        lost, times = np.zeros((GRID, GRID, told.shape[1])), np.zeros((GRID, GRID, 1))
        for (i, j), without in zip(corners, told[1:], strict=True):
            lost[i : i + WINDOW, j : j + WINDOW] += told[0] - without
            times[i : i + WINDOW, j : j + WINDOW] += 1
        return told[0], lost / times, (0.0, 0.0, float(picture.width), float(picture.height))


def background_photos(images: Embeddings, classes: Sequence[Any]) -> list[tuple[str, int]]:
    """The label and row of some photos of each class, for `by_background`; none if the classes are too many."""
    if images.labels is None or len(classes) * FEWEST > MOST_PHOTOS:
        return []
    most = min(MOST_PER_CLASS, MOST_PHOTOS // len(classes))
    return [
        (str(label), row) for label in classes for row in np.flatnonzero(images.labels == str(label))[:most].tolist()
    ]


def shaded(
    picture: Image.Image, where: NDArray[np.float64], box: Sequence[float], side: int, sign: int = 1
) -> Image.Image:
    """A small copy of the picture: where the evidence has this sign there is light, and orange; the rest is dark."""
    scale = min(1.0, side / max(picture.size))
    small = picture.resize([max(1, round(n * scale)) for n in picture.size])
    left, top, right, bottom = (round(n * scale) for n in box)
    speaks = (sign * where).clip(0) / max(float(np.abs(where).max()), 1e-12)
    cells = Image.fromarray((255 * speaks).astype(np.uint8)).resize(
        (right - left, bottom - top), Image.Resampling.BICUBIC
    )
    mask = Image.new("L", small.size, 0)
    mask.paste(cells, (left, top))
    lit = Image.blend(small, Image.new("RGB", small.size, (255, 150, 0)), 0.25)
    dark = Image.blend(small.convert("L").convert("RGB"), Image.new("RGB", small.size, (0, 0, 40)), 0.5)
    return Image.composite(lit, dark, mask)
