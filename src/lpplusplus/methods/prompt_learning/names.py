"""What prompts call the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...encoders.class_text import display_name


def prompt_names(labels: np.ndarray[Any, Any], class_names: Sequence[str] | None = None) -> list[str]:
    """`class_names`, or the labels if these are names; underscores become spaces.

    >>> prompt_names(np.array(["red_fox", "owl"]))
    ['red fox', 'owl']
    >>> prompt_names(np.array([0, 1]), ["red fox", "owl"])
    ['red fox', 'owl']
    """
    if class_names is not None and len(class_names) != len(labels):
        raise ValueError(
            f"class_names has {len(class_names)} names for {len(labels)} classes: give one name per class, in the "
            f"order of classes= or of the sorted labels."
        )
    names = list(labels.tolist() if class_names is None else class_names)
    for label, name in zip(labels.tolist(), names, strict=True):
        if not isinstance(name, str) or not display_name(name):
            raise ValueError(
                f"class {label!r} has no name, and a prompt needs one: use class names as labels, or give them as "
                f"class_names=."
            )
    return [display_name(name) for name in names]
