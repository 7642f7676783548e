"""How curved the loss is, and so how long a step may be (paper Prop. 1 and what it leaves out).

The Hessian of the softmax, Diag(p) - ppᵀ, has eigenvalues up to 1/2, reached when two classes share all the
probability. Bounding it by 1/4, as the paper's τ1 = 1 does, holds for most tasks and fails for two classes. τ = 2
always holds (it is the `certified` bound), and the text block's holds class by class. A plain step 1/γ_w with τ1 = 1 is
2/L for the true constant L and so still cannot raise the loss; only the guaranteed decrease is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from . import _arrays
from ._arrays import Array
from .objective import Objective, PrimalObjective, SpanObjective, Support


class Certified(NamedTuple):
    """Constants that bound the Hessian everywhere."""

    w: float
    """Of the visual block."""
    alpha: Array
    """Of the text block, one a class: the bound is diagonal."""
    joint: float
    """Of both blocks moved at once."""


def lambda_max(F: Array) -> float:
    """Largest eigenvalue of FᵀF, which is that of F Fᵀ; the smaller of the two is used.

    >>> import numpy as np
    >>> lambda_max(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    2.0
    """
    return float(_unlabelled(F).lambda_max)


def gamma_w(F: Array, tau: float = 1.0) -> float:
    """γ_w = τ/(4N) λ_max(FᵀF): curvature of the visual block; a step is 1/γ_w.

    >>> import numpy as np
    >>> gamma_w(np.array([[1.0, 0.0], [1.0, 0.0]]))
    0.25
    """
    return float(tau * lambda_max(F) / (4 * F.shape[0]))


def gamma_alpha(F: Array, text: Array, tau: float = 16.0) -> float:
    """γ_α = max_k τ/(4N) Σ_i (f_i·t_k)²: curvature of the text block.

    >>> import numpy as np
    >>> gamma_alpha(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    1.0
    """
    return text_constant(_unlabelled(F, text), tau)


def gamma_global(F: Array, text: Array, tau_w: float = 1.0, tau_alpha: float = 16.0) -> float:
    """max(γ_w, γ_α): the paper's constant for moving both blocks at once.

    >>> import numpy as np
    >>> gamma_global(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    1.0
    """
    return max(gamma_w(F, tau_w), gamma_alpha(F, text, tau_alpha))


def certified(F: Array, text: Array) -> Certified:
    """Constants that really bound the Hessian: τ1 = 2, τ2 = 2 class by class, and their sum for both blocks at once.

    >>> import numpy as np
    >>> certified(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    Certified(w=0.5, alpha=array([0.125, 0.   ]), joint=0.625)
    """
    return certified_constants(_unlabelled(F, text))


def step_size(gamma: Array) -> Array:
    """1/γ, a number or one a class; 0 where there is no curvature, since nothing moves there either.

    >>> step_size(0.25)
    4.0
    >>> import numpy as np
    >>> step_size(np.array([0.5, 0.0]))
    array([2., 0.])
    """
    if isinstance(gamma, int | float):
        return 1 / gamma if gamma > 0 else 0.0
    xp = _arrays.namespace(gamma)
    flat = gamma <= 0
    return xp.where(flat, 0 * gamma, 1 / xp.where(flat, gamma + 1, gamma))


def visual_constant(objective: Objective, tau: float) -> float:
    """`gamma_w` of an objective."""
    return tau * objective.lambda_max / (4 * objective.support.size)


def text_constant(objective: Objective, tau: float) -> float:
    """`gamma_alpha` of an objective."""
    xp = _arrays.namespace(objective.support.F)
    return tau / 4 * float(xp.max(objective.score_energy))


def certified_constants(objective: Objective, *, intercept: bool = False) -> Certified:
    """`certified` of an objective; with an intercept, which moves with W, that of the two together."""
    xp = _arrays.namespace(objective.support.F)
    w = visual_constant(objective, 2.0)
    if intercept:
        w += 0.5  # An intercept is the weight of a feature that is 1 in all images.
    if objective.support.text is None:
        return Certified(w, _arrays.zeros(objective.support.F, (objective.support.n_classes,)), w)
    alpha = objective.score_energy / 2
    return Certified(w, alpha, w + float(xp.max(alpha)))


def _unlabelled(F: Array, text: Array | None = None) -> Objective:
    """An objective for questions that labels and prototypes have no part in."""
    n_classes = 1 if text is None else text.shape[0]
    F = _arrays.cast(F, _arrays.working_dtype(F))
    y = _arrays.zeros(F, (F.shape[0],), dtype=_arrays.namespace(F).int64)
    text = None if text is None else _arrays.like(text, F, dtype=F.dtype)
    form = SpanObjective if F.shape[0] < F.shape[1] else PrimalObjective
    return form(Support.of(F, y, n_classes, text))
