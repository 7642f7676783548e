"""When prompt learners pay: the tests' own example, against zero-shot and LP++.

    python -m benchmarks.prompt_learning                # trains the small model first, half a minute
    python -m benchmarks.prompt_learning --json

The model and the task are those of `benchmarks.contrastive`: the colour of the background, with bare colours for names.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contrastive
from lpplusplus import PLOT, CoOp, KgCoOp, LPPlusPlus, ProGrad, ZeroShot
from lpplusplus.encoders import open_encoder
from lpplusplus.encoders.prompts import class_texts

SHOTS = (4, 16)
METHODS = (CoOp, KgCoOp, ProGrad, PLOT)


def run(seeds: int) -> dict[str, Any]:
    """Accuracy in percent of every method, by shots, one for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        encoder: Any = open_encoder(contrastive.train(Path(folder)))
    names = list(contrastive.COLOURS)
    X_test, y_test = contrastive.task(encoder, 40, np.random.default_rng(99))

    def zero_shot(template: str) -> float:
        model = ZeroShot().fit(X_test[:, 0], y_test, text=class_texts(encoder, names, template), classes=names)
        return 100 * float(model.score(X_test[:, 0], y_test))

    found: dict[str, Any] = {
        "zero-shot": zero_shot("a photo of a {}."),
        "zero-shot, better words": zero_shot("a photo of a {} background."),
    }
    text = class_texts(encoder, names)
    for shots in SHOTS:
        scores: dict[str, list[float]] = {}
        for seed in range(seeds):
            X, y = contrastive.task(encoder, shots, np.random.default_rng(seed))
            probe = LPPlusPlus(random_state=seed).fit(X[:, 0], y, text=text, classes=names)
            scores.setdefault("LP++", []).append(100 * float(probe.score(X_test[:, 0], y_test)))
            for method in METHODS:
                some, test = (X, X_test) if method is PLOT else (X[:, 0], X_test[:, 0])
                model = method(encoder=encoder, random_state=seed).fit(some, y, classes=names)
                scores.setdefault(method.__name__, []).append(100 * float(model.score(test, y_test)))
        found[str(shots)] = scores
    return found


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="every accuracy as JSON instead of a table")
    options = parser.parse_args(arguments)
    found = run(options.seeds)
    if options.json:
        print(json.dumps(found))
        return
    print(f"zero-shot {found['zero-shot']:.1f}, with better words {found['zero-shot, better words']:.1f}\n")
    names = [method.__name__ for method in METHODS] + ["LP++"]
    print("| shots | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for shots in SHOTS:
        cells = [f"{np.mean(found[str(shots)][n]):.1f} ± {np.std(found[str(shots)][n], ddof=1):.1f}" for n in names]
        print(f"| {shots} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
