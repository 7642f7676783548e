"""The objective of LP++ and its conventions, stated here once.

- Shapes:
  N support images, K classes, D embedding dimensions. `F` (N, D) image embeddings f_i, unit rows by default;
  `y` (N,) class indices 0 … K-1; `text` (K, D) unit class-name embeddings t_k; `W` (K, D) visual prototypes w_k;
  `alpha` (K,) text weights α_k; `intercept` (K,) b_k, absent in the paper, present in its released code.
- Loss (paper eq. 3):
  L = -(1/N) Σ_i ln p_i,y(i): the mean over images, without any penalty.
- Model (paper eq. 4):
  Logits l_ik = f_i·(w_k + α_k t_k) + b_k, probabilities p_i = softmax(l_i). No temperature: α_k ≈ 50 takes its place.
- Gradients, with the residual R = P - Y (one-hot Y):
  ∂L/∂W = Rᵀ F / N,   ∂L/∂α_k = (1/N) Σ_i R_ik f_i·t_k = (∂L/∂w_k)·t_k,   ∂L/∂b = (1/N) Σ_i R_i.
- Effective weights:
  Only v_k = w_k + α_k t_k enters the logits, so v is what is stored and multiplied. α is kept beside it, and
  w_k = v_k - α_k t_k is recovered at the end. An α step adds Δα_k t_k to v_k.
- Orientation:
  Inside the solvers the class axis comes last: coordinates of v are an (M, K) array. M is D where the solver works on
  the weights themselves (`primal`), 2N where it works in the span of the support (`span`).
- Frozen classes:
  A class without examples does not move: its gradients are zero, and its score stays α_k f·t_k.

`loss` and `gradients` take plain arrays. `Objective` is what solvers see, in two exact forms: `primal` and `span`.
"""

from .base import Coefficients, Evaluation, Objective, Point, Watch
from .forms import best_form, cost_of_evaluation, form_on_weights, gradients, loss
from .primal import PrimalObjective
from .span import SpanObjective
from .support import Support

__all__ = [
    "Coefficients",
    "Evaluation",
    "Objective",
    "Point",
    "PrimalObjective",
    "SpanObjective",
    "Support",
    "Watch",
    "best_form",
    "cost_of_evaluation",
    "form_on_weights",
    "gradients",
    "loss",
]
