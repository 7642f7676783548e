"""LP++ itself: the model, its step sizes and start, solvers, and when to stop."""

from . import initialization as starts
from . import lipschitz as curvature
from . import objective, solvers

__all__ = ["curvature", "objective", "solvers", "starts"]
