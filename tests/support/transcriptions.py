"""Plain float64 transcriptions of LP++, to compare the library against.

Written from the paper's formulas, with one-hot labels, full eigenvalue decompositions and no
shortcuts; nothing here imports the library. Shapes: features ``F`` (N, D), class indices ``y``
(N,), text ``T`` (K, D), weights ``W`` (K, D), blending ``alpha`` (K,), bias ``b`` (K,).
"""

import numpy as np


def logits(F, T, W, alpha, b=0.0):
    """l_ik = f_i . (w_k + alpha_k t_k) [+ b_k]: the model, paper section 2."""
    return F @ (W + alpha[:, None] * T).T + b


def one_hot(y, K):
    """Labels y_ik as an (N, K) array of zeros and ones."""
    return np.eye(K)[y]


def softmax(Z):
    """p_ik of the logits ``Z``: eq. 4."""
    E = np.exp(Z - Z.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def gradients(F, Y, T, W, alpha, b=0.0):
    """dL/dW, dL/dalpha and dL/db of the mean cross-entropy: eq. 3."""
    R = (softmax(logits(F, T, W, alpha, b)) - Y) / len(F)
    return R.T @ F, (R * (F @ T.T)).sum(axis=0), R.sum(axis=0)


def gamma_w(F, tau):
    """gamma_w = tau/(4N) lambda_max(sum_i f_i f_i^T): Prop. 1, W block."""
    return tau / (4 * len(F)) * np.linalg.eigvalsh(F.T @ F)[-1]


def gamma_alpha(F, T, tau):
    """gamma_alpha = max_k tau/(4N) sum_i (f_i . t_k)^2: Prop. 1, alpha block."""
    return tau / (4 * len(F)) * ((F @ T.T) ** 2).sum(axis=0).max()


def start(F, Y, T, alpha_init):
    """w_k = sum_i y_ik f_i and alpha_k = 250 * mean cosine of class k, or its class average: Prop. 2."""
    W = Y.T @ F
    alpha = 250 * (Y * (F @ T.T)).sum(axis=0) / Y.sum(axis=0)
    if alpha_init == "shared":
        alpha = np.full(len(T), alpha.mean())
    return W, alpha


def algorithm_1(F, y, T, *, updates=300, cycle=(10, 1), tau_w=1.0, tau_alpha=16.0, alpha_init="shared"):
    """Algorithm 1 of the paper (block MM); the ``updates + 1`` iterates ``(W, alpha)``."""
    Y = one_hot(y, len(T))
    W, alpha = start(F, Y, T, alpha_init)
    step_w, step_alpha = 1 / gamma_w(F, tau_w), 1 / gamma_alpha(F, T, tau_alpha)
    iterates = [(W, alpha)]
    for update in range(updates):
        gradient_w, gradient_alpha, _ = gradients(F, Y, T, W, alpha)
        if update % sum(cycle) < cycle[0]:
            W = W - step_w * gradient_w
        else:
            alpha = alpha - step_alpha * gradient_alpha
        iterates.append((W, alpha))
    return iterates


def released_loop(F, y, T, b0, *, iterations=300):
    """The authors' program: momentum 0.9, a bias, and alpha gradients that are never cleared.

    Every tenth iteration moves alpha by the sum of all alpha gradients so far, the last one taken
    before that iteration's W step. Returns the ``iterations + 1`` iterates ``(W, b, alpha)``.
    """
    Y = one_hot(y, len(T))
    W, alpha = start(F, Y, T, "shared")
    b = np.array(b0, dtype=float)
    lr_w, lr_alpha = 1 / gamma_w(F, 1.0), 1 / gamma_alpha(F, T, 16.0)
    velocity_w, velocity_b, alpha_sum = np.zeros_like(W), np.zeros_like(b), np.zeros_like(alpha)
    iterates = [(W, b, alpha)]
    for iteration in range(1, iterations + 1):
        gradient_w, gradient_alpha, gradient_b = gradients(F, Y, T, W, alpha, b)
        alpha_sum = alpha_sum + gradient_alpha
        velocity_w = 0.9 * velocity_w + gradient_w
        velocity_b = 0.9 * velocity_b + gradient_b
        W = W - lr_w * velocity_w
        b = b - lr_w * velocity_b
        if iteration % 10 == 0:
            alpha = alpha - lr_alpha * alpha_sum
        iterates.append((W, b, alpha))
    return iterates


def gradient_descent(F, y, T, gamma, updates):
    """Single-block GD: steps 1/gamma on W and alpha together; ``updates + 1`` iterates."""
    Y = one_hot(y, len(T))
    W, alpha = start(F, Y, T, "shared")
    iterates = [(W, alpha)]
    for _ in range(updates):
        gradient_w, gradient_alpha, _ = gradients(F, Y, T, W, alpha)
        W, alpha = W - gradient_w / gamma, alpha - gradient_alpha / gamma
        iterates.append((W, alpha))
    return iterates
