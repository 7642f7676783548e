"""LP++ on real CLIP features: the WHU-RS19 table, by number of shots.

    python -m benchmarks.whurs19                        # RN50, seeds 1 … 10
    python -m benchmarks.whurs19 --encoder all --seeds 30 --json

Needs `clip_rn50.npz` and its siblings: 1005 satellite photos of 19 classes, embedded by OpenAI's CLIP. They are looked
for in `../shared/data/whurs19` and `$LPP_DATA/whurs19`. A task has S support and S validation images a class, drawn
with `numpy.random.RandomState(seed)` class by class; the rest is test.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from lpplusplus import LPPlusPlus

ENCODERS = ("rn50", "vit_b32", "vit_l14")
SHOTS = (1, 2, 4, 8, 16)
PROMPT = "a satellite image of a {}"

OURS, THEIRS = "default (auto, no validation)", 'recipe="released", validation'
METHODS: dict[str, tuple[dict[str, Any], bool]] = {
    "start, one α for all classes": ({"updates": 0}, False),
    "start, one α per class": ({"updates": 0, "alpha_init": "per-class"}, False),
    'recipe="paper", validation': ({"recipe": "paper"}, True),
    THEIRS: ({"recipe": "released"}, True),
    'recipe="paper", last': ({"recipe": "paper"}, False),
    "flow to the same time": ({"selection": "last", "updates": 300}, False),
    'default, selection="last"': ({"selection": "last"}, False),
    OURS: ({}, False),
    "default, validation": ({}, True),
    "visual probe, no text": ({"alpha": "none"}, False),
}
"""Name: parameters, and whether the method is given the validation images."""


@dataclass(frozen=True)
class Features:
    """Embedded images with the classifier of one prompt."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    text: NDArray[np.float32]


def folder() -> Path:
    """Where the features are."""
    root = os.environ.get("LPP_DATA")
    return (Path(root) if root else Path(__file__).resolve().parents[2] / "shared" / "data") / "whurs19"


def load(encoder: str) -> Features:
    """Features of one encoder."""
    file = folder() / f"clip_{encoder}.npz"
    if not file.exists():
        raise SystemExit(
            f"{file} is not there: these are real CLIP features, which are not part of the repository. Set LPP_DATA "
            f"to the folder that has whurs19/clip_rn50.npz and its siblings."
        )
    with np.load(file) as archive:
        prompt = archive["prompts"].tolist().index(PROMPT)
        arrays = archive["images"], archive["labels"], archive["text"][prompt]
    return Features(arrays[0].astype(np.float32), arrays[1].astype(np.int64), arrays[2].astype(np.float32))


def draw(y: NDArray[np.int64], shots: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows of support, validation and test."""
    rng = np.random.RandomState(seed)
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for label in range(y.max() + 1):
        rows = rng.permutation(np.flatnonzero(y == label))
        for part, chosen in zip(parts, np.split(rows, [shots, 2 * shots]), strict=True):
            part.append(chosen)
    support, validation, test = (np.concatenate(part) for part in parts)
    return support, validation, test


def accuracies(
    data: Features, shots: int, seeds: range, parameters: dict[str, Any], *, validation: bool
) -> NDArray[np.float64]:
    """Test accuracy in percent for each seed, which is also the probe's own."""

    def one(seed: int) -> float:
        support, held, test = draw(data.y, shots, seed)
        extra = {"X_val": data.X[held], "y_val": data.y[held]} if validation else {}
        probe = LPPlusPlus(random_state=seed, **parameters)
        probe.fit(data.X[support], data.y[support], text=data.text, **extra)
        return 100 * float(probe.score(data.X[test], data.y[test]))

    return np.array([one(seed) for seed in seeds])


def zero_shot(data: Features, shots: int, seeds: range) -> NDArray[np.float64]:
    """Accuracy of the text alone on the same test images."""
    right = (data.X @ data.text.T).argmax(axis=1) == data.y
    return 100 * np.array([right[draw(data.y, shots, seed)[2]].mean() for seed in seeds])


def run(encoder: str, seeds: range, progress: Progress) -> dict[str, dict[int, list[float]]]:
    """Accuracy of every method, shot count and seed."""
    data = load(encoder)
    bar = progress.add_task(encoder, total=len(METHODS) * len(SHOTS))
    table = {"zero-shot": {shots: zero_shot(data, shots, seeds).tolist() for shots in SHOTS}}
    for name, (parameters, validation) in METHODS.items():
        table[name] = {}
        for shots in SHOTS:
            table[name][shots] = accuracies(data, shots, seeds, parameters, validation=validation).tolist()
            progress.advance(bar)
    return table


def _head(title: str) -> list[str]:
    shots = " | ".join(f"{s} shot{'s' * (s > 1)}" for s in SHOTS)
    return ["", f"| {title} | {shots} |", "|---" * (len(SHOTS) + 1) + "|"]


def tables(results: dict[str, dict[str, dict[int, list[float]]]], tasks: int) -> str:
    """Means and standard deviations in Markdown, a table for each encoder."""
    lines = []
    for encoder, table in results.items():
        lines += _head(f"{encoder}, mean ± std of {tasks} tasks")
        for name, row in table.items():
            cells = " | ".join(f"{np.mean(row[s]):.1f} ± {np.std(row[s], ddof=1):.1f}" for s in SHOTS)
            lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def gains(results: dict[str, dict[str, dict[int, list[float]]]]) -> str:
    """What the default, without validation images, gains over the released recipe with them."""
    lines = _head("gain over the released recipe, ± standard error")
    for encoder, table in results.items():
        gain = {s: np.subtract(table[OURS][s], table[THEIRS][s]) for s in SHOTS}
        cells = " | ".join(f"{g.mean():+.2f} ± {g.std(ddof=1) / np.sqrt(len(g)):.2f}" for g in gain.values())
        lines.append(f"| {encoder} | {cells} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--encoder", default="rn50", choices=[*ENCODERS, "all"])
    parser.add_argument("--seeds", type=int, default=10, help="tasks for each number of shots")
    parser.add_argument("--json", action="store_true", help="every accuracy as JSON instead of tables of means")
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error("--seeds must be at least 2: one task has no spread")
    seeds = range(1, options.seeds + 1)
    encoders = ENCODERS if options.encoder == "all" else (options.encoder,)
    with Progress(console=Console(stderr=True)) as progress:
        results = {encoder: run(encoder, seeds, progress) for encoder in encoders}
    if options.json:
        print(json.dumps(results))
        return
    print(tables(results, options.seeds))
    print(gains(results))


if __name__ == "__main__":
    main()
