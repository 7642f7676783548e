"""Lipschitz constants of the gradients (paper Prop. 1 and eq. 12), and so how long a step may be.

The Hessian of the softmax, Diag(p) - ppᵀ, has eigenvalues up to 1/2, reached when two classes share all the
probability. The paper's τ1 = 1 bounds it by 1/4, which holds for most tasks and fails for two classes. τ = 2 always
holds, for the text block class by class (`certified`). With such constants a step lowers the loss by at least
‖g‖²/2γ (Lemma 2.1) and descent converges as O(1/J) (Theorem 2.2, whose distance ‖v⁰ - v*‖ is to be squared). A plain
step 1/γ_w with τ1 = 1 is 2/L for the true constant L: it cannot raise the loss either, but nothing says by how much it
lowers it.

Every function takes plain arrays, or an `Objective` in place of `F`, which then needs no `text`.
"""

from typing import NamedTuple

from .._core import backend
from .._core.backend import Array
from .objective import Objective, PrimalObjective, SpanObjective, Support


class Certified(NamedTuple):
    """Constants that bound the Hessian everywhere."""

    w: float
    """Of the visual block."""
    alpha: Array
    """Of the text block, one per class: the bound is diagonal."""
    joint: float
    """Of both blocks moved at once."""


def lambda_max(F: Array | Objective) -> float:
    """Largest eigenvalue of FᵀF. F Fᵀ has the same; the smaller matrix is used.

    >>> import numpy as np
    >>> lambda_max(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    2.0
    """
    return _objective(F).lambda_max


def gamma_w(F: Array | Objective, tau: float = 1.0) -> float:
    """γ_w = τ1/(4N) λ_max(FᵀF) (Prop. 1): curvature of the visual block; a step is 1/γ_w.

    >>> import numpy as np
    >>> gamma_w(np.array([[1.0, 0.0], [1.0, 0.0]]))
    0.25
    """
    objective = _objective(F)
    return tau * objective.lambda_max / (4 * objective.support.total)


def gamma_alpha(F: Array | Objective, text: Array | None = None, tau: float = 16.0) -> float:
    """γ_α = max_k τ2/(4N) Σ_i (f_i·t_k)² (Prop. 1): curvature of the text block.

    >>> import numpy as np
    >>> gamma_alpha(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    1.0
    """
    energy = _objective(F, text).score_energy
    return tau / 4 * float(backend.namespace(energy).max(energy))


def gamma_global(
    F: Array | Objective, text: Array | None = None, tau_w: float = 1.0, tau_alpha: float = 16.0, tau: float = 1.0
) -> float:
    """γ = τ max(γ_w, γ_α) (eq. 12): curvature of both blocks moved at once, with the τ = 1 of the paper's comparisons.

    τ = 2 would make it a bound if γ_w and γ_α are bounds. Their sum is a bound too, and smaller (`certified`).

    >>> import numpy as np
    >>> gamma_global(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    1.0
    """
    objective = _objective(F, text)
    return tau * max(gamma_w(objective, tau_w), gamma_alpha(objective, tau=tau_alpha))


def certified(F: Array | Objective, text: Array | None = None, *, intercept: bool = False) -> Certified:
    """Constants that bound the Hessian: τ1 = 2, τ2 = 2 for each class, and their sum for both blocks at once.

    With `intercept`, which moves together with W, the first constant is for both.

    >>> import numpy as np
    >>> certified(np.array([[1.0, 0.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    Certified(w=0.5, alpha=array([0.125, 0.   ]), joint=0.625)
    """
    objective = _objective(F, text)
    w = gamma_w(objective, 2.0)
    if intercept:
        w += 0.5  # An intercept is the weight of a feature that is 1 in all images.
    if objective.support.text is None:
        return Certified(w, backend.zeros(objective.support.F, (objective.support.n_classes,)), w)
    alpha = objective.score_energy / 2
    return Certified(w, alpha, w + float(backend.namespace(alpha).max(alpha)))


def step_size(gamma: Array) -> Array:
    """1/γ, for one number or one per class; 0 where there is no curvature, since nothing moves there either.

    >>> step_size(0.25)
    4.0
    >>> import numpy as np
    >>> step_size(np.array([0.5, 0.0]))
    array([2., 0.])
    """
    if isinstance(gamma, int | float):
        return 1 / gamma if gamma > 0 else 0.0
    xp = backend.namespace(gamma)
    flat = gamma <= 0
    return xp.where(flat, 0 * gamma, 1 / xp.where(flat, gamma + 1, gamma))


def _objective(F: Array | Objective, text: Array | None = None) -> Objective:
    """`F` itself, or an objective of these arrays for questions that do not depend on labels."""
    if isinstance(F, Objective):
        return F
    n_classes = 1 if text is None else text.shape[0]
    F = backend.cast(F, backend.working_dtype(F))
    y = backend.zeros(F, (F.shape[0],), dtype=backend.namespace(F).int64)
    text = None if text is None else backend.like(text, F, dtype=F.dtype)
    form = SpanObjective if F.shape[0] < F.shape[1] else PrimalObjective
    return form(Support(F, y, n_classes, text))
