"""Gradient descent and its learning rate, and what happens along a fit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ...results import Row
from ..statistics import half_width, in_order, rate_of
from .drawing import (
    BLUE,
    RED,
    Picture,
    Style,
    add_legend,
    handle,
    in_shots,
    method_styles,
    new_figure,
    on_sets,
    plain_line,
)


def lipschitz_step(rows: Sequence[Row]) -> float | None:
    """The Lipschitz step of gradient descent, as fits recorded it; the median over tasks.

    Histories count time in units of the visual block's curvature, so that a fit with a known rate tells the unit, and
    a fit of the same task with the Lipschitz step then tells that step.
    """
    units = {}
    for row in rows:
        rate, pace = rate_of(row.cell), _pace(row)
        if _is_descent(row) and rate is not None and pace is not None:
            units[_task(row)] = pace / rate
    steps = []
    for row in rows:
        pace, unit = _pace(row), units.get(_task(row))
        if _is_descent(row) and _is_lipschitz(row) and pace is not None and unit:
            steps.append(pace / unit)
    return float(np.median(steps)) if steps else None


def rate_figure(rows: Sequence[Row], where: str) -> Picture | None:
    """Gradient descent at fixed rates, with the Lipschitz step marked."""
    descents = [row for row in rows if _is_descent(row) and row.accuracy is not None]
    swept = [row for row in descents if rate_of(row.cell) is not None]
    if len({rate_of(row.cell) for row in swept}) < 3:
        return None
    fewest = min(row.cell.shots for row in swept)
    swept = [row for row in swept if row.cell.shots == fewest]
    sets = list(dict.fromkeys(row.cell.dataset for row in swept))
    # Of the same descent but for its rate: with another loss or start it would be another curve's point.
    alike = {_but_for_rate(row) for row in swept}
    lipschitz = [
        row for row in descents if _is_lipschitz(row) and row.cell.shots == fewest and _but_for_rate(row) in alike
    ]
    rates = sorted({rate for row in swept if (rate := rate_of(row.cell)) is not None})
    figure, axes = new_figure(3.7)
    groups = [[row for row in swept if rate_of(row.cell) == rate] for rate in rates]
    means, bars = zip(*(_mean_and_bar(group) for group in groups), strict=True)
    axes.errorbar(rates, means, yerr=bars, color=BLUE, marker="o", markersize=6, linewidth=1.6, capsize=3)
    handles = [(handle(Style(BLUE, "o", "-", 1.6)), "fixed rate")]
    step = lipschitz_step([*swept, *lipschitz])
    if lipschitz:
        mean, bar = _mean_and_bar(lipschitz)
        if step is None:
            axes.axhline(mean, color=RED, linestyle="--", linewidth=1.4)
            handles.append((plain_line(RED, "--"), "Lipschitz step (not recorded how long)"))
        else:
            axes.axvline(step, color=RED, linestyle="--", linewidth=1.4)
            axes.errorbar([step], [mean], yerr=[bar], color=RED, marker="D", markersize=7, capsize=3, linestyle="none")
            handles.append((handle(Style(RED, "D", "--", 1.4)), f"Lipschitz step ({step:.2g})"))
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    axes.set(xlabel="learning rate", ylabel="accuracy, %")
    axes.grid(True, color="0.9")
    add_legend(figure, handles)
    at = f"{in_shots(fewest)}, {on_sets(sets)}{where}"
    caption = (
        f"Gradient descent at fixed learning rates and at the step that the curvature gives, {at}. Bars are 95 % "
        f"intervals of the mean over tasks."
    )
    return Picture("rates", f"Gradient descent and its learning rate, {at}", caption, figure)


def curve_figures(rows: Sequence[Row], styles: dict[str, Style], where: str) -> list[Picture | None]:
    """Loss and validation accuracy along the fit, of the first data set, most shots and first task that kept them."""
    kept = [row for row in rows if len(row.curve.get("loss", ())) > 1 and rate_of(row.cell) is None]
    if not kept:
        return []
    dataset = kept[0].cell.dataset
    inside = [row for row in kept if row.cell.dataset == dataset]
    most = max(row.cell.shots for row in inside)
    inside = [row for row in inside if row.cell.shots == most]
    seed = min(row.cell.seed for row in inside)
    chosen = {row.cell.method: row for row in inside if row.cell.seed == seed}
    at = f"{in_shots(most)} of {dataset}, task {seed}{where}"
    return [
        _curve_figure(
            chosen, styles, ("loss",), 1.0, "loss on the support", f"Loss along the fit, {at}", "curves-loss"
        ),
        _curve_figure(
            chosen,
            styles,
            ("validation_accuracy", "held_out_accuracy"),
            100.0,
            "validation accuracy, %",
            f"Validation accuracy along the fit, {at}",
            "curves-validation",
        ),
    ]


def _curve_figure(
    chosen: dict[str, Row],
    styles: dict[str, Style],
    columns: Sequence[str],
    scale: float,
    label: str,
    title: str,
    key: str,
) -> Picture | None:
    lines = {}
    for method in in_order(chosen):
        curve = chosen[method].curve
        values = next((curve[name] for name in columns if curve.get(name)), None)
        if values is not None and len(values) > 1:
            steps = curve.get("update") or curve.get("epoch") or []
            lines[method] = steps if len(steps) == len(values) else [float(i) for i in range(len(values))], values
    if not lines:
        return None
    figure, axes = new_figure(3.9)
    for place, (method, (steps, values)) in enumerate(lines.items()):
        style = styles.get(method) or method_styles([method])[method]
        heights = scale * np.array([np.nan if value is None else value for value in values], dtype=float)
        every = max(1, len(steps) // 8)
        axes.plot(
            steps,
            heights,
            color=style.colour,
            linestyle=style.line,
            linewidth=style.width,
            marker=style.marker,
            markersize=5,
            markevery=(place * every // max(1, len(lines)), every),
        )
        picked = chosen[method].chosen
        if picked is not None and picked in steps:
            axes.plot([picked], [heights[steps.index(picked)]], marker="o", markersize=12, mfc="none", mec=style.colour)
    if max(steps[-1] for steps, _ in lines.values()) > 2000:
        axes.set_xscale("symlog", linthresh=10)
        ticks = [0, *(10**power for power in range(1, 6) if 10**power <= max(s[-1] for s, _ in lines.values()))]
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.minorticks_off()
    axes.set(xlabel="updates or epochs", ylabel=label)
    axes.grid(True, color="0.9")
    add_legend(figure, [(handle(styles.get(method) or method_styles([method])[method]), method) for method in lines])
    return Picture(key, title, f"{title}. A ring is the update that was kept.", figure)


def _mean_and_bar(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean of the sets' means, and root mean square of their half widths, as in the tables."""
    sets: dict[str, list[float]] = {}
    for row in rows:
        sets.setdefault(row.cell.dataset, []).append(100 * (row.accuracy or 0.0))
    bars = [half_width(values) or 0.0 for values in sets.values()]
    return float(np.mean([np.mean(values) for values in sets.values()])), float(np.sqrt(np.mean(np.square(bars))))


def _is_descent(row: Row) -> bool:
    return row.cell.parameters.get("solver") == "gradient-descent"


def _is_lipschitz(row: Row) -> bool:
    return row.cell.parameters.get("learning_rate") in (None, "lipschitz")


def _but_for_rate(row: Row) -> str:
    cell = row.cell
    given = {key: value for key, value in cell.parameters.items() if key != "learning_rate"}
    return json.dumps([cell.dataset, cell.estimator, given, cell.validation, cell.protocol], sort_keys=True)


def _pace(row: Row) -> float | None:
    """Time that an update takes."""
    time, update = row.curve.get("time", []), row.curve.get("update", [])
    return time[-1] / update[-1] if time and update and update[-1] and len(time) == len(update) else None


def _task(row: Row) -> tuple[object, ...]:
    return row.cell.dataset, row.cell.backbone, row.cell.shots, row.cell.seed
