"""Tip-Adapter-F*'s search of α and β: ours against the plain double loop, which recomputes the affinities each time.

    python -m benchmarks.tip_search                     # K=100, S=16, D=1024, as many validation images
    python -m benchmarks.tip_search --points 200 --json

The plain loop over 200 × 200 points takes the better part of an hour, so it is timed on some of them, spread over the
grid and in turns with whole searches of ours, and scaled up; every point costs the same.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from numpy.typing import NDArray

from lpplusplus.methods.tip_adapter import count_hits, grid

from .measure import median
from .synthetic import Task, clip_like

STEPS = 200
ALPHAS, BETAS = grid(1.0, 50.0, STEPS), grid(1.0, 50.0, STEPS)


def plain(task: Task, points: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Images right at some points of the grid, each from the features up."""
    one_hot = np.eye(len(task.text), dtype=np.float32)[task.y]
    hits = {}
    for i, j in points:
        affinity = np.exp(np.float32(-BETAS[i]) * (1 - task.X_val @ task.X.T))
        logits = 100 * task.X_val @ task.text.T + np.float32(ALPHAS[j]) * (affinity @ one_hot)
        hits[i, j] = int((logits.argmax(axis=1) == task.y_val).sum())
    return hits


def ours(task: Task) -> NDArray[np.int64]:
    """Images right at every point of the grid."""
    return count_hits(100 * task.X_val @ task.text.T, task.X @ task.X_val.T, task.y, task.y_val, ALPHAS, BETAS)


def run(n_classes: int, shots: int, dim: int, points: int, repeats: int) -> dict[str, float]:
    """Median seconds of both, their ratio, and the largest disagreement in images."""
    task = clip_like(n_classes, shots, dim=dim)
    chosen = np.random.default_rng(0).permutation(STEPS * STEPS)[:points]
    pairs = [(int(c) // STEPS, int(c) % STEPS) for c in chosen]
    seconds: dict[str, list[float]] = {"plain": [], "ours": []}
    apart = 0
    for turn in range(repeats):
        part = pairs[turn::repeats]
        start = time.perf_counter()
        expected = plain(task, part)
        middle = time.perf_counter()
        hits = ours(task)
        seconds["ours"].append(time.perf_counter() - middle)
        seconds["plain"].append((middle - start) / len(part) * STEPS * STEPS)
        apart = max(apart, *(abs(int(hits[point]) - count) for point, count in expected.items()))
    loop, search = median(seconds["plain"]), median(seconds["ours"])
    return {"plain_seconds": loop, "seconds": search, "ratio": loop / search, "images_apart": float(apart)}


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--points", type=int, default=60, help="points of the grid to time the plain loop on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    row = run(options.classes, options.shots, options.dim, options.points, options.repeats)
    if options.json:
        print(json.dumps(row))
        return
    print(
        f"{options.classes} classes × {options.shots} shots, D = {options.dim}, {STEPS} × {STEPS} points: plain loop "
        f"{row['plain_seconds']:.0f} s (scaled up from {options.points} points), ours {row['seconds']:.2f} s, "
        f"{row['ratio']:.0f}×; at most {row['images_apart']:.0f} image(s) apart at a point (float32 against float64)"
    )


if __name__ == "__main__":
    main()
