"""Where LP++ starts (paper Prop. 2 with λ = 1/N and β = 1/(250 K)).

W⁰ is the *sum*, not the mean, of each class's images, so the visual part gains weight with the number of shots, and
α⁰ = 250 x mean cosine between images and their class name. The formula as printed gives one α per class. That acts as a
class bias: all images have a common cosine with all texts, and a class with a larger α gains Δα times that cosine
whatever the image. On real features the start then falls below zero-shot. The released code uses one α for all classes,
which is the default here; the published training-free results, which are above zero-shot, most likely come from it.
"""

from dataclasses import replace

import numpy as np

from .._core import backend
from .._core.backend import Array
from .._core.class_prompts import weighted
from .._core.folds import first_of_each_class
from .._core.rows import some_rows, sum_by_class, unit_rows
from .._core.softmax import means_under_softmax, zero_of
from .._core.task import Task
from .._core.threads import ALONE, Team, rows_per_chunk

TEXT_STRENGTH = 250.0
"""λ/β of Prop. 2 times the number of shots: turns a mean cosine of about 0.2 into an α of about 50."""
ENOUGH_IMAGES = 2000
"""Images used to find the likeliest α; more would not change it."""
PSEUDO_WEIGHT = 0.1
"""Weight of an image made from a name, in images (`pseudo_images`)."""
RANDOM_NAME = 0.6
"""A name is trusted if it fits the images of its class better than this part of the other names do; a random name fits
better than half of them."""
ENOUGH_TO_DOUBT = 4
"""A class's name is doubted only if the class has this many images."""
ENOUGH_TO_BELIEVE = 8
"""Images of a class that this test looks at; more would not change its answer."""


def class_sums(F: Array, y: Array, n_classes: int) -> Array:
    """W⁰: the sum of each class's embeddings; zero for a class without examples.

    >>> class_sums(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 0]), 2)
    array([[2., 0.],
           [0., 1.]])
    """
    return sum_by_class(*_ready(F, y), n_classes)


def shared_alpha(F: Array, y: Array, text: Array) -> float:
    """One α⁰ for all classes: 250 x the mean over classes of the class's mean cosine.

    For balanced classes that is 250 x the mean over images, whatever the number of shots.

    >>> text = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> shared_alpha(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0, 0]), text)
    200.0
    """
    return float(_alpha(F, y, text, shared=True)[0])


def per_class_alpha(F: Array, y: Array, text: Array) -> Array:
    """α⁰ as the paper prints it: 250 x the class's own mean cosine; for a class without examples, the others' mean.

    >>> text = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> per_class_alpha(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0, 1]), text)
    array([250., 200.])
    """
    return _alpha(F, y, text, shared=False)


def alpha_from_sums(sums: Array, counts: Array, text: Array, *, shared: bool) -> Array:
    """α⁰ of each class, (K,), from the class sums: a class's mean cosine is its sum times its text, over its count.

    Parameters
    ----------
    sums : (K, D) array
        `class_sums` of the support.
    counts : (K,) array
        Examples of each class.
    text : (K, D) array
    shared
        One value for all classes, or one each.

    Examples
    --------
    >>> sums, text = np.array([[2.0, 0.0], [0.6, 0.8]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> alpha_from_sums(sums, np.array([2, 1]), text, shared=True)
    array([225., 225.])
    """
    xp = backend.namespace(sums)
    present = counts > 0
    counts = backend.cast(counts, sums.dtype)
    cosines = backend.row_dots(sums, text) / xp.where(present, counts, xp.ones_like(counts))
    mean = xp.sum(cosines) / xp.sum(backend.cast(present, sums.dtype))
    everywhere = xp.zeros_like(cosines) + mean
    return TEXT_STRENGTH * (everywhere if shared else xp.where(present, cosines, everywhere))


def likeliest_alpha(F: Array, y: Array, text: Array, most: float, roots: Array | None = None) -> float:
    """The α between 0 and `most` that gives the labels the highest likelihood with names alone, softmax(α f·t).

    It is large for CLIP and its class names, and near 0 for names that mean nothing.

    >>> text = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> likeliest_alpha(text, np.array([0, 1]), text, most=100.0)
    100.0
    >>> likeliest_alpha(text, np.array([1, 0]), text, most=100.0)
    0.0
    """
    F, y = _ready(F, y)
    rows = slice(None, None, -(-F.shape[0] // ENOUGH_IMAGES))
    scores = backend.to_numpy(F[rows, :] @ backend.like(text, F, dtype=F.dtype).T)
    weights = None
    if roots is not None:  # Of `F`, as in `Support`.
        root = backend.to_numpy(roots[rows])
        scores, weights = scores / root[:, None], root**2
    own = float(
        np.average(scores[np.arange(len(scores)), backend.to_numpy(y[rows])].astype(np.float64), weights=weights)
    )

    means = means_under_softmax(scores)

    def slope(alpha: float) -> float:
        """Of the mean loss: the expected cosine under softmax(α s), less that of the right name."""
        return float(np.average(means(alpha).astype(np.float64), weights=weights)) - own

    if slope(0.0) >= 0:
        return 0.0
    return most if slope(most) <= 0 else zero_of(slope, 0.0, most, precision=1e-6 * most)


def believable(F: Array, y: Array, text: Array, roots: Array | None = None, team: Team = ALONE) -> Array:
    """The text, where the mean name, which says nothing, replaces every name that the images contradict.

    The images contradict a name if, over the first eight images of its class (four or more), it fits better than at
    most 60 % of the other names do.

    >>> text = np.eye(3)
    >>> believable(np.repeat(text, 4, axis=0), np.repeat([0, 1, 2], 4), text) is text
    True
    >>> swapped = believable(np.repeat(text, 4, axis=0), np.repeat([1, 0, 2], 4), text)
    >>> [bool((row == text.mean(axis=0)).all()) for row in swapped]
    [True, True, False]
    """
    F, y = _ready(F, y)
    xp, n_classes = backend.namespace(F), text.shape[0]
    first = first_of_each_class(backend.to_numpy(y), ENOUGH_TO_BELIEVE)
    if len(first) < F.shape[0]:
        rows = backend.like(first, y)
        F, y, roots = some_rows(F, rows), y[rows], None if roots is None else roots[rows]
    # Weights of the rows of `F`, as in `Support`. They do not change the ranks within a row.
    weights = None if roots is None else roots**2
    extra = {} if weights is None else {"weights": weights}
    counts = xp.bincount(y, minlength=n_classes, **extra)
    counts = (1 + 1e-6) * backend.cast(counts, F.dtype)  # Ties must not depend on how a root's square is rounded.
    beaten = backend.zeros(F, (n_classes, 1))
    if float(xp.max(counts)) < ENOUGH_TO_DOUBT or n_classes < 2:
        return text
    height = rows_per_chunk(n_classes)
    for low in range(0, F.shape[0], height):
        scores, labels = team.matmul(F[low : low + height, :], text.T), y[low : low + height]
        own = scores[backend.arange(labels, labels.shape[0]), labels]
        worse = xp.count_nonzero(scores < own[:, None], axis=1)
        worse = backend.cast(worse, F.dtype)
        if weights is not None:
            worse = worse * weights[low : low + height]
        beaten = beaten + backend.sum_by_class(worse[:, None], labels, n_classes)
    limit = RANDOM_NAME * (n_classes - 1) * counts
    doubted = (beaten[:, 0] <= limit) & (counts >= ENOUGH_TO_DOUBT)
    return xp.where(doubted[:, None], xp.mean(text, axis=0)[None, :], text) if bool(xp.any(doubted)) else text


def pseudo_images(sums: Array, counts: Array, text: Array) -> Array:
    """An image of each class, made from its name: m_k = μ + s (t_k - t̄), of unit length.

    μ is the mean of the class means, t̄ that of the texts of classes with images, s >= 0 fits best what they have in
    common. So m_k is among images, where texts are not (the modality gap), and names that mean nothing give μ.

    >>> pseudo_images(np.eye(2), np.ones(2), np.eye(2)).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    xp = backend.namespace(sums)
    there = counts > 0
    means = sums[there, :] / backend.cast(counts[there], sums.dtype)[:, None]
    centre, apart = xp.mean(means, axis=0), text - xp.mean(text[there, :], axis=0)
    along = float((apart[there, :] ** 2).sum())
    s = float(((means - centre) * apart[there, :]).sum()) / along if along > 0 else 0.0
    return backend.unit_rows(centre + max(0.0, s) * apart)


def _alpha(F: Array, y: Array, text: Array, *, shared: bool) -> Array:
    F, y = _ready(F, y)
    counts = backend.namespace(y).bincount(y, minlength=text.shape[0])
    sums = class_sums(F, y, text.shape[0])
    return alpha_from_sums(sums, counts, backend.like(text, F, dtype=F.dtype), shared=shared)


def _ready(F: Array, y: Array) -> tuple[Array, Array]:
    """Embeddings in working precision, and labels on the same device."""
    F = backend.cast(F, backend.working_dtype(F))
    return F, backend.like(y, F)


def random_weights(F: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """A random W⁰ for the paper's comparison of starts: entries N(0, 1/D), so that rows have length about 1.

    >>> random_weights(np.eye(3), 2, np.random.default_rng(0)).shape
    (2, 3)
    """
    dim = F.shape[1]
    return backend.like(rng.standard_normal((n_classes, dim)) / dim**0.5, F, dtype=F.dtype)


def random_alpha(F: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """A random α⁰ for the same comparison: uniform between the values for cosines 0 and 1.

    The paper does not say how it drew its random start. This one has the same loss, about 20, and an accuracy as low.

    >>> bool((random_alpha(np.eye(3), 2, np.random.default_rng(0)) < 250).all())
    True
    """
    return backend.like(TEXT_STRENGTH * rng.uniform(size=n_classes), F, dtype=F.dtype)


STEEPEST = 100.0
"""Largest s: CLIP's own. If the names fit the support without error, the best s would be infinite."""


def weigh_prompts(task: Task) -> Task:
    """The task with its prompts averaged by their weights; the task itself if there is one prompt per class.

    CLIP's own model says how well an image f and a text t go together: p ∝ exp(s f·t). Applied to one class, with its
    mean image m_k and a uniform prior over its prompts, it gives the weight of each prompt:

        π_pk ∝ exp(s m_k·t_pk),        text of class k = Σ_p π_pk t_pk, of unit length.

    s is fitted to the support: the factor that gives its labels the highest likelihood with the plain averages as
    names. For names that the encoder does not understand s = 0, and the plain average stays. Cosines of a class's
    prompts with its images differ by a few hundredths only, so even with a single image most prompts keep some weight.
    A class without images keeps its average. TIMO (Li et al., 2024) has the same weights, with s from validation data.
    Measurements, and what did not help, are in docs/how-to/use-several-prompts.md.

    >>> import numpy as np
    >>> from lpplusplus._core.class_prompts import check_text
    >>> F = np.array([[1.0, 0.0], [0.8, 0.6]])
    >>> text, prompts = check_text(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.8, 0.6]]]))
    >>> weigh_prompts(Task(F, np.array([0, 1]), np.arange(2), text, prompts=prompts)).text.round(2)
    array([[0.99, 0.12],
           [0.72, 0.69]])
    """
    if task.prompts is None or task.text is None:
        return task
    F = unit_rows(task.X)
    means = backend.unit_rows(sum_by_class(F, task.y, task.n_classes))
    cosines = backend.namespace(F).stack([backend.row_dots(prompt, means) for prompt in task.prompts])
    text = weighted(task.prompts, cosines, likeliest_alpha(F, task.y, task.text, most=STEEPEST))
    return replace(task, text=text, prompts=None)
