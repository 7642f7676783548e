"""Embeddings in, a classifier out: python examples/arrays.py

50 classes with a few examples each. What do the class names alone know (zero-shot), what the examples alone, and what
both together (LP++)? Then the classifier goes to one file and back. The embeddings are made up, so the program needs no
download: replace `made_up` by your own arrays, and the rest stays as it is.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import lpplusplus
from lpplusplus import LPPlusPlus, ZeroShot

CLASSES, DIM, TEST = 50, 256, 20


def made_up(shots: int, seed: int = 0):
    """Training images, their labels, test images, theirs, and one text embedding per class, somewhat as CLIP's are."""
    rng = np.random.default_rng(seed)

    def directions(n: int):
        return rng.standard_normal((n, DIM)) / DIM**0.5

    common, gap, varies = directions(1), directions(1), directions(24)  # Images vary most along a few directions.
    classes = directions(CLASSES) + 0.3 * rng.standard_normal((CLASSES, 24)) @ varies
    text = 0.25 * common + gap + 0.12 * classes + 0.25 * directions(CLASSES)

    def images(per_class: int):
        labels = np.repeat(np.arange(CLASSES), per_class)
        noise = 0.25 * rng.standard_normal((len(labels), 24)) @ varies + 2.6 * directions(len(labels))
        return 1.5 * common + 0.6 * classes[labels] + noise, labels

    return *images(shots), *images(TEST), text


def main() -> None:
    """Fit, compare, save and load."""
    print(f"Made-up embeddings, {CLASSES} classes, test accuracy in %. No GPU, no download.\n")
    print(f"{'examples per class':>18} {'names alone':>12} {'examples alone':>15} {'both':>6} {'seconds':>8}")
    for shots in (1, 2, 4, 8, 16):
        X, y, X_test, y_test, text = made_up(shots)
        names = ZeroShot().fit(X, y, text=text).score(X_test, y_test)
        examples = LPPlusPlus().fit(X, y).score(X_test, y_test)
        start = time.perf_counter()
        probe = LPPlusPlus().fit(X, y, text=text)
        seconds, both = time.perf_counter() - start, probe.score(X_test, y_test)
        print(f"{shots:18} {100 * names:12.1f} {100 * examples:15.1f} {100 * both:6.1f} {seconds:8.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.lpp"
        probe.save(path)
        again = lpplusplus.load(path)
        same = (again.decision_function(X_test) == probe.decision_function(X_test)).all()
        print(f"\nSaved to one file of {path.stat().st_size / 1e6:.1f} MB. Loaded again, it predicts the same: {same}")


if __name__ == "__main__":
    main()
