"""All feature-level methods of the paper on real CLIP features, under one protocol.

    python -m benchmarks.methods                        # RN50 and ViT-B/32, seeds 1 … 10
    python -m benchmarks.methods --encoder rn50 --seeds 3 --json
    python -m benchmarks.methods --encoder rn50 --seeds 5 --tip-epochs

The data and the tasks are those of `benchmarks.whurs19`: S support and S validation images a class, the rest is test.
Every method is given the same validation images; the rows "no validation" are not. Standard deviation over the tasks.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.progress import Progress
from sklearn.base import clone

from lpplusplus import ClipAdapter, LinearProbe, LPPlusPlus, TipAdapter, TipAdapterF, TipAdapterFStar, ZeroShot

from .whurs19 import SHOTS, Features, draw, load, tables

METHODS: dict[str, tuple[Any, bool]] = {
    "Zero-shot": (ZeroShot(), True),
    "Standard probe": (LinearProbe(), True),
    "Standard probe, no validation": (LinearProbe(), False),
    "Tip-Adapter, α = β = 1": (TipAdapter(), True),
    "Tip-Adapter, searched": (TipAdapter(search=True), True),
    "Tip-Adapter-F": (TipAdapterF(), True),
    "Tip-Adapter-F*": (TipAdapterFStar(), True),
    "CLIP-Adapter": (ClipAdapter(), True),
    "CLIP-Adapter, lpp": (ClipAdapter(flavour="lpp"), True),
    "LP++, paper": (LPPlusPlus(recipe="paper"), True),
    "LP++, released": (LPPlusPlus(recipe="released"), True),
    "LP++, default": (LPPlusPlus(), True),
    "LP++, default, no validation": (LPPlusPlus(), False),
}
"""Name: estimator, and whether it is given the validation images."""

TIP_EPOCHS: dict[str, tuple[Any, bool]] = {
    **{f"Tip-Adapter-F, {epochs} epochs": (TipAdapterF(epochs=epochs), True) for epochs in (20, 100, 400)},
    "Tip-Adapter-F, 20 epochs, α = 5": (TipAdapterF(alpha=5.0), True),
}
"""What Tip-Adapter-F gains on so small a set by more epochs, or by a larger α, than its authors have."""


def accuracy(data: Features, estimator: Any, shots: int, seed: int, *, validation: bool) -> float:
    """Test accuracy in percent on one task."""
    support, held, test = draw(data.y, shots, seed)
    extra = {"X_val": data.X[held], "y_val": data.y[held]} if validation else {}
    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    model.fit(data.X[support], data.y[support], text=data.text, **extra)
    return 100 * float(model.score(data.X[test], data.y[test]))


def run(
    encoder: str, seeds: range, progress: Progress, methods: dict[str, tuple[Any, bool]]
) -> dict[str, dict[int, list[float]]]:
    """Accuracy of every method, shot count and seed."""
    data = load(encoder)
    bar = progress.add_task(encoder, total=len(methods) * len(SHOTS) * len(seeds))
    table: dict[str, dict[int, list[float]]] = {}
    for name, (estimator, validation) in methods.items():
        table[name] = {shots: [] for shots in SHOTS}
        for shots in SHOTS:
            for seed in seeds:
                table[name][shots].append(accuracy(data, estimator, shots, seed, validation=validation))
                progress.advance(bar)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--encoder", default="both", choices=["rn50", "vit_b32", "vit_l14", "both"])
    parser.add_argument("--seeds", type=int, default=10, help="tasks for each number of shots")
    parser.add_argument("--tip-epochs", action="store_true", help="Tip-Adapter-F with more epochs or a larger α, alone")
    parser.add_argument("--json", action="store_true", help="every accuracy as JSON instead of tables of means")
    options = parser.parse_args(arguments)
    seeds = range(1, options.seeds + 1)
    encoders = ("rn50", "vit_b32") if options.encoder == "both" else (options.encoder,)
    with Progress(console=Console(stderr=True)) as progress:
        methods = TIP_EPOCHS if options.tip_epochs else METHODS
        results = {encoder: run(encoder, seeds, progress, methods) for encoder in encoders}
    if options.json:
        print(json.dumps(results))
        return
    print(tables(results, options.seeds))


if __name__ == "__main__":
    main()
