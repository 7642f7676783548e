"""Solvers, all with the contract of `base`. One file each, named after what it does."""

from .adam import Adam
from .base import Iterate, Observer, Solver
from .block_mm import BlockMM
from .flow import Flow
from .gradient_descent import GradientDescent
from .heavy_ball import HeavyBall
from .lbfgs import LBFGS

__all__ = [
    "LBFGS",
    "Adam",
    "BlockMM",
    "Flow",
    "GradientDescent",
    "HeavyBall",
    "Iterate",
    "Observer",
    "Solver",
]
