"""Accuracy against time and against the number of shots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..formats import duration
from ..statistics import Average, Summary, in_order, keys_of
from .drawing import Picture, Style, add_legend, handle, in_shots, new_figure, plain_line


def time_figure(over: Sequence[Average], styles: dict[str, Style], on: str) -> Picture | None:
    """Accuracy against fit time at the fewest shots."""
    whole = [one for one in over if one.complete]
    if not whole:
        return None
    fewest = min(one.shots for one in whole)
    points = [one for one in whole if one.shots == fewest and one.fit_seconds and one.method != "Zero-shot"]
    if not points:
        return None
    figure, axes = new_figure(4.2)
    for one in points:
        style = styles[one.method]
        axes.errorbar(
            one.fit_seconds,
            one.mean,
            yerr=one.interval or 0,
            color=style.colour,
            marker=style.marker,
            markersize=8,
            markeredgecolor="white",
            markeredgewidth=0.6,
            capsize=3,
            linestyle="none",
        )
    zero = next((one for one in whole if one.shots == fewest and one.method == "Zero-shot"), None)
    if zero is not None and zero.mean is not None:
        axes.axhline(zero.mean, color=styles["Zero-shot"].colour, linestyle=(0, (3, 2)), linewidth=1.4, zorder=1)
    axes.set_xscale("log")
    _time_axis(axes, [one.fit_seconds for one in points if one.fit_seconds])
    axes.set(xlabel="time of the fit, search included, features given", ylabel="accuracy, %")
    axes.grid(True, color="0.9")
    handles = [(handle(styles[one.method], line=False), one.method) for one in points]
    if zero is not None:
        handles.append((plain_line(styles["Zero-shot"].colour, (0, (3, 2))), "Zero-shot"))
    add_legend(figure, handles)
    caption = (
        f"Accuracy against the time of the fit (logarithmic) with {in_shots(fewest)}, {on}. Bars are 95 % intervals of "
        f"the mean over tasks."
    )
    return Picture("time", f"Accuracy and time with {in_shots(fewest)}, {on}", caption, figure)


def shots_figure(chosen: Sequence[Summary | Average], styles: dict[str, Style], on: str, key: str) -> Picture | None:
    """Accuracy against the number of shots, a line a method."""
    known = [one for one in chosen if one.mean is not None and (one.complete or isinstance(one, Summary))]
    shots = sorted({one.shots for one in known})
    if len(shots) < 2:
        return None
    figure, axes = new_figure(4.4)
    methods = in_order(keys_of(known, "method"))
    for place, method in enumerate(methods):
        style = styles[method]
        line = sorted((one for one in known if one.method == method), key=lambda one: one.shots)
        # Shifted a little, so that the bars of equal points do not hide each other.
        shift = 2 ** (0.16 * (place / max(1, len(methods) - 1) - 0.5))
        axes.errorbar(
            [one.shots * shift for one in line],
            [one.mean for one in line],
            yerr=[one.interval or 0 for one in line],
            color=style.colour,
            marker=style.marker,
            markersize=5,
            linestyle=style.line,
            linewidth=style.width,
            elinewidth=0.8,
            capsize=1.5,
            zorder=3 if method.startswith("LP++") else 2,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(shots, [str(n) for n in shots])
    axes.minorticks_off()
    axes.set(xlabel="images of each class", ylabel="accuracy, %")
    axes.grid(True, color="0.9")
    add_legend(figure, [(handle(styles[method]), method) for method in methods])
    caption = (
        f"Accuracy against the number of images of each class, {on}. Bars are 95 % intervals of the mean over tasks."
    )
    return Picture(key, f"Accuracy and shots, {on}", caption, figure)


def _time_axis(axes: Any, seconds: Sequence[float]) -> None:
    """Decades, with a little room at the sides and units that people use."""
    low, high = min(seconds) / 1.6, max(seconds) * 1.6
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(ticks) < 2:
        ticks = [base * 10.0**power for power in powers for base in (1, 2, 5) if low <= base * 10.0**power <= high]
    axes.set_xlim(low, high)
    axes.set_xticks(ticks, [duration(tick) for tick in ticks])
    axes.minorticks_off()
