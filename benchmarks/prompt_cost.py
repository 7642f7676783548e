"""What a prompt learner costs: seconds an epoch and a whole training, against LP++'s whole fit on the same task.

    python -m benchmarks.prompt_cost                        # RN50's text tower, 20 classes × 16 shots
    python -m benchmarks.prompt_cost --arch ViT-B-32 --classes 100 --json
    python -m benchmarks.prompt_cost --classes 1000 --memory 1500     # what one step of CoOp takes, given that budget

Every step runs the text tower forth and back for all classes, whatever the images are, so a few steps are timed,
between the first epoch and the last of a short fit, and scaled up to an epoch and to the schedule. For the same reason
weights and images are random: only their shapes matter. The paper's times, on ImageNet with 16 shots, are beside.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lpplusplus import PLOT, CoOp, KgCoOp, LPPlusPlus, ProGrad
from lpplusplus.encoders.open_clip import OpenClipEncoder

from .measure import median, peak_extra_memory
from .synthetic import clip_like

METHODS: dict[str, Any] = {"CoOp": CoOp, "PLOT": PLOT, "KgCoOp": KgCoOp, "ProGrad": ProGrad}
PAPER = {"CoOp": "17 h", "PLOT": "10 h (2 GPUs)", "KgCoOp": "4 h", "ProGrad": "20 h", "LP++": "2 s"}
"""LP++'s table of run times: ImageNet, 16 shots, RN50. Images were encoded beforehand for LP++ only."""
BATCH, EPOCHS = 32, 200


def random_encoder(arch: str, folder: Path) -> OpenClipEncoder:
    """An architecture of open_clip's with random weights."""
    import open_clip
    import safetensors.torch

    path = folder / "weights.safetensors"
    safetensors.torch.save_file(open_clip.create_model(arch).state_dict(), path)
    return OpenClipEncoder(f"{arch}/{path}")


def step_seconds(method: Any, encoder: OpenClipEncoder, X: Any, y: Any, names: list[str], epochs: int) -> float:
    """Seconds of a step, median over all epochs but the first, which also sets up."""
    clock: list[float] = []
    model = method(encoder=encoder, epochs=epochs, n_context=16, progress=lambda *_: clock.append(time.perf_counter()))
    model.fit(X, y, classes=names)
    return median(np.diff(clock)) / math.ceil(len(y) / BATCH)


def run(arch: str, classes: int, shots: int, steps: int, repeats: int) -> dict[str, Any]:
    """Seconds of every method."""
    with tempfile.TemporaryDirectory() as folder:
        encoder = random_encoder(arch, Path(folder))
    task = clip_like(classes, shots, dim=encoder.dim)
    names = [f"thing number {k}" for k in range(classes)]
    y = np.array(names)[task.y]
    begin = time.perf_counter()
    LPPlusPlus().fit(task.X, y, text=task.text, classes=names)
    rows = {"LP++": {"fit_seconds": time.perf_counter() - begin}}
    some = slice(0, min(len(y), BATCH * steps))
    side = encoder.model.visual.image_size
    blank = np.zeros((3, *((side, side) if isinstance(side, int) else side)), np.float32)
    places = encoder.encode_places([blank]).shape[1]
    noise = np.random.default_rng(0).standard_normal((len(y[some]), places, encoder.dim), dtype=np.float32)
    for name, method in METHODS.items():
        X = task.X[some, None] + 0.1 * noise if method is PLOT else task.X[some]
        seconds = step_seconds(method, encoder, X, y[some], names, 1 + repeats)
        epoch = seconds * math.ceil(len(y) / BATCH)
        rows[name] = {"step_seconds": seconds, "epoch_seconds": epoch, "fit_seconds": EPOCHS * epoch}
    for row in rows.values():
        row["times_lpp"] = row["fit_seconds"] / rows["LP++"]["fit_seconds"]
    return {"arch": arch, "classes": classes, "shots": shots, "epochs": EPOCHS, "methods": rows, "paper": PAPER}


def memory(arch: str, classes: int, mib: float) -> float:
    """MiB by which one step of CoOp on so many classes makes the process grow, told to keep to `mib`."""
    with tempfile.TemporaryDirectory() as folder:
        encoder = random_encoder(arch, Path(folder))
    X = np.random.default_rng(0).standard_normal((classes, encoder.dim), dtype=np.float32)
    names = [f"thing number {k}" for k in range(classes)]

    def fit(count: int) -> None:
        model = CoOp(encoder=encoder, epochs=1, batch_size=count, memory_mib=mib)
        model.fit(X[:count], names[:count], classes=names[:count])

    fit(2)
    return peak_extra_memory(lambda: fit(classes))[1]


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--arch", default="RN50", help="one of open_clip's")
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1, help="steps of an epoch that are timed")
    parser.add_argument("--repeats", type=int, default=3, help="how often")
    parser.add_argument("--memory", type=float, metavar="MIB", help="measure memory, not time, with this budget")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.memory is not None:
        grown = memory(options.arch, options.classes, options.memory)
        row = {"arch": options.arch, "classes": options.classes, "budget_mib": options.memory, "grown_mib": grown}
        print(json.dumps(row) if options.json else f"budget {options.memory:.0f} MiB, grown by {grown:.0f} MiB")
        return
    result = run(options.arch, options.classes, options.shots, options.steps, options.repeats)
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{result['arch']}'s text tower, {result['classes']} classes × {result['shots']} shots, {EPOCHS} epochs\n\n"
        f"| | a step | an epoch | the fit | LP++'s fit × | paper, ImageNet |\n|---|---|---|---|---|---|"
    )
    for name, row in result["methods"].items():
        parts = [_shown(row[key]) if key in row else "–" for key in ("step_seconds", "epoch_seconds")]
        print(
            f"| {name} | {' | '.join(parts)} | {_shown(row['fit_seconds'])} | {row['times_lpp']:.0f} | {PAPER[name]} |"
        )


if __name__ == "__main__":
    main()
