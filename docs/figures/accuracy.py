"""Draws the figure of docs/explanation/accuracy.md from that page's table: python docs/figures/accuracy.py [folder]"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "explanation" / "accuracy.md"
ENCODER = "ViT-B/32"
SHOTS = [1, 2, 4, 8, 16]
STYLES = {
    "lpplusplus, default": (
        "lpplusplus, no validation images",
        {"color": "#0072B2", "marker": "o", "lw": 2, "zorder": 3},
    ),
    "LP++ as released, with validation images": ("LP++ as released, with them", {"color": "#D55E00", "marker": "s"}),
    "examples alone (visual probe)": ("examples alone", {"color": "#009E73", "marker": "^"}),
    "zero-shot": ("class names alone", {"color": "#666666", "ls": "--"}),
}


def accuracies() -> dict[str, list[float]]:
    """Rows of one encoder in the page's table, by method."""
    table = re.search(r"<!-- whurs19 -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    rows = [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    start = f"{ENCODER}: "
    return {name.removeprefix(start): list(map(float, cells)) for name, *cells in rows if name.startswith(start)}


def draw(folder: Path) -> None:
    figure, panel = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    found = accuracies()
    for method, (label, style) in STYLES.items():
        panel.plot(SHOTS, found[method], label=label, ms=4, **style)
    panel.set(xlabel="examples per class", ylabel="test accuracy, %", xscale="log")
    panel.set_title(f"WHU-RS19, CLIP {ENCODER}, mean of 100 draws", fontsize=10)
    panel.set_xticks(SHOTS, map(str, SHOTS))
    panel.minorticks_off()
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", lw=0.4)
    panel.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.38), fontsize=9)
    figure.savefig(folder / "accuracy.png", dpi=130)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
