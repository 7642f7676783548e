"""Draws that are kept as rows of a file, so that a long run can be stopped and goes on where it was."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def options(about: str | None, *, rows_needed: bool = True) -> argparse.ArgumentParser:
    """What the programs with rows ask for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=rows_needed, help="file of rows to add to")
    parser.add_argument("--stores", type=Path, nargs="*", default=[], help="feature stores of photos")
    parser.add_argument("--only", nargs="*", help="names of data sets")
    parser.add_argument("--first", type=int, default=1, help="the first draw")
    parser.add_argument("--draws", type=int, default=10, help="number of draws")
    parser.add_argument("--table", action="store_true", help="print the tables and compute nothing")
    return parser


def read(path: Path) -> list[Row]:
    """All rows so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def add_missing(
    path: Path, names: Sequence[str], shots: Sequence[int], seeds: Iterable[int], make: Callable[[str, int, int], Row]
) -> None:
    """Compute the rows that are not there yet, and write each as soon as it is known."""
    done = {(row["data"], row["shots"], row["seed"]) for row in read(path)}
    for seed in seeds:
        for name in names:
            for count in shots:
                if (name, count, seed) not in done:
                    row = {"data": name, "shots": count, "seed": seed, **make(name, count, seed)}
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def panels(count: int, *, width: float, height: float, share: bool = False) -> tuple[Any, Any]:
    """A figure with panels side by side, drawn without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (width * count, height)
    fig, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False, sharey=share)
    return fig, axes[0]
