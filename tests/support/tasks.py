"""Small random tasks that look like CLIP features."""

import numpy as np


def small_task(K, S, D, seed, n_extra=0):
    """Float64 unit features ``F``, shuffled labels ``y`` and unit text ``T``.

    Image features share a common component (cosine about 0.5 between any two); an image is a
    little closer to the text of its own class (about 0.21) than to another (about 0.16). Every
    class has S examples; ``n_extra`` more of random classes make the task unbalanced. D >= 4.
    """
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat(np.arange(K), S), rng.integers(0, K, n_extra)])
    rng.shuffle(y)

    # Axis 0 is what all images share, axis 1 is the text side of the modality gap, and classes
    # and noise share the rest, with falling variance; a random rotation then hides the axes.
    scale = np.concatenate([[0, 0], np.arange(1, D - 1) ** -0.5])

    def unit(X):
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    def class_space(rows):
        return scale * rng.normal(size=(rows, D))

    U = unit(class_space(K))
    own = 0.5 * U[y] + 0.85 * unit(class_space(len(y)))
    F = unit(np.eye(D)[0] + unit(own) + 0.05 * rng.normal(size=(len(y), D)) / np.sqrt(D))
    T = 0.22 * np.eye(D)[0] + 0.15 * U + 0.1 * unit(class_space(K))
    T[:, 1] = np.sqrt(1 - (T**2).sum(axis=1))
    Q = np.linalg.qr(rng.normal(size=(D, D)))[0]
    return F @ Q, y, T @ Q
