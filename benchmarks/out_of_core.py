"""A fit on embeddings that stay in their file, against the same fit with all of them in memory.

    python -m benchmarks.out_of_core                       # 1 M rows, 1 000 classes, D = 512: a file of 2 GB
    python -m benchmarks.out_of_core --rows 100000 --json
    python -m benchmarks.out_of_core --only file           # one of the two; figures are kept beside the data

Each contender fits in a process of its own. "Peak" is its highest resident memory above what the interpreter and the
imports take, so it includes the embeddings where those are in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import _status_mib
from benchmarks.synthetic import _images, _world, clip_like

PLACES = ("memory", "file")
SHOTS = 20
"""Images of each class that are made at once."""


def make(folder: Path, rows: int, classes: int, dim: int) -> None:
    """Write the task, a few shots of all classes at a time."""
    done = folder / f"{rows}-{classes}-{dim}.done"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
    y = np.empty(rows, np.int64)
    rng = np.random.default_rng(0)
    world, text = _world(classes, dim, rng, np.dtype(np.float32))
    for low in range(0, rows, SHOTS * classes):
        images, labels = _images(world, SHOTS, rng, np.dtype(np.float32))
        size = min(len(labels), rows - low)
        X[low : low + size], y[low : low + size] = images[:size], labels[:size]
    X.flush()
    np.save(folder / "y.npy", y)
    np.save(folder / "text.npy", text)
    done.touch()


def fit(folder: Path, place: str, parameters: dict[str, Any]) -> dict[str, float]:
    """One fit, in this process."""
    from lpplusplus import LPPlusPlus

    y, text = np.load(folder / "y.npy"), np.load(folder / "text.npy")
    small = clip_like(10, 4, dim=64)
    LPPlusPlus().fit(small.X, small.y, text=small.text)
    before = _status_mib("VmRSS")
    X = np.load(folder / "X.npy", mmap_mode="r" if place == "file" else None)
    start, processor = time.perf_counter(), time.process_time()
    probe = LPPlusPlus(**parameters).fit(X, y, text=text)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    np.save(folder / f"coef-{place}.npy", probe.coef_)
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "peak_mib": _status_mib("VmHWM") - before,
        "updates": probe.n_updates_,
        "accuracy": float(probe.score(np.asarray(X[-5000:]), y[-5000:])),
    }


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--updates", type=int, help="of the fit; by default as many as held-out loss asks for")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "lpplusplus-out-of-core")
    parser.add_argument("--only", choices=(*PLACES, "data"), help="make the data, or make one of the two fits")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of a table")
    options = parser.parse_args(arguments)
    make(options.folder, options.rows, options.classes, options.dim)
    parameters = {"updates": options.updates, "memory": 0.0}
    if options.here:
        print(json.dumps(fit(options.folder, options.only, parameters)))
        return
    for place in PLACES if options.only is None else [options.only] if options.only != "data" else []:
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--here", "--only", place]
        for name in ("rows", "classes", "dim", "updates", "folder"):
            if getattr(options, name) is not None:
                command += [f"--{name}", str(getattr(options, name))]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout
        (options.folder / f"{place}.json").write_text(found)
    files = {place: options.folder / f"{place}.json" for place in PLACES}
    results: dict[str, Any] = {place: json.loads(file.read_text()) for place, file in files.items() if file.exists()}
    if len(results) == len(PLACES):
        memory, file = (np.load(options.folder / f"coef-{place}.npy") for place in PLACES)
        results["ratio"] = results["file"]["seconds"] / results["memory"]["seconds"]
        results["difference"] = float(np.abs(file - memory).max() / np.abs(memory).max())
    if options.json:
        print(json.dumps(results, indent=1))
        return
    for place in results.keys() & set(PLACES):
        print(f"in {place:7}" + "".join(f"  {name} {value:.1f}" for name, value in results[place].items()))
    if "ratio" in results:
        print(f"from the file {results['ratio']:.2f} x the time; weights differ by {results['difference']:.1e} at most")


if __name__ == "__main__":
    main()
