"""A method of your own in a comparison: python examples/own_method.py

`MeanAndName` is a whole method: the average of a class's mean image and its name. It gets the checks, the labels of any
kind, `predict_proba`, `score` and scikit-learn's tools from the package, and is compared with three others on the same
draws. The images are drawn by the package, so the program needs no download.
"""

from __future__ import annotations

import numpy as np

from lpplusplus import LPPlusPlus, TipAdapter, ZeroShot
from lpplusplus.encoders import open_encoder
from lpplusplus.images.drawings import demo_classes, render
from lpplusplus.methods import FewShotClassifier, History, Task


class MeanAndName(FewShotClassifier):
    """Score a class by the cosine with a blend of its mean image and its name.

    Parameters
    ----------
    scale : float
        Factor of the cosines; it matters for probabilities, not for predictions.
    """

    normalize = True  # New images are scaled to unit length.

    def __init__(self, *, scale: float = 100.0) -> None:
        self.scale = scale

    def _fit_task(self, task: Task) -> None:
        """`task` has been checked: X (N, D), y (N,) with class indices, text (K, D) of unit length or None."""
        unit = task.X / np.linalg.norm(task.X, axis=1, keepdims=True)
        means = np.stack([unit[task.y == k].mean(axis=0) for k in range(task.n_classes)])
        blend = means / np.linalg.norm(means, axis=1, keepdims=True)
        if task.text is not None:
            blend = blend + task.text
        self.coef_ = self.scale * blend / np.linalg.norm(blend, axis=1, keepdims=True)
        self.intercept_ = np.zeros(task.n_classes, self.coef_.dtype)
        self.text_, self.history_ = task.text, History()


def embeddings(per_class: int, seed: int = 0):
    """Embeddings of drawings, (K, n, D), and of their names, (K, D)."""
    encoder, rng, concepts = open_encoder("drawings"), np.random.default_rng(seed), demo_classes()
    images = [render(concept.scene(rng), rng) for concept in concepts for _ in range(per_class)]
    text = encoder.encode_texts([f"a picture of a {concept.name}." for concept in concepts])
    return encoder.encode_images(images).reshape(len(concepts), per_class, -1), text


def main(per_class: int = 20, draws: int = 5) -> None:
    """Mean and standard deviation of the test accuracy of four methods over some draws of the examples."""
    X, text = embeddings(per_class)
    n_classes, _, dim = X.shape
    print(f"{n_classes} classes, {draws} draws, test accuracy in %\n{'examples per class':>20} {'1':>11} {'4':>11}")
    for method in (ZeroShot(), TipAdapter(), LPPlusPlus(), MeanAndName()):
        cells = []
        for shots in (1, 4):
            scores = []
            for seed in range(draws):
                order = np.random.default_rng(seed).permutation(per_class)
                support, test = X[:, order[:shots]], X[:, order[shots:]]
                labels = np.repeat(np.arange(n_classes), shots)
                truth = np.repeat(np.arange(n_classes), per_class - shots)
                method.fit(support.reshape(-1, dim), labels, text=text)
                scores.append(100 * method.score(test.reshape(-1, dim), truth))
            cells.append(f"{np.mean(scores):.1f} ± {np.std(scores):.1f}")
        print(f"{type(method).__name__:>20} {cells[0]:>11} {cells[1]:>11}")


if __name__ == "__main__":
    main()
