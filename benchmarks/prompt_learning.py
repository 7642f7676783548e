"""What prompt learners reach on pictures from elsewhere, against zero-shot and LP++.

    python -m benchmarks.prompt_learning                # the embedded model's shifted demonstration task
    python -m benchmarks.prompt_learning --authors      # the same with the settings that are for CLIP
    python -m benchmarks.prompt_learning background     # where the words are the problem; trains a model for it first
    python -m benchmarks.prompt_learning --json

Accuracy in percent, mean and standard deviation over three supports; the test images are the same for all.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contrastive
from embedded_model.as_open_clip import as_open_clip
from embedded_model.evaluate import rendered_task
from lpplusplus import PLOT, CoOp, KgCoOp, LPPlusPlus, ProGrad, ZeroShot
from lpplusplus.encoders import open_encoder
from lpplusplus.encoders.prompts import class_texts
from lpplusplus.scenes import demo_classes

SHOTS = (4, 16)
METHODS = (CoOp, KgCoOp, ProGrad, PLOT)
TEST_SEED, TEST_IMAGES = 2024, 40
FIRST_SEED = 10
"""Of supports. Those below it, and other test images, have served to find the settings of `demo`."""


@dataclass(frozen=True)
class Example:
    """A model, a task for it, and how prompts are learned there."""

    encoder: Any
    names: list[str]
    draw: Callable[[int, int], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
    """Tokens (n, 1 + places, D) and labels of so many pictures a class, from a seed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters of all four methods, where they are not the authors'."""
    epochs: dict[int, int] = field(default_factory=dict)
    """By shots, where they are not the authors'."""
    better_template: str | None = None
    """What a person who knows the task would write."""

    def learner(self, method: type, shots: int, seed: int) -> Any:
        """One of the methods, not yet fitted."""
        # As its authors do where places alone say too little: on ImageNet.
        own = {"global_term": True} if method is PLOT and self.settings else {}
        return method(encoder=self.encoder, random_state=seed, epochs=self.epochs.get(shots), **self.settings, **own)


def demo() -> Example:
    """The embedded model's 24 classes in the shifted domain.

    The authors' settings are for CLIP. This text tower is a quarter as wide and a sixth as deep and knows few words:
    sixteen random vectors confuse it, while a start at the template's words and a rate of 0.2 suit it.
    """
    encoder, names = as_open_clip(), [concept.name for concept in demo_classes()]

    def draw(shots: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        import torch

        images, labels = rendered_task(shots, seed, "shifted")
        with torch.inference_mode():
            batches = (images[a : a + 64] for a in range(0, len(images), 64))
            pixels = (torch.from_numpy(np.stack([encoder.prepare(one) for one in batch])) for batch in batches)
            tokens = [encoder.model.visual.tokens(batch).numpy() for batch in pixels]
        return np.concatenate(tokens), np.array(names)[labels]

    settings = {"learning_rate": 0.2, "context_init": "a photo of a", "n_context": 4}
    return Example(encoder, names, draw, settings, epochs={4: 30, 16: 10})  # Some hundred steps either way.


def background(folder: Path) -> Example:
    """The colour of the background with bare colours for names, by the model and with the pictures of `contrastive`."""
    encoder = open_encoder(contrastive.train(folder))

    def draw(shots: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return contrastive.task(encoder, shots, np.random.default_rng(seed))

    return Example(encoder, list(contrastive.COLOURS), draw, better_template="a photo of a {} background.")


def run(example: Example, seeds: int) -> dict[str, Any]:
    """Accuracy in percent of every method, by shots, one for each seed."""
    encoder, names = example.encoder, example.names
    X_test, y_test = example.draw(TEST_IMAGES, TEST_SEED)

    def zero_shot(template: str) -> float:
        model = ZeroShot().fit(X_test[:, 0], y_test, text=class_texts(encoder, names, template), classes=names)
        return 100 * float(model.score(X_test[:, 0], y_test))

    found: dict[str, Any] = {"zero-shot": zero_shot("a photo of a {}.")}
    if example.better_template is not None:
        found["zero-shot, better words"] = zero_shot(example.better_template)
    text = class_texts(encoder, names)
    for shots in SHOTS:
        scores: dict[str, list[float]] = {}
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            X, y = example.draw(shots, seed)
            probe = LPPlusPlus(random_state=seed).fit(X[:, 0], y, text=text, classes=names)
            scores.setdefault("LP++", []).append(100 * float(probe.score(X_test[:, 0], y_test)))
            for method in METHODS:
                some, test = (X, X_test) if method is PLOT else (X[:, 0], X_test[:, 0])
                model = example.learner(method, shots, seed).fit(some, y, classes=names)
                scores.setdefault(method.__name__, []).append(100 * float(model.score(test, y_test)))
        found[str(shots)] = scores
    return found


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("example", nargs="?", choices=("demo", "background"), default="demo")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--authors", action="store_true", help="the authors' settings, whatever the example")
    parser.add_argument("--json", action="store_true", help="every accuracy as JSON instead of a table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        example = demo() if options.example == "demo" else background(Path(folder))
        found = run(replace(example, settings={}, epochs={}) if options.authors else example, options.seeds)
    if options.json:
        print(json.dumps(found))
        return
    print(", ".join(f"{name} {value:.1f}" for name, value in found.items() if isinstance(value, float)) + "\n")
    names = [method.__name__ for method in METHODS] + ["LP++"]
    print("| shots | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for shots in SHOTS:
        cells = [_cell(found[str(shots)][name]) for name in names]
        print(f"| {shots} | " + " | ".join(cells) + " |")


def _cell(scores: list[float]) -> str:
    spread = f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.1f}{spread}"


if __name__ == "__main__":
    main()
