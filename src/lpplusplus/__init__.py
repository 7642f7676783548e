"""LP++: few-shot classification on image–text embeddings with a linear probe that knows the class names.

>>> import lpplusplus
>>> probe = lpplusplus.LPPlusPlus()
"""

from .many import fit_many
from .persistence import ModelFormatError, load
from .probe import LPPlusPlus
from .selection import History

__version__ = "0.1.0"
__all__ = ["History", "LPPlusPlus", "ModelFormatError", "fit_many", "load"]
