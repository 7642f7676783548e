"""Whole job on made-up CLIP-like embeddings: python -m examples.quickstart

100 classes with a few examples each: what the class names alone know (zero-shot), what the examples alone know (a
visual probe), and both together (LP++). Replace `clip_like` by your own arrays and the rest stays as it is.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import lpplusplus
from benchmarks.synthetic import clip_like
from lpplusplus import LPPlusPlus


def main() -> None:
    """Fit, compare, save and load."""
    print("Made-up embeddings, 100 classes, test accuracy in %. No GPU, no download.\n")
    print(f"{'shots':>5} {'zero-shot':>10} {'visual probe':>13} {'LP++':>6} {'seconds':>8}  stopped by")
    for shots in (1, 2, 4, 8, 16):
        task = clip_like(100, shots)
        zero_shot = ((task.X_test @ task.text.T).argmax(axis=1) == task.y_test).mean()
        visual = LPPlusPlus().fit(task.X, task.y)
        start = time.perf_counter()
        probe = LPPlusPlus().fit(task.X, task.y, text=task.text)
        seconds = time.perf_counter() - start
        scores = (
            100 * s for s in (zero_shot, visual.score(task.X_test, task.y_test), probe.score(task.X_test, task.y_test))
        )
        print("{:5} {:10.1f} {:13.1f} {:6.1f} {:8.2f}  {}".format(shots, *scores, seconds, probe.selection_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.lpp"
        probe.save(path)
        again = lpplusplus.load(path)
        same = (again.decision_function(task.X_test) == probe.decision_function(task.X_test)).all()
        print(f"\nSaved to one file of {path.stat().st_size / 1e6:.1f} MB; loaded again, it predicts alike: {same}")


if __name__ == "__main__":
    main()
