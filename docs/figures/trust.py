"""Draws the figure of docs/explanation/trust.md: python docs/figures/trust.py rows.jsonl [folder]

Needs matplotlib, and the rows that `python -m studies.trust --rows rows.jsonl` wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).resolve().parent
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def reliability(panel, rows):
    """Confidence against accuracy, images of all rows together."""
    panel.plot([0, 1], [0, 1], color="k", lw=0.8, ls=":")
    names = (("ours", "ours", BLUE), ("none", "no calibration", GREY), ("range", "zero-shot's range", ORANGE))
    for key, label, color in names:
        images, sure, right = np.sum([row["calibration"][key]["bins"] for row in rows], axis=0).T
        some = images >= 50
        panel.plot(sure[some] / images[some], right[some] / images[some], "o-", ms=3, color=color, label=label)
    panel.set(xlabel="confidence", ylabel="accuracy", title="Is 80 % meant?")


def sizes(panel, rows):
    """Mean size of sets of 90 % against shots."""
    shots = sorted({row["shots"] for row in rows})
    for key, label, color in (("ours", "ours", BLUE), ("split", "split conformal", GREY)):
        mean = []
        for n in shots:
            names = sorted({row["data"] for row in rows if row["shots"] == n})
            per = [[r["sets"]["0.9"][key]["size"] for r in rows if (r["shots"], r["data"]) == (n, d)] for d in names]
            mean.append(np.mean([np.mean(part) for part in per]))
        panel.plot(shots, mean, "o-", ms=4, color=color, label=label)
    panel.set(
        xscale="log", xticks=shots, xlabel="shots", ylabel="classes per set", title="Sets that cover 90 %", ylim=0
    )
    panel.set_xticks(shots, map(str, shots))
    panel.minorticks_off()


def roc(panel, rows):
    """None of these at four shots, a third of the classes left out."""
    grid = np.linspace(0, 1, 51)
    for key, label, color in (("ours", "ours", BLUE), ("softmax", "probability", GREY), ("names", "names", ORANGE)):
        curves = [row["none"]["left out"][key]["curve"] for row in rows if "none" in row]
        panel.plot(grid, np.mean(curves, axis=0), color=color, label=label)
    panel.set(xlabel="others taken for members", ylabel="members kept", title="None of these, 4 shots")


def main():
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for panel, draw in zip(panels, (reliability, sizes, roc), strict=True):
        draw(panel, rows)
        panel.legend(frameon=False)
    figure.savefig((Path(sys.argv[2]) if len(sys.argv) > 2 else HERE) / "trust.png", dpi=110)


if __name__ == "__main__":
    main()
