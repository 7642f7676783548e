"""What each of a class's prompts is worth, by the support.

CLIP's own model says how well an image f and a text t go together: p ∝ exp(s f·t). Read for one class, with its mean
image m_k and its prompts, all equally likely before, it gives the weight of each prompt:

    π_pk ∝ exp(s m_k·t_pk),        text of class k = Σ_p π_pk t_pk, of unit length.

s is the support's own: the factor under which the plain averages are the likeliest names of its images. Names that the
encoder does not understand have s = 0, and the plain average stays. Cosines of a class's prompts with its images differ
by a few hundredths only, so even a single image leaves most prompts a part. A class without images keeps its average.

TIMO (Li et al., 2024) has the same weights, with s from validation data. docs/how-to/use-several-prompts.md has what
was measured, and what did not help.
"""

from __future__ import annotations

from dataclasses import replace

from .._core import backend
from .._core.backend import Array
from .._core.class_prompts import weighted
from .._core.softmax import softmax
from .._core.task import Task

STEEPEST = 100.0
"""Largest factor of cosines: CLIP's own. A support that its names fit without error would ask for more than any."""


def weigh_prompts(task: Task) -> Task:
    """The task with the text that its prompts and its support make; itself where there is one prompt per class.

    >>> import numpy as np
    >>> from lpplusplus._core.class_prompts import check_text
    >>> F = np.array([[1.0, 0.0], [0.8, 0.6]])
    >>> text, prompts = check_text(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.8, 0.6]]]))
    >>> weigh_prompts(Task(F, np.array([0, 1]), 2, text, None, None, prompts=prompts)).text.round(2)
    array([[0.99, 0.12],
           [0.72, 0.69]])
    """
    if task.prompts is None or task.text is None:
        return task
    F = backend.unit_rows(task.X)
    means = backend.unit_rows(backend.sum_by_class(F, task.y, task.n_classes))
    cosines = backend.namespace(F).stack([backend.row_dots(prompt, means) for prompt in task.prompts])
    text = weighted(task.prompts, cosines, temperature(F, task.y, task.text))
    return replace(task, text=text, prompts=None)


def temperature(F: Array, y: Array, text: Array) -> float:
    """The factor s of cosines under which `text` are the likeliest names of the images, between 0 and `STEEPEST`.

    >>> import numpy as np
    >>> F, text = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.eye(2)
    >>> round(temperature(F, np.array([0, 1, 0]), text), 2), temperature(F, np.array([1, 0, 0]), text)
    (2.7, 0.0)
    """
    xp, cosines = backend.namespace(F), F @ text.T
    own = float(xp.sum(cosines[backend.arange(F, F.shape[0]), y]))

    def slope(s: float) -> float:
        """Of the log-loss, which is convex in s."""
        p = s * cosines
        softmax(p, out=p)
        return float(xp.sum(p * cosines)) - own

    low, high = 0.0, STEEPEST
    if slope(high) <= 0:
        return high
    while slope(low) < 0 and high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low
