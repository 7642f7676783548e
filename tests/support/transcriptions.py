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


def default_at_one_shot(F, y, T):
    """The default with one image per class: weights, alpha, and the mean loss of the images at each time point.

    The flow, in coordinates divided by the fourth root of their root mean square. A pseudo-image of each class, made
    from its name, counts as a tenth of an image.
    """
    K = len(T)
    F, T = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (F, T))
    M = np.stack([F[y == k].mean(axis=0) for k in range(K)])
    apart = T - T.mean(axis=0)
    slope = max(0.0, ((M - M.mean(axis=0)) * apart).sum() / (apart**2).sum())
    P = M.mean(axis=0) + slope * apart
    G, labels = np.concatenate([F, P / np.linalg.norm(P, axis=1, keepdims=True)]), np.concatenate([y, np.arange(K)])
    w = np.concatenate([np.ones(len(F)), np.full(K, 0.1)])
    squares = (F**2).mean(axis=0)
    b = np.maximum(np.sqrt(squares / squares.mean()), 0.01) ** 0.5
    Y, cosines = one_hot(labels, K), G @ T.T
    alpha = 250 * ((w[:, None] * Y * cosines).sum(axis=0) / (w @ Y)).mean()
    alphas = np.linspace(0, alpha, 200_001)
    low, high = 0, len(alphas) - 1  # The weighted loss of names alone is convex in alpha.
    while low < high:
        middle = (low + high) // 2
        expected = (softmax(alphas[middle] * cosines) * cosines).sum(axis=1) - (Y * cosines).sum(axis=1)
        low, high = (low, middle) if w @ expected > 1e-12 else (middle + 1, high)
    alpha = np.full(K, alphas[low]) * np.sqrt((w @ (G**2 / b)).sum() / (w @ G**2).sum())
    A, names = G / np.sqrt(b), T * np.sqrt(b)
    W = (w[:, None] * Y).T @ A
    values, V = np.linalg.eigh((w[:, None] * A).T @ A / w.sum())
    energy = w @ cosines**2 / w.sum()
    unit_w, unit_alpha = 4 / values[-1], 1 / (40 * energy.max())
    stop, now, losses = 3000 / 11, 0.0, []
    for end in [0.0, *(stop * 2.0**-j for j in range(5, 1, -1)), 0.4 * stop]:
        while now < end:
            p, before, target = softmax(logits(A, names, W, alpha)), mean_loss(A, labels, names, W, alpha, w), end
            R = w[:, None] * (p - Y) / w.sum()
            kappa = (1.5 if now < stop else 6.0) * (w @ (p * (1 - p)) / w.sum())
            while True:
                h = target - now
                step = h * unit_w * (R.T @ A @ V) / (1 + h * unit_w * kappa[:, None] * values) @ V.T
                along = (R * cosines).sum(axis=0)
                moved = W - step, alpha - h * unit_alpha * along / (1 + h * unit_alpha * kappa * energy)
                if mean_loss(A, labels, names, *moved, w) <= before:
                    break
                target = now + h / 2
            (W, alpha), now = moved, target
        losses.append(mean_loss(A[: len(F)], y, names, W, alpha, np.ones(len(F))))
        if losses[-1] < 1 / 12:
            break
    return W / np.sqrt(b) + alpha[:, None] * T, alpha, np.array(losses)


def mean_loss(F, y, T, W, alpha, w):
    """The weighted mean of -ln p of the right class."""
    p = softmax(logits(F, T, W, alpha))
    return -w @ np.log(p[np.arange(len(y)), y]) / w.sum()
