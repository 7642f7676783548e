"""Several prompts per class: what LP++'s weights change against their plain mean, and against single prompts.

    LPP_DATA=/data python -m studies.prompt_weights                  # WHU-RS19, three encoders, draws 1 to 10
    LPP_DATA=/data python -m studies.prompt_weights --first 101 --draws 20 --json

Test accuracy in % of the names alone and of `LPPlusPlus()`, with the plain mean, and how much more it is with weights
and with a single prompt. These differences are paired by draw; ± is their standard error.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpplusplus import LPPlusPlus
from lpplusplus._core.class_prompts import check_text
from lpplusplus.bench.datasets import catalog
from lpplusplus.bench.draw_task import draw_from
from lpplusplus.bench.report.statistics import mean_and_error

SHOTS = (1, 2, 4, 8, 16)
SINGLE = "a satellite image of a {}"
"""The prompt that the tables of docs/explanation/accuracy.md have."""


def prompts_of(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All prompts of the file, without the average that it holds as one, and the single one."""
    with np.load(path, allow_pickle=False) as file:
        names = [str(name) for name in file["prompts"]]
        text = file["text"].astype(np.float32)
    return text[[not name.startswith("average") for name in names]], text[names.index(SINGLE)]


def accuracies(root: Path, encoder: str, shots: int, seeds: range) -> NDArray[np.float64]:
    """(draws, 3, 2): by plain mean, weights and single prompt; of the names alone and of LP++."""
    entry = catalog()["whurs19"]
    data = entry.features(root, encoder=encoder)
    prompts, single = prompts_of(root / entry.below(entry.options["files"][encoder]))
    plain, pool = check_text(prompts)[0], data.part("train")
    assert pool.labels is not None
    found = []
    for seed in seeds:
        draw = draw_from(data, shots=shots, seed=seed, generator="whurs19-table")
        X, y = pool.rows[draw.support], pool.labels[draw.support]
        # The table's validation images serve as test images, too: nothing here looks at them.
        rows = np.concatenate([draw.validation, draw.test])
        held, truth = pool.rows[rows], pool.labels[rows]
        row = []
        for text in (plain, prompts, single):
            probe = LPPlusPlus(random_state=seed).fit(X, y, text=text)
            assert probe.text_ is not None
            names = (held @ probe.text_.T).argmax(axis=1)
            row.append([100 * float((names == truth).mean()), 100 * probe.score(held, truth)])
        found.append(row)
    return np.array(found)


def main() -> None:
    """Print the table, or as JSON every encoder's means and paired differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--draws", type=int, default=10, help="number of draws")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    root, seeds = Path(os.environ["LPP_DATA"]), range(options.first, options.first + options.draws)
    encoders = list(catalog()["whurs19"].options["files"])
    rows: list[dict[str, Any]] = []
    for encoder in encoders:
        for shots in SHOTS:
            found = accuracies(root, encoder, shots, seeds)
            change = found - found[:, :1]
            means, errors = mean_and_error(change)
            row: dict[str, Any] = {"encoder": encoder, "shots": shots}
            for j, what in enumerate(("names", "lpp")):
                row[what] = found[:, 0, j].mean()
                for i, rule in ((1, "weighed"), (2, "single")):
                    row[f"{what}_{rule}"], row[f"{what}_{rule}_error"] = means[i, j], errors[i, j]
            rows.append(row)
            if not options.json:
                parts = [f"{row['names']:.1f}", *(_signed(row, f"names_{rule}") for rule in ("weighed", "single"))]
                parts += [f"{row['lpp']:.1f}", *(_signed(row, f"lpp_{rule}") for rule in ("weighed", "single"))]
                print(f"| {encoder}, {shots} | {' | '.join(parts)} |", flush=True)
    if options.json:
        print(json.dumps(rows))


def _signed(row: dict[str, Any], key: str) -> str:
    return f"{row[key]:+.2f} ± {row[f'{key}_error']:.2f}"


if __name__ == "__main__":
    main()
