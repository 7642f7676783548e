"""Every other classifier on embeddings, one file each, all with the contract of `LPPlusPlus`.

Files that begin with an underscore are helpers: `_training.py` is what the methods trained with torch share,
`_prompts.py` what the prompt learners share.
"""

from .._core.base import FewShotClassifier
from .._core.history import History
from .._core.task import Task

__all__ = ["FewShotClassifier", "History", "Task"]
