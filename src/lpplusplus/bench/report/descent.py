"""Figures of gradient descent at several learning rates, and of the loss along a fit."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...probe.solvers import GradientDescent
from ..cell import Row
from .drawing import BARS, BLUE, RED, Plot, Style, add_legend, label, method_styles, new_figure
from .statistics import half_width, in_order, in_shots, on_sets, rate_of, solver_of

LONG_FIT = 2000
"""Updates beyond which the axis of updates is logarithmic."""


def rate_figure(rows: Sequence[Row], where: str) -> Plot | None:
    """Gradient descent at fixed rates, with the Lipschitz step marked."""
    sweep = _sweep(rows)
    if sweep is None:
        return None
    fewest, by_rate, lipschitz = sweep
    rates = list(by_rate)
    figure, axes = new_figure(3.7)
    means, bars = zip(*map(_mean_and_bar, by_rate.values()), strict=True)
    axes.errorbar(rates, means, yerr=bars, color=BLUE, marker="o", markersize=6, linewidth=1.6, capsize=3)
    legend = [(Style(BLUE, "o", "-", 1.6), "fixed rate")]
    swept = [row for group in by_rate.values() for row in group]
    if lipschitz:
        legend.append(_draw_lipschitz(axes, lipschitz, recorded_step([*swept, *lipschitz])))
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    label(axes, "learning rate", "accuracy, %")
    add_legend(figure, legend)
    at = f"{in_shots(fewest)}, {on_sets(list(dict.fromkeys(row.cell.dataset for row in swept)))}{where}"
    caption = f"Gradient descent at fixed learning rates and at the step that the curvature gives, {at}. {BARS}"
    return Plot("rates", f"Gradient descent and its learning rate, {at}", caption, figure)


def recorded_step(rows: Sequence[Row]) -> float | None:
    """The Lipschitz step of gradient descent, as fits recorded it; the median over tasks.

    Histories count time in units of the visual block's curvature. A fit with a known rate gives this unit; then a fit
    of the same task with the Lipschitz step gives that step.
    """
    units = {}
    for row in rows:
        rate, pace = rate_of(row.cell), _pace(row)
        if _is_descent(row) and not np.isnan(rate) and pace is not None:
            units[_task(row)] = pace / rate
    steps = []
    for row in rows:
        pace, unit = _pace(row), units.get(_task(row))
        if _is_descent(row) and _is_lipschitz(row) and pace is not None and unit:
            steps.append(pace / unit)
    return float(np.median(steps)) if steps else None


def curve_figures(rows: Sequence[Row], styles: dict[str, Style], where: str) -> list[Plot | None]:
    """Loss and validation accuracy during the fit, for the first data set, most shots and first draw that has them."""
    kept = [row for row in rows if len(row.curve.get("loss", ())) > 1 and np.isnan(rate_of(row.cell))]
    if not kept:
        return []
    dataset = kept[0].cell.dataset
    most, earliest = max((row.cell.shots, -row.cell.seed) for row in kept if row.cell.dataset == dataset)
    task = (dataset, most, -earliest)
    chosen = {row.cell.method: row for row in kept if (row.cell.dataset, row.cell.shots, row.cell.seed) == task}
    at = f"{in_shots(most)} of {dataset}, draw {-earliest}{where}"
    losses = _curves(chosen, styles, ("loss",))
    accuracies = _curves(chosen, styles, ("validation_accuracy", "held_out_accuracy"), 100.0)
    return [
        _curve_figure("curves-loss", f"Loss along the fit, {at}", "loss on the support", losses),
        _curve_figure(
            "curves-validation", f"Validation accuracy along the fit, {at}", "validation accuracy, %", accuracies
        ),
    ]


class _Descent(NamedTuple):
    """What is drawn of one method's fit."""

    method: str
    steps: list[float]
    values: Any
    kept: float | None
    """The update or epoch that the method chose."""
    style: Style


def _curves(
    chosen: dict[str, Row], styles: dict[str, Style], columns: Sequence[str], factor: float = 1.0
) -> list[_Descent]:
    """One curve per method: the first of these columns that its history has, against updates or epochs."""
    curves = []
    for method in in_order(chosen):
        curve = chosen[method].curve
        values = next((curve[name] for name in columns if curve.get(name)), [])
        if len(values) > 1:
            steps = curve.get("update") or curve.get("epoch") or []
            steps = steps if len(steps) == len(values) else [float(i) for i in range(len(values))]
            style = styles.get(method) or method_styles([method])[method]
            heights = factor * np.array([np.nan if value is None else value for value in values], dtype=float)
            curves.append(_Descent(method, steps, heights, chosen[method].chosen, style))
    return curves


def _curve_figure(key: str, title: str, name: str, curves: Sequence[_Descent]) -> Plot | None:
    if not curves:
        return None
    figure, axes = new_figure(3.9)
    for number, (_, steps, values, kept, style) in enumerate(curves):
        every = max(1, len(steps) // 8)
        axes.plot(steps, values, markersize=5, markevery=(number * every // len(curves), every), **style.drawn())
        if kept is not None and kept in steps:
            axes.plot([kept], [values[steps.index(kept)]], marker="o", markersize=12, mfc="none", mec=style.colour)
    last = max(curve.steps[-1] for curve in curves)
    if last > LONG_FIT:
        axes.set_xscale("symlog", linthresh=10)
        ticks = [0, *(10**power for power in range(1, 6) if 10**power <= last)]
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.minorticks_off()
    label(axes, "updates or epochs", name)
    add_legend(figure, [(curve.style, curve.method) for curve in curves])
    return Plot(key, title, f"{title}. A ring is the update that was kept.", figure)


def _sweep(rows: Sequence[Row]) -> tuple[int, dict[float, list[Row]], list[Row]] | None:
    """The fewest shots, the descents there by rate, and those with the Lipschitz step; None for less than three rates.

    They differ in the rate only: a descent with another loss or start would belong to another curve.
    """
    descents = [row for row in rows if _is_descent(row) and row.accuracy is not None]
    at_any_shots = _by_rate(descents)
    if len(at_any_shots) < 3:
        return None
    fewest = min(row.cell.shots for group in at_any_shots.values() for row in group)
    descents = [row for row in descents if row.cell.shots == fewest]
    by_rate = _by_rate(descents)
    alike = {_but_for_rate(row) for group in by_rate.values() for row in group}
    return fewest, by_rate, [row for row in descents if _is_lipschitz(row) and _but_for_rate(row) in alike]


def _by_rate(rows: Sequence[Row]) -> dict[float, list[Row]]:
    groups: dict[float, list[Row]] = {}
    for row in rows:
        rate = rate_of(row.cell)
        if not np.isnan(rate):
            groups.setdefault(rate, []).append(row)
    return dict(sorted(groups.items()))


def _draw_lipschitz(axes: Any, rows: Sequence[Row], step: float | None) -> tuple[Style, str]:
    """Mark the Lipschitz step, and return its entry in the legend."""
    mean, bar = _mean_and_bar(rows)
    if step is None:
        axes.axhline(mean, color=RED, linestyle="--", linewidth=1.4)
        return Style(RED, "", "--", 1.3), "Lipschitz step (not recorded how long)"
    axes.axvline(step, color=RED, linestyle="--", linewidth=1.4)
    axes.errorbar([step], [mean], yerr=[bar], color=RED, marker="D", markersize=7, capsize=3, linestyle="none")
    return Style(RED, "D", "--", 1.4), f"Lipschitz step ({step:.2g})"


def _mean_and_bar(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean of the sets' means, and root mean square of their half widths, as in the tables."""
    sets: dict[str, list[float]] = {}
    for row in rows:
        sets.setdefault(row.cell.dataset, []).append(100 * (row.accuracy or 0.0))
    bars = [np.nan_to_num(half_width(values)) for values in sets.values()]
    return float(np.mean([np.mean(values) for values in sets.values()])), float(np.sqrt(np.mean(np.square(bars))))


def _is_descent(row: Row) -> bool:
    return isinstance(solver_of(row.cell), GradientDescent)


def _is_lipschitz(row: Row) -> bool:
    return getattr(solver_of(row.cell), "learning_rate", None) is None


def _but_for_rate(row: Row) -> str:
    cell, solver = row.cell, solver_of(row.cell)
    given = {key: value for key, value in cell.parameters.items() if key not in ("learning_rate", "solver")}
    if isinstance(solver, GradientDescent):
        given["solver"] = repr(replace(solver, learning_rate=None))
    return json.dumps([cell.dataset, cell.estimator, given, cell.validation, cell.protocol], sort_keys=True)


def _pace(row: Row) -> float | None:
    """Time that an update takes."""
    time, update = row.curve.get("time", []), row.curve.get("update", [])
    return time[-1] / update[-1] if time and update and update[-1] and len(time) == len(update) else None


def _task(row: Row) -> tuple[object, ...]:
    return row.cell.dataset, row.cell.encoder, row.cell.shots, row.cell.seed
