"""Synthetic few-shot tasks whose geometry imitates CLIP RN50 features.

Real features cannot be shipped, and random ones have nothing to learn. A task made here has what
matters to LP++: image features share a large common direction (so one eigenvalue of ``F'F`` holds
half of the energy and sets the step), the text features see the classes only faintly through a
modality gap, classes come in groups that are hard to tell apart, and images vary along a few
directions shared by all classes, which a one-shot class mean picks up and training unlearns.
The mean cosine is 0.50 between images of unrelated classes, 0.21 between an image and its own
text, and 0.16 between an image and another text.

Every feature is a sum of nearly orthogonal parts, normalised to length 1::

    image = COMMON * m + VISUAL * v_k + NUISANCE * (z @ B) + the rest * isotropic noise
    text  = TEXT_COMMON * m + TEXT_VISUAL * v_k + TEXT_GAP * g + the rest * w_k
    v_k   = sqrt(GROUP) * (direction of k's group) + sqrt(1 - GROUP) * (direction of k)

where m and g are orthogonal, the rows of B span the nuisance, and a share OVERLAP of the energy of
the class and group directions lies in that span.

The accuracies are those of a test bed, not of CLIP: they rank nothing on real data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Tuned by hand and by random search for the cosines above and for these accuracies at K = 100:
# zero-shot 50-60 %, the released recipe 62-68 % at 1 shot and 72-78 % at 16.
GROUP_SIZE = 10  # classes that share a group direction
COMMON = 0.70  # squared: the cosine of two images of unrelated classes
VISUAL = 0.275  # what the class adds to an image
GROUP = 0.65  # share of a class's visual energy that its whole group has
NUISANCE = 0.58  # what every image varies by, in a subspace of ...
NUISANCE_RANK = 48  # ... so many dimensions
OVERLAP = 0.5  # share of the visual energy inside that subspace, where nuisance drowns it
TEXT_COMMON = 0.23  # times COMMON: the unmatched image-text cosine
TEXT_VISUAL = 0.185  # times VISUAL: what a match adds to it
TEXT_GAP = 0.925  # what all texts share and no image has

# Part of the definition of a task: the draws are taken block by block, so another value gives
# other images.
_BLOCK_BYTES = 8 * 2**20

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """One few-shot task: support, validation and test images, and one text row per class."""

    X: FloatArray
    y: IntArray
    X_val: FloatArray
    y_val: IntArray
    X_test: FloatArray
    y_test: IntArray
    text: FloatArray


@dataclass(frozen=True)
class _World:
    """What all images of a task share."""

    prototypes: NDArray[np.float32]
    nuisance: NDArray[np.float32]
    noise: float


def clip_like(
    n_classes: int,
    shots: int,
    *,
    dim: int = 1024,
    seed: int = 0,
    test_per_class: int | None = None,
    dtype: str = "float32",
) -> Task:
    """Make a task of ``n_classes`` classes with ``shots`` support and validation images each.

    The classes, the text and the test images depend on ``seed`` but not on ``shots``, so that
    accuracies at several shot counts are comparable. Rows are in random order.

    Parameters
    ----------
    n_classes, shots : int
        K and S; the support and the validation set have ``K * S`` rows each.
    dim : int
        Length of a feature.
    seed : int
        Decides everything that is random.
    test_per_class : int, optional
        Test images per class. By default about 10 000 in all, between 1 and 200 per class.
    dtype : str
        Type of the features. Drawn in float32 and normalised in ``dtype`` or better, so tasks of
        different types differ by rounding only.

    Returns
    -------
    Task
        Features with unit rows, labels int64.

    Examples
    --------
    >>> task = clip_like(10, 4, dim=64)
    >>> task.X.shape, task.X_val.shape, task.text.shape
    ((40, 64), (40, 64), (10, 64))
    """
    if min(n_classes, shots, dim) < 1:
        raise ValueError(f"n_classes, shots and dim must be positive, got {n_classes}, {shots} and {dim}")
    if test_per_class is None:
        test_per_class = min(200, max(1, 10_000 // n_classes))
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]
    world, text = _world(n_classes, dim, streams[0], np.dtype(dtype))
    sets = [
        _images(world, per_class, rng, np.dtype(dtype))
        for per_class, rng in zip((shots, shots, test_per_class), streams[1:], strict=True)
    ]
    (X, y), (X_val, y_val), (X_test, y_test) = sets
    return Task(X, y, X_val, y_val, X_test, y_test, text)


def _directions(rng: np.random.Generator, count: int, dim: int) -> NDArray[np.float32]:
    """``count`` random rows of expected length 1, nearly orthogonal when ``dim`` is large."""
    rows = rng.standard_normal((count, dim), dtype=np.float32)
    rows *= np.float32(dim**-0.5)
    return rows


def _orthonormal_pair(rng: np.random.Generator, dim: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Two exactly orthogonal unit vectors.

    They carry most of the energy, so that the chance overlap of two random ones, 1/sqrt(dim),
    would shift every image-text cosine of a task by 0.02.
    """
    first, second = rng.standard_normal((2, dim), dtype=np.float32)
    first /= np.linalg.norm(first)
    second -= (second @ first) * first
    return first, second / np.linalg.norm(second)


def _visual(rng: np.random.Generator, count: int, nuisance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Random class or group directions, partly inside the span of the nuisance."""
    rows = _directions(rng, count, nuisance.shape[1])
    rows *= np.float32((1 - OVERLAP) ** 0.5)
    inside = _directions(rng, count, len(nuisance))
    inside *= np.float32(OVERLAP**0.5)
    rows += inside @ nuisance
    return rows


def _rest(*weights: float) -> float:
    """Return the weight that completes the squares to 1."""
    return float(np.sqrt(1 - sum(w * w for w in weights)))


def _world(n_classes: int, dim: int, rng: np.random.Generator, dtype: np.dtype) -> tuple[_World, FloatArray]:
    """Draw the shared directions, then the text; both from one stream."""
    common, gap = _orthonormal_pair(rng, dim)
    nuisance = _directions(rng, NUISANCE_RANK, dim)
    groups = _visual(rng, -(-n_classes // GROUP_SIZE), nuisance)
    prototypes = _visual(rng, n_classes, nuisance)
    own = _rest(TEXT_COMMON, TEXT_VISUAL, TEXT_GAP)
    text = np.empty((n_classes, dim), dtype)
    for rows in _blocks(n_classes, dim):
        block = prototypes[rows]  # a view: becomes v_k, then the class part of every image
        block *= np.float32((1 - GROUP) ** 0.5)
        labels = np.arange(n_classes)[rows]
        block += np.float32(GROUP**0.5) * groups[labels // GROUP_SIZE]
        words = np.float32(own) * _directions(rng, len(block), dim)
        words += np.float32(TEXT_VISUAL) * block
        words += np.float32(TEXT_COMMON) * common + np.float32(TEXT_GAP) * gap
        text[rows] = _unit(words, dtype)
        block *= np.float32(VISUAL)
        block += np.float32(COMMON) * common
    nuisance *= np.float32(NUISANCE * NUISANCE_RANK**-0.5)
    return _World(prototypes, nuisance, _rest(COMMON, VISUAL, NUISANCE)), text


def _images(world: _World, per_class: int, rng: np.random.Generator, dtype: np.dtype) -> tuple[FloatArray, IntArray]:
    """Draw ``per_class`` images of every class, in random order."""
    n_classes, dim = world.prototypes.shape
    labels = rng.permutation(np.repeat(np.arange(n_classes, dtype=np.int64), per_class))
    features = np.empty((len(labels), dim), dtype)
    for rows in _blocks(len(labels), dim):
        block = _directions(rng, len(labels[rows]), dim)
        block *= np.float32(world.noise)
        block += world.prototypes[labels[rows]]
        z = rng.standard_normal((len(block), len(world.nuisance)), dtype=np.float32)
        block += z @ world.nuisance
        features[rows] = _unit(block, dtype)
    return features, labels


def _blocks(n_rows: int, dim: int) -> list[slice]:
    """Slices of rows whose float32 block is a few MiB, so that temporaries stay small."""
    step = max(1, _BLOCK_BYTES // (4 * dim))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _unit(rows: FloatArray, dtype: np.dtype) -> FloatArray:
    """Scale rows to length 1, in float64 when that is asked for and in float32 otherwise."""
    if dtype == np.float64:
        rows = rows.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
