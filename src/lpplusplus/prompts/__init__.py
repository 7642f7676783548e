"""The prompt learners that the LP++ paper compares with: words before the class name, learned through the text tower.

Unlike all other methods here they are not black-box: they need the text tower's weights and its gradient.
"""

from .coop import CoOp
from .kgcoop import KgCoOp
from .plot import PLOT
from .prograd import ProGrad

__all__ = ["PLOT", "CoOp", "KgCoOp", "ProGrad"]
