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

from dataclasses import replace

from .._core import backend
from .._core.class_prompts import weighted
from .._core.rows import sum_by_class, unit_rows
from .._core.task import Task
from .initialization import likeliest_alpha

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
    F = unit_rows(task.X)
    means = backend.unit_rows(sum_by_class(F, task.y, task.n_classes))
    cosines = backend.namespace(F).stack([backend.row_dots(prompt, means) for prompt in task.prompts])
    text = weighted(task.prompts, cosines, likeliest_alpha(F, task.y, task.text, most=STEEPEST))
    return replace(task, text=text, prompts=None)
