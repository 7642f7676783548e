"""The weight of each of a class's prompts, from the support.

CLIP's own model says how well an image f and a text t go together: p ∝ exp(s f·t). Applied to one class, with its mean
image m_k and a uniform prior over its prompts, it gives the weight of each prompt:

    π_pk ∝ exp(s m_k·t_pk),        text of class k = Σ_p π_pk t_pk, of unit length.

s is fitted to the support: the factor that gives its labels the highest likelihood with the plain averages as names.
For names that the encoder does not understand s = 0, and the plain average stays. Cosines of a class's prompts with its
images differ by a few hundredths only, so even with a single image most prompts keep some weight. A class without
images keeps its average.

TIMO (Li et al., 2024) has the same weights, with s from validation data. Measurements, and what did not help, are in
docs/how-to/use-several-prompts.md.
"""

from dataclasses import replace

from .._core import backend
from .._core.class_prompts import weighted
from .._core.rows import sum_by_class, unit_rows
from .._core.task import Task
from .initialization import likeliest_alpha

STEEPEST = 100.0
"""Largest s: CLIP's own. If the names fit the support without error, the best s would be infinite."""


def weigh_prompts(task: Task) -> Task:
    """The task with its prompts averaged by these weights; the task itself if there is one prompt per class.

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
