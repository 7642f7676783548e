"""The solvers of `LPPlusPlus(solver=...)`, by a short name: `from lpplusplus.solvers import Flow`."""

from .probe.solvers import *  # noqa: F403
from .probe.solvers import __all__ as __all__
