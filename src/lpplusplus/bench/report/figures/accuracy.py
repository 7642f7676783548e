"""Accuracy against time and against the number of shots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..statistics import Average, Score, in_order, in_shots, keys_of
from ..table import duration
from .drawing import BARS, Plot, Style, add_legend, label, new_figure

_ZERO_SHOT = "Zero-shot"


def time_figure(over: Sequence[Average], styles: dict[str, Style], on: str) -> Plot | None:
    """Accuracy against fit time at the fewest shots; zero-shot classification, which learns nothing, is a line."""
    whole = [one for one in over if one.complete]
    fewest = min((one.shots for one in whole), default=0)
    shown = {one.method: one for one in whole if one.shots == fewest}
    zero = shown.pop(_ZERO_SHOT, None)
    points = [one for one in shown.values() if one.fit_seconds]
    if not points:
        return None
    figure, axes = new_figure(4.2)
    legend = [(replace(styles[one.method], line="none"), one.method) for one in points]
    marks = {"markersize": 8, "markeredgecolor": "white", "markeredgewidth": 0.6, "capsize": 3}
    for one in points:
        style = replace(styles[one.method], line="none", width=1.5)  # The width of the bars.
        axes.errorbar(one.fit_seconds, one.mean, yerr=one.interval or 0, **style.drawn(), **marks)
    if zero is not None:
        style = replace(styles[_ZERO_SHOT], marker="")
        axes.axhline(zero.mean, zorder=1, **style.drawn())
        legend.append((replace(style, width=1.3), _ZERO_SHOT))
    axes.set_xscale("log")
    _time_axis(axes, [one.fit_seconds for one in points if one.fit_seconds])
    label(axes, "time of the fit, search included, features given", "accuracy, %")
    add_legend(figure, legend)
    caption = f"Accuracy against the time of the fit (logarithmic) with {in_shots(fewest)}, {on}. {BARS}"
    return Plot("time", f"Accuracy and time with {in_shots(fewest)}, {on}", caption, figure)


def shots_figure(chosen: Sequence[Score | Average], styles: dict[str, Style], on: str, key: str) -> Plot | None:
    """Accuracy against the number of shots, a line for each method."""
    known = [one for one in chosen if one.mean is not None and (one.complete or isinstance(one, Score))]
    shots = sorted({one.shots for one in known})
    if len(shots) < 2:
        return None
    figure, axes = new_figure(4.4)
    methods = in_order(keys_of(known, "method"))
    for number, method in enumerate(methods):
        line = sorted((one for one in known if one.method == method), key=lambda one: one.shots)
        # Shifted a little, so that the bars of equal points do not hide each other.
        shift = 2 ** (0.16 * (number / max(1, len(methods) - 1) - 0.5))
        axes.errorbar(
            [one.shots * shift for one in line],
            [one.mean for one in line],
            yerr=[one.interval or 0 for one in line],
            **{**styles[method].drawn(), "markersize": 5, "elinewidth": 0.8, "capsize": 1.5},
            zorder=3 if method.startswith("LP++") else 2,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(shots, [str(n) for n in shots])
    axes.minorticks_off()
    label(axes, "images of each class", "accuracy, %")
    add_legend(figure, [(styles[method], method) for method in methods])
    caption = f"Accuracy against the number of images of each class, {on}. {BARS}"
    return Plot(key, f"Accuracy and shots, {on}", caption, figure)


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
