"""Mean ranks with a critical distance. Needs autorank."""

import io
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import numpy as np

from ..statistics import Score, in_order, is_main, keys_of
from .drawing import BLUE, RED, Plot, new_figure, shortened

LEAST_BLOCKS, LEAST_METHODS = 5, 3
"""Smallest numbers that the Friedman test with Nemenyi's critical distance makes sense for."""


def rank_figure(scores: Sequence[Score]) -> tuple[Plot | None, str]:
    """Mean ranks with Nemenyi's critical distance; a remark instead if there is too little to compare."""
    main = [one for one in scores if is_main(one) and one.complete]
    methods = in_order(keys_of(main, "method"))
    table, blocks, what = _blocks(main, methods)
    if len(methods) < LEAST_METHODS or len(blocks) < LEAST_BLOCKS:
        return None, (
            f"No rank diagram: it needs {LEAST_METHODS} methods and {LEAST_BLOCKS} blocks (data sets, or data sets by "
            f"shots) that all of them have completed; there are {len(methods)} and {len(blocks)}."
        )
    try:
        rank, frame = import_module("autorank").autorank, import_module("pandas").DataFrame
    except ImportError:
        return None, 'No rank diagram: it needs autorank, pip install "lpplusplus[bench]".'
    # It prints its decisions, and warnings about tests for normality, which do not affect the ranks.
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        result = rank(frame(table), alpha=0.05, order="descending", force_mode="nonparametric")
    ranks = {str(name): float(rank) for name, rank in result.rankdf["meanrank"].items()}
    figure = _draw_ranks(ranks, float(result.cd))
    sure = (
        f"differ (Friedman p = {result.pvalue:.2g})"
        if result.pvalue < 0.05
        else f"cannot be told apart (Friedman p = {result.pvalue:.2g})"
    )
    caption = (
        f"Mean ranks over {len(blocks)} {what}; 1 is best. Methods joined by a bar are closer than the critical "
        f"distance {result.cd:.2f} (Nemenyi, 5 %). Overall the methods {sure}."
    )
    if what != "data sets":
        caption += " Blocks of one data set are not independent, so that this distance is on the small side."
    return Plot("ranks", "Ranks", caption, figure), ""


def _blocks(main: Sequence[Score], methods: Sequence[str]) -> tuple[dict[str, list[float]], list[object], str]:
    """Accuracies of each method, one per block that every method has completed; the blocks; what they are, in words.

    Blocks are data sets if there are enough of them, else data sets by shots.
    """
    cells = {(one.method, one.dataset, one.backbone, one.shots): one.mean for one in main}
    whole = [
        key
        for key in dict.fromkeys((one.dataset, one.backbone, one.shots) for one in main)
        if all(cells.get((method, *key)) is not None for method in methods)
    ]
    sets = list(dict.fromkeys(key[:2] for key in whole))
    several = len({backbone for _, backbone in sets}) > 1
    if len(sets) >= LEAST_BLOCKS and not several:
        table = {
            method: [float(np.mean([cells[(method, *key)] for key in whole if key[:2] == block])) for block in sets]
            for method in methods
        }
        return table, list(sets), "data sets"
    table = {method: [float(cells[(method, *key)] or 0.0) for key in whole] for method in methods}
    return table, list(whole), "blocks (data set, backbone, shots)" if several else "blocks (data set, shots)"


def _draw_ranks(ranks: dict[str, float], distance: float) -> Any:
    """Names in a column, best first, each with its rank on a line; bars join ranks that do not clearly differ."""
    order = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in order]
    groups: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = max(i for i in range(len(order)) if values[i] - values[first] <= distance)
        if last > first and not any(a <= first and last <= b for a, b in groups):
            groups.append((first, last))
    figure, axes = new_figure(0.9 + 0.3 * len(order))
    heights = list(range(len(order)))
    for height, name, value in zip(heights, order, values, strict=True):
        strong = name.startswith("LP++")
        axes.plot([value], [height], marker="o", markersize=7, color=RED if strong else BLUE, zorder=3)
    low, high = min(values), max(values)
    room = 0.05 * max(high - low, 1.0)
    for number, (first, last) in enumerate(groups):
        x = high + room * (1.4 + number)
        axes.plot([x, x], [first - 0.2, last + 0.2], color="0.25", linewidth=3, solid_capstyle="butt")
    right = high + room * (2 + len(groups))
    left = low - room
    axes.plot([left, left + distance], [-1, -1], color="0.25", linewidth=1.5, marker="|", markersize=8)
    axes.text(left + distance + room / 2, -1, f"critical distance {distance:.2f}", va="center", fontsize=9)
    axes.set_yticks(heights, [shortened(name) for name in order])
    axes.set(
        ylim=(len(order) - 0.5, -1.7), xlim=(left - room / 2, max(right, left + distance + room)), xlabel="mean rank"
    )
    axes.grid(True, axis="x", color="0.9")
    for height in heights:
        axes.axhline(height, color="0.93", linewidth=0.8, zorder=0)
    return figure
