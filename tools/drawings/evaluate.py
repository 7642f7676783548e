"""Measure the exported model: `python -m tools.drawings.evaluate [--json]`. onnxruntime, no torch.

A freshly rendered task of the shifted domain, which training never saw: zero-shot, LP++ with text, and the visual
probe without text, at 1 to 16 shots, averaged over draws of the support. Also zero-shot in the training domain, and
on colour × shape pairs that training never showed.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lpplusplus import LPPlusPlus
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.onnx import OnnxEncoder
from lpplusplus.images.drawings import Scene, Thing, demo_classes
from lpplusplus.images.drawings.scene import COLOURS

from .captions import describe
from .plain import render
from .random_scenes import HELD_OUT_PAIRS

TEMPLATE = "a photo of a {}."
SHOTS = (1, 2, 4, 8, 16)
Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


def rendered_task(per_class: int, seed: int, domain: str) -> tuple[list[Image.Image], Labels]:
    """Pictures of every class of the demonstration, through JPEG as `write_demo` does, and their class indices."""
    images, labels = [], []
    for index, concept in enumerate(demo_classes()):
        rng = np.random.default_rng((seed, index))
        images += [_jpeg(render(concept.scene(rng), rng, domain)) for _ in range(per_class)]
        labels += [index] * per_class
    return images, np.array(labels)


def held_out_pairs(encoder: OnnxEncoder, per_pair: int, seed: int) -> float:
    """Zero-shot accuracy, in the plain domain, on pairs of colour and shape that training never showed."""
    rng, images, labels = np.random.default_rng(seed), [], []
    for index, (colour, shape) in enumerate(HELD_OUT_PAIRS):
        others = [c for c in COLOURS if c != colour]
        for _ in range(per_pair):
            scene = Scene(Thing(shape, colour), background=str(rng.choice(others)))
            images.append(render(scene, rng, "plain"))
            labels.append(index)
    names = [describe(Thing(shape, colour)) for colour, shape in HELD_OUT_PAIRS]
    # Every other shape in the same colour and every other colour of the same shape would do too, so all pairs compete.
    shapes, colours = sorted({s for _, s in HELD_OUT_PAIRS}), list(COLOURS)
    rivals = [f"{c} {s}" for c in colours for s in shapes if f"{c} {s}" not in names]
    text = encoder.encode_texts([TEMPLATE.format(name) for name in [*names, *rivals]])
    return float(np.mean((encoder.encode_images(images) @ text.T).argmax(axis=1) == labels))


def zero_shot(X: Floats, y: Labels, text: Floats) -> float:
    """Accuracy of the nearest class name."""
    return float(np.mean((X @ text.T).argmax(axis=1) == y))


def accuracies(
    pool: tuple[Floats, Labels], test: tuple[Floats, Labels], text: Floats, shots: int, seed: int
) -> tuple[float, float]:
    """Accuracy of LP++ and of the visual probe, both fitted to the same support drawn from the pool."""
    rng, (X, y), (X_test, y_test) = np.random.default_rng(seed), pool, test
    support = np.concatenate([rng.choice(np.flatnonzero(y == k), shots, replace=False) for k in range(len(text))])
    with_text = LPPlusPlus().fit(X[support], y[support], text=text)
    visual = LPPlusPlus(alpha="none").fit(X[support], y[support])
    return float(np.mean(with_text.predict(X_test) == y_test)), float(np.mean(visual.predict(X_test) == y_test))


def measure(encoder: OnnxEncoder, seeds: int = 20, test_per_class: int = 100) -> dict[str, Any]:
    """All figures, in per cent."""
    text = encoder.encode_texts([TEMPLATE.format(concept.name) for concept in demo_classes()])
    test, pool, plain = (
        (encoder.encode_images(images), labels)
        for images, labels in (
            rendered_task(test_per_class, 1, "shifted"),
            rendered_task(4 * max(SHOTS), 2, "shifted"),
            rendered_task(test_per_class // 4, 3, "plain"),
        )
    )
    rows = []
    for shots in SHOTS:
        results = 100 * np.array([accuracies(pool, test, text, shots, seed) for seed in range(seeds)])
        (with_text, visual), (spread, _) = results.mean(axis=0), results.std(axis=0)
        rows.append({"shots": shots, "visual probe": visual, "LP++": with_text, "LP++ std": spread})
    return {
        "classes": len(text),
        "test images": len(test[1]),
        "seeds": seeds,
        "chance": 100 / len(text),
        "zero-shot": 100 * zero_shot(*test, text),
        "zero-shot, plain domain": 100 * zero_shot(*plain, text),
        "zero-shot, held-out pairs": 100 * held_out_pairs(encoder, 10, 4),
        "by shots": rows,
        "zero-shot by class": {
            concept.name: 100 * zero_shot(test[0][test[1] == k], test[1][test[1] == k], text)
            for k, concept in enumerate(demo_classes())
        },
    }


def _jpeg(image: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=92)
    return Image.open(buffer).convert("RGB")


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=FOLDERS["drawings"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(OnnxEncoder(str(options.model), threads=1), options.seeds)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for key, value in figures.items():
        if not isinstance(value, list | dict):
            print(f"{key:28} {value:6.1f}" if isinstance(value, float) else f"{key:28} {value:6d}")
    print("\nshots  visual probe  zero-shot    LP++")
    for row in figures["by shots"]:
        print(
            f"{row['shots']:5d}  {row['visual probe']:12.1f}  {figures['zero-shot']:9.1f}  "
            f"{row['LP++']:6.1f} ± {row['LP++ std']:.1f}"
        )
    print()
    for name, value in figures["zero-shot by class"].items():
        print(f"{name:28} {value:6.1f}")


if __name__ == "__main__":
    main()
