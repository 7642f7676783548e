"""Rows as a benchmark would write them: seeded, with the spread, the times and the gaps of real ones."""

import numpy as np

from lpplusplus.bench.cell import Cell, Row
from lpplusplus.bench.published import MAIN, published

SHOTS = (1, 2, 4, 8, 16)
FEATURE_LEVEL = [name for name in MAIN if name not in ("CoOp", "PLOT", "KgCoOp", "ProGrad")]
PROTOCOL = {"generator": "lpplusplus-1", "validation": "paper", "shortage": "fewer", "views": 0}
SECONDS = {"Zero-shot": 1e-4, "CLIP-Adapter": 4, "Tip-Adapter-F": 0.9, "Tip-Adapter-F*": 9, "Standard LP": 1.5}
SPEED = {"LP++ (default)": 2.5, "LP++ (released)": 1.6}
VERSIONS = {"lpplusplus": "0.1", "numpy": "2.1", "python": "3.11"}


def curve(rng, rate, updates=60):
    """A fit's history: `rate` in units of the curvature."""
    steps = np.arange(updates + 1)
    loss = 0.1 + 1.5 * np.exp(-rate * steps / 6) + rng.normal(0, 0.004, updates + 1)
    accuracy = 0.75 + 0.1 * (1 - np.exp(-rate * steps / 4)) - 0.0006 * rate * steps
    return {
        "update": steps.tolist(),
        "time": (steps * rate).tolist(),
        "loss": loss.tolist(),
        "validation_accuracy": accuracy.tolist(),
    }


def row(dataset, method, shots, seed, rng, encoder="RN50/openai", parameters=None, level=None):
    """A success."""
    known = published(method, dataset, shots) if level is None else None
    mean = level if level is not None else known.mean if known else 55 + 6 * np.log2(shots)
    rate = (parameters or {}).get("learning_rate", 7.0 * SPEED.get(method, 1.0))
    return Row(
        Cell(dataset, encoder, method, shots, seed, "LPPlusPlus", parameters or {}, True, PROTOCOL),
        "ok",
        accuracy=float(np.clip((mean + rng.normal(0, 1.2)) / 100, 0, 1)),
        calibration_error=float(rng.uniform(0.02, 0.08)),
        fit_seconds=float(SECONDS.get(method, 0.03) * shots**0.5 * rng.uniform(0.8, 1.3)),
        predict_seconds=float(rng.uniform(0.001, 0.002)),
        encode_seconds=20.0,
        peak_mib=float(rng.uniform(20, 90)),
        parameter_count=0 if method == "Zero-shot" else 100 * 1025,
        selection="validation",
        support_images=10 * shots,
        validation_images=10 * shots,
        test_images=500,
        draw=f"{dataset}-{shots}-{seed}",
        black_box=True,
        curve=curve(rng, rate / 7) if method.startswith(("LP++", "GD")) else {},
        chosen=40.0,
        versions=VERSIONS,
        finished=1.7e9 + seed,
    )


def comparison(datasets=("EuroSAT", "DTD", "Mine"), methods=FEATURE_LEVEL, shots=SHOTS, tasks=10, seed=0, **more):
    """The whole grid."""
    rng = np.random.default_rng(seed)
    return [
        row(dataset, method, n, task, rng, **more)
        for dataset in datasets
        for method in methods
        for n in shots
        for task in range(1, tasks + 1)
    ]


def sweep(dataset="EuroSAT", tasks=5, seed=1):
    """Gradient descent at seven rates and at the Lipschitz step, which is 7."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(1, tasks + 1):
        for rate in (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0):
            level = 60 - 1.5 * abs(np.log10(rate / 6)) ** 1.5 - (30 if rate == 100 else 0)
            parameters = {"solver": "gradient-descent", "learning_rate": rate}
            rows.append(row(dataset, f"GD, rate {rate:g}", 1, task, rng, parameters=parameters, level=level))
        parameters = {"solver": "gradient-descent"}
        rows.append(row(dataset, "GD (Lipschitz)", 1, task, rng, parameters=parameters, level=60.5))
    return rows


def failure(dataset, method, shots, seed, encoder="RN50/openai"):
    """A cell that failed."""
    text = 'Traceback (most recent call last):\n  File "<x>", line 1\nValueError: <b>no & $good_ ``` value'
    cell = Cell(dataset, encoder, method, shots, seed, "LPPlusPlus", {}, True, PROTOCOL)
    return Row(cell, "failed", traceback=text, versions=VERSIONS, finished=1.7e9)
