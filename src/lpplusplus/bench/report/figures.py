"""Accuracy against time and shots, ranks, the loss along a fit, and gradient descent at several learning rates."""

import io
import json
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from pandas import DataFrame, Series, concat

from ...probe.solvers import GradientDescent
from ..cell import Row
from .drawing import BARS, BLUE, RED, Plot, Style, add_legend, house_style, in_lines, look, method_styles, new_figure
from .statistics import average, half_width, in_order, in_shots, on_sets, rate_of, solver_of
from .table import duration, with_own_keys

_ZERO_SHOT = "Zero-shot"
LEAST_BLOCKS, LEAST_METHODS = 5, 3
"""Smallest numbers that the Friedman test with Nemenyi's critical distance makes sense for."""
LONG_FIT = 2000
"""Updates beyond which the axis of updates is logarithmic."""


def time_figure(over: DataFrame, styles: dict[str, Style], on: str) -> Plot | None:
    """Accuracy against fit time at the fewest shots; zero-shot classification, which learns nothing, is a line."""
    whole = over[over.complete]
    fewest = whole.shots.min()
    shown = {score.method: score for score in whole[whole.shots == fewest].itertuples()}
    zero = shown.pop(_ZERO_SHOT, None)
    points = [score for score in shown.values() if score.fit_seconds > 0]
    if not points:
        return None
    figure, axes = new_figure(4.2, "time of the fit, search included, features given", "accuracy, %")
    legend = [(styles[score.method] | {"linestyle": "none"}, score.method) for score in points]
    marks = {"markersize": 8, "markeredgecolor": "white", "markeredgewidth": 0.6, "capsize": 3}
    for score in points:
        style = styles[score.method] | {"linestyle": "none", "linewidth": 1.5}  # The width of the bars.
        axes.errorbar(score.fit_seconds, score.mean, yerr=np.nan_to_num(score.interval), **style, **marks)
    if zero is not None:
        style = styles[_ZERO_SHOT] | {"marker": ""}
        axes.axhline(zero.mean, zorder=1, **style)
        legend.append((style | {"linewidth": 1.3}, _ZERO_SHOT))
    axes.set_xscale("log")
    _time_axis(axes, [score.fit_seconds for score in points])
    add_legend(figure, legend)
    caption = f"Accuracy against the time of the fit (logarithmic) with {in_shots(fewest)}, {on}. {BARS}"
    return Plot("time", f"Accuracy and time with {in_shots(fewest)}, {on}", caption, figure)


def shots_figure(known: DataFrame, styles: dict[str, Style], on: str, key: str) -> Plot | None:
    """Accuracy against the number of shots, a line for each method."""
    known = known[known["mean"].notna()]
    shots = sorted(known.shots.unique())
    if len(shots) < 2:
        return None
    figure, axes = new_figure(4.4, "images of each class", "accuracy, %")
    methods = in_order(known.method)
    for number, method in enumerate(methods):
        line = known[known.method == method].sort_values("shots")
        # Shifted a little, so that the bars of equal points do not hide each other.
        shift = 2 ** (0.16 * (number / max(1, len(methods) - 1) - 0.5))
        axes.errorbar(
            line.shots.to_numpy(float) * shift,
            line["mean"].to_numpy(float),
            yerr=np.nan_to_num(line.interval.to_numpy(float)),
            **styles[method] | {"markersize": 5, "elinewidth": 0.8, "capsize": 1.5},
            zorder=3 if method.startswith("LP++") else 2,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(shots, [str(n) for n in shots])
    axes.minorticks_off()
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


def rank_figure(scores: DataFrame) -> tuple[Plot | None, str]:
    """Mean ranks with Nemenyi's critical distance; a remark instead if there is too little to compare."""
    main = scores[(scores.group == "main") & scores.complete]
    table, what = _blocks(main)
    if table.shape[1] < LEAST_METHODS or len(table) < LEAST_BLOCKS:
        return None, (
            f"No rank diagram: it needs {LEAST_METHODS} methods and {LEAST_BLOCKS} blocks (data sets, or data sets by "
            f"shots) that all of them have completed; there are {table.shape[1]} and {len(table)}."
        )
    try:
        rank = import_module("autorank").autorank
    except ImportError:
        return None, 'No rank diagram: it needs autorank, pip install "lpplusplus[bench]".'
    # It prints its decisions, and warnings about tests for normality, which do not affect the ranks.
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        result = rank(table, alpha=0.05, order="descending", force_mode="nonparametric")
    ranks = {str(name): float(rank) for name, rank in result.rankdf["meanrank"].items()}
    figure = _draw_ranks(ranks, float(result.cd))
    sure = (
        f"differ (Friedman p = {result.pvalue:.2g})"
        if result.pvalue < 0.05
        else f"cannot be told apart (Friedman p = {result.pvalue:.2g})"
    )
    caption = (
        f"Mean ranks over {len(table)} {what}; 1 is best. Methods joined by a bar are closer than the critical "
        f"distance {result.cd:.2f} (Nemenyi, 5 %). Overall the methods {sure}."
    )
    if what != "data sets":
        caption += " Blocks of one data set are not independent, so that this distance is on the small side."
    return Plot("ranks", "Ranks", caption, figure), ""


def _blocks(main: DataFrame) -> tuple[DataFrame, str]:
    """Accuracies of each method, one per block that every method has completed; and what blocks are, in words.

    Blocks are data sets if there are enough of them, else data sets by shots.
    """
    if main.empty:
        return DataFrame(), "data sets"
    table = main.pivot_table(index=["dataset", "encoder", "shots"], columns="method", values="mean", sort=False)
    table = table[in_order(main.method)].dropna().reset_index()
    several, methods = table.encoder.nunique() > 1, in_order(main.method)
    if table.dataset.nunique() >= LEAST_BLOCKS and not several:
        return table.groupby("dataset", sort=False)[methods].mean(), "data sets"
    return table[methods], "blocks (data set, encoder, shots)" if several else "blocks (data set, shots)"


def _draw_ranks(ranks: dict[str, float], distance: float) -> Any:
    """Names in a column, best first, each with its rank on a line; bars join ranks that do not clearly differ."""
    order = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in order]
    groups: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = max(i for i in range(len(order)) if values[i] - values[first] <= distance)
        if last > first and not any(a <= first and last <= b for a, b in groups):
            groups.append((first, last))
    figure, axes = new_figure(0.9 + 0.3 * len(order), "mean rank", grid="x")
    for height, (name, value) in enumerate(zip(order, values, strict=True)):
        colour = RED if name.startswith("LP++") else BLUE
        axes.plot([value], [height], marker="o", markersize=7, color=colour, zorder=3)
        axes.axhline(height, color="0.93", linewidth=0.8, zorder=0)
    low, high = min(values), max(values)
    room = 0.05 * max(high - low, 1.0)
    for number, (first, last) in enumerate(groups):
        x = high + room * (1.4 + number)
        axes.plot([x, x], [first - 0.2, last + 0.2], color="0.25", linewidth=3, solid_capstyle="butt")
    right = high + room * (2 + len(groups))
    left = low - room
    axes.plot([left, left + distance], [-1, -1], color="0.25", linewidth=1.5, marker="|", markersize=8)
    axes.text(left + distance + room / 2, -1, f"critical distance {distance:.2f}", va="center", fontsize=9)
    axes.set_yticks(range(len(order)), [in_lines(name) for name in order])
    axes.set(ylim=(len(order) - 0.5, -1.7), xlim=(left - room / 2, max(right, left + distance + room)))
    return figure


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
    accuracies = _curves(chosen, ("validation_accuracy", "held_out_accuracy"), 100.0)
    title = f"Validation accuracy along the fit, {at}"
    return [
        _curve_figure(("curves-loss", f"Loss along the fit, {at}"), "loss on the support", _curves(chosen, ("loss",)),
                      chosen, styles),
        _curve_figure(("curves-validation", title), "validation accuracy, %", accuracies, chosen, styles),
    ]  # fmt: skip


def _curves(chosen: dict[str, Row], columns: Sequence[str], factor: float = 1.0) -> dict[str, Series]:
    """One curve per method: the first of these columns that its history has, by updates or epochs."""
    curves = {}
    for method in in_order(chosen):
        curve = chosen[method].curve
        values = next((curve[name] for name in columns if curve.get(name)), [])
        steps = curve.get("update") or curve.get("epoch") or []
        if len(values) > 1:
            steps = steps if len(steps) == len(values) else [float(i) for i in range(len(values))]
            curves[method] = Series(factor * np.array(values, float), steps)
    return curves


def _curve_figure(
    titled: tuple[str, str], name: str, curves: dict[str, Series], chosen: dict[str, Row], styles: dict[str, Style]
) -> Plot | None:
    if not curves:
        return None
    figure, axes = new_figure(3.9, "updates or epochs", name)
    legend = [(styles.get(method) or method_styles([method])[method], method) for method in curves]
    for number, (style, method) in enumerate(legend):
        curve, kept = curves[method], chosen[method].chosen
        every = max(1, len(curve) // 8)
        axes.plot(curve.index, curve, markersize=5, markevery=(number * every // len(curves), every), **style)
        if kept in curve.index:
            axes.plot([kept], [curve[kept]], marker="o", markersize=12, mfc="none", mec=style["color"])
    last = max(curve.index[-1] for curve in curves.values())
    if last > LONG_FIT:
        axes.set_xscale("symlog", linthresh=10)
        ticks = [0, *(10**power for power in range(1, 6) if 10**power <= last)]
        axes.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        axes.minorticks_off()
    add_legend(figure, legend)
    return Plot(*titled, f"{titled[1]}. A ring is the update that was kept.", figure)


_TASK = ["dataset", "shots", "seed"]


def descents(rows: Sequence[Row]) -> DataFrame:
    """Fits of gradient descent at a rate, or at the Lipschitz step, whose rate is NaN.

    `others` is all else that was set: a descent with another loss or start belongs to another curve. `pace` is the
    time that an update takes, in units of the visual block's curvature.
    """
    lines = []
    for row in rows:
        cell, solver = row.cell, solver_of(row.cell)
        ours = cell.estimator == "LPPlusPlus" and row.accuracy is not None
        if ours and isinstance(solver, GradientDescent) and not isinstance(solver.learning_rate, str):
            given = {key: value for key, value in cell.parameters.items() if key not in ("learning_rate", "solver")}
            others = [cell.dataset, given, repr(replace(solver, learning_rate=None)), cell.validation, cell.protocol]
            time, update = (row.curve.get(name) or [np.nan] for name in ("time", "update"))
            pace = time[-1] / update[-1] if update[-1] and len(time) == len(update) else np.nan
            lines.append((cell.dataset, cell.shots, cell.seed, rate_of(cell), 100 * (row.accuracy or 0.0),
                          json.dumps(others, sort_keys=True), pace))  # fmt: skip
    return DataFrame(lines, columns=[*_TASK, "rate", "accuracy", "others", "pace"])


def recorded_step(found: DataFrame) -> float:
    """The Lipschitz step of gradient descent, as fits recorded it: the median over tasks; NaN if none did.

    A fit with a known rate gives the unit of its history's time; then a fit of the same task with the Lipschitz step
    gives that step.
    """
    fixed = found[found.rate.notna()]
    units = (fixed.pace / fixed.rate).groupby([fixed[name] for name in _TASK]).last().rename("unit")
    lipschitz = found[found.rate.isna()].join(units, on=_TASK)
    return float((lipschitz.pace / lipschitz.unit.replace(0, np.nan)).median())


def rate_figure(rows: Sequence[Row], where: str) -> Plot | None:
    """Gradient descent at three fixed rates or more, at the fewest shots, with the Lipschitz step marked."""
    found = descents(rows)
    if found.rate.nunique() < 3:
        return None
    fewest = found.shots[found.rate.notna()].min()
    found = found[found.shots == fewest]
    swept = found[found.rate.notna()]
    lipschitz = found[found.rate.isna() & found.others.isin(swept.others)]
    figure, axes = new_figure(3.7, "learning rate", "accuracy, %")
    rates = sorted(swept.rate.unique())
    means, bars = zip(*(_mean_and_bar(swept[swept.rate == rate]) for rate in rates), strict=True)
    style = look(BLUE, "o", "-", 1.6)
    axes.errorbar(rates, means, yerr=bars, markersize=6, capsize=3, **style)
    legend = [(style, "fixed rate")]
    if len(lipschitz):
        (mean, bar), step = _mean_and_bar(lipschitz), recorded_step(concat([swept, lipschitz]))
        if np.isnan(step):
            axes.axhline(mean, color=RED, linestyle="--", linewidth=1.4)
            legend.append((look(RED, "", "--", 1.3), "Lipschitz step (not recorded how long)"))
        else:
            axes.axvline(step, color=RED, linestyle="--", linewidth=1.4)
            axes.errorbar([step], [mean], yerr=[bar], color=RED, marker="D", markersize=7, capsize=3, linestyle="none")
            legend.append((look(RED, "D", "--", 1.4), f"Lipschitz step ({step:.2g})"))
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    add_legend(figure, legend)
    at = f"{in_shots(fewest)}, {on_sets([*swept.dataset.unique()])}{where}"
    caption = f"Gradient descent at fixed learning rates and at the step that the curvature gives, {at}. {BARS}"
    return Plot("rates", f"Gradient descent and its learning rate, {at}", caption, figure)


def _mean_and_bar(found: DataFrame) -> tuple[float, float]:
    """Mean of the sets' means, and root mean square of their half widths, as in the tables."""
    sets = found.groupby("dataset").accuracy
    return float(sets.mean().mean()), float(np.sqrt(np.mean(np.square(np.nan_to_num(sets.apply(half_width))))))


def make_figures(rows: Sequence[Row], scores: DataFrame) -> tuple[list[Plot], list[str]]:
    """All figures that can be drawn from the rows, and remarks on the others."""
    plots: list[Plot | None] = []
    styles = method_styles([*scores.method])
    with house_style():
        for encoder, ours in scores.groupby("encoder", sort=False):
            main = ours[ours.group == "main"]
            over = average(main)
            theirs = [row for row in rows if row.cell.encoder == encoder]
            where = f", {encoder}" if scores.encoder.nunique() > 1 else ""
            sets = [*main.dataset.unique()]
            if sets:
                plots.append(time_figure(over, styles, on_sets(sets) + where))
            if len(sets) > 1:
                plots.append(shots_figure(over[over.complete], styles, on_sets(sets) + where, "shots-average"))
            for name, part in main.groupby("dataset", sort=False):
                plots.append(shots_figure(part, styles, name + where, f"shots-{name}"))
            plots.append(rate_figure(theirs, where))
            plots += curve_figures(theirs, styles, where)
        ranks, remark = rank_figure(scores)
    return with_own_keys([*plots, ranks], "figure"), [remark] if remark else []
