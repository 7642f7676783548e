"""The benchmark as pictures. Needs matplotlib; the rank diagram also needs autorank.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart, and every method has a marker
of its own, the same in all figures. Sizes are for a phone's width.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..results import Row
from .formats import duration
from .statistics import Average, Summary, average, half_width, in_order, is_main, keys_of, rate_of

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
"""Okabe and Ito's colours; their yellow is too light for a line on white and is darkened here."""
MARKERS = ("^", "v", "P", "X", "*", "<", ">", "h", "p", "d")
LONGEST = 27
"""Letters of a name that fit into a legend of two columns."""
LEAST_BLOCKS, LEAST_METHODS = 5, 3
"""What autorank's Friedman test with Nemenyi's critical distance needs."""


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    marker: str
    line: Any
    width: float


_OWN = {
    "Zero-shot": Style("#777777", "_", (0, (3, 2)), 1.4),
    "LP++ (paper)": Style(BLUE, "o", "-", 1.8),
    "LP++ (released)": Style(GREEN, "s", "-", 1.8),
    "LP++ (default)": Style(RED, "D", "-", 2.4),
}


@dataclass(frozen=True)
class Picture:
    """A figure, ready to be written."""

    key: str
    """Short name for files and links."""
    title: str
    caption: str
    """What it shows, for those who cannot see it too."""
    figure: Any
    """matplotlib's Figure."""

    def svg(self) -> str:
        """As an SVG document."""
        return _render(self, "svg").decode()

    def inline_svg(self) -> str:
        """As an SVG element for an HTML page: without prolog, and with ids of its own."""
        text = self.svg()
        text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
        own = re.compile(r'(\bid="|url\(#|href="#)')
        return re.sub(r"<[^>]+>", lambda tag: own.sub(rf"\g<1>{self.key}-", tag.group()), text)

    def png(self) -> bytes:
        """As a PNG file."""
        return _render(self, "png")


def make_figures(rows: Sequence[Row], summaries: Sequence[Summary]) -> tuple[list[Picture], list[str]]:
    """All figures that the rows allow, and remarks on those that they do not."""
    pictures: list[Picture | None] = []
    remarks: list[str] = []
    styles = method_styles(keys_of(summaries, "method"))
    backbones = keys_of(summaries, "backbone")
    with _style():
        for backbone in backbones:
            ours = [one for one in summaries if one.backbone == backbone]
            main = [one for one in ours if is_main(one)]
            over = average(main)
            theirs = [row for row in rows if row.cell.backbone == backbone]
            where = f", {backbone}" if len(backbones) > 1 else ""
            sets = keys_of(main, "dataset")
            pictures.append(_time_figure(over, styles, _on(sets) + where))
            if len(sets) > 1:
                pictures.append(_shots_figure(over, styles, _on(sets) + where, "shots-average"))
            for name in sets:
                chosen = [one for one in main if one.dataset == name]
                pictures.append(_shots_figure(chosen, styles, name + where, f"shots-{name}"))
            pictures.append(_rate_figure(theirs, where))
            pictures += _curve_figures(theirs, styles, where)
        ranks, remark = _rank_figure(summaries)
        pictures.append(ranks)
    remarks += [remark] if remark else []
    return _with_own_keys([picture for picture in pictures if picture is not None]), remarks


def method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """A colour, a marker and a line for each method, in the paper's order; LP++ is drawn strongest.

    >>> styles = method_styles(["LP++ (default)", "Zero-shot", "Mine"])
    >>> len({(style.colour, style.marker) for style in styles.values()})
    3
    """
    styles = {}
    others = [method for method in in_order(methods) if method not in _OWN]
    for place, method in enumerate(others):
        turn, colour = divmod(place, len(OTHERS))
        line = ((0, (4, 1.5)), (0, (1, 1)), "-.", "-")[turn % 4]
        styles[method] = Style(OTHERS[colour], MARKERS[place % len(MARKERS)], line, 1.2)
    return {method: _OWN[method] if method in _OWN else styles[method] for method in in_order(methods)}


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


def _time_figure(over: Sequence[Average], styles: dict[str, Style], on: str) -> Picture | None:
    """Accuracy against fit time at the fewest shots."""
    whole = [one for one in over if one.complete]
    if not whole:
        return None
    fewest = min(one.shots for one in whole)
    points = [one for one in whole if one.shots == fewest and one.fit_seconds and one.method != "Zero-shot"]
    if not points:
        return None
    figure, axes = _figure(4.2)
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
    handles = [(_handle(styles[one.method], line=False), one.method) for one in points]
    if zero is not None:
        handles.append((_plain_line(styles["Zero-shot"].colour, (0, (3, 2))), "Zero-shot"))
    _legend(figure, handles)
    caption = (
        f"Accuracy against the time of the fit (logarithmic) with {_shots(fewest)}, {on}. Bars are 95 % intervals of "
        f"the mean over tasks."
    )
    return Picture("time", f"Accuracy and time with {_shots(fewest)}, {on}", caption, figure)


def _shots_figure(chosen: Sequence[Summary | Average], styles: dict[str, Style], on: str, key: str) -> Picture | None:
    """Accuracy against the number of shots, a line a method."""
    known = [one for one in chosen if one.mean is not None and (one.complete or isinstance(one, Summary))]
    shots = sorted({one.shots for one in known})
    if len(shots) < 2:
        return None
    figure, axes = _figure(4.4)
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
    _legend(figure, [(_handle(styles[method]), method) for method in methods])
    caption = (
        f"Accuracy against the number of images of each class, {on}. Bars are 95 % intervals of the mean over tasks."
    )
    return Picture(key, f"Accuracy and shots, {on}", caption, figure)


def _rate_figure(rows: Sequence[Row], where: str) -> Picture | None:
    """Gradient descent at fixed rates, with the Lipschitz step marked."""
    descents = [row for row in rows if _is_descent(row) and row.accuracy is not None]
    swept = [row for row in descents if rate_of(row.cell) is not None]
    if len({rate_of(row.cell) for row in swept}) < 3:
        return None
    fewest = min(row.cell.shots for row in swept)
    swept = [row for row in swept if row.cell.shots == fewest]
    sets = list(dict.fromkeys(row.cell.dataset for row in swept))
    lipschitz = [
        row for row in descents if _is_lipschitz(row) and row.cell.shots == fewest and row.cell.dataset in sets
    ]
    rates = sorted({rate for row in swept if (rate := rate_of(row.cell)) is not None})
    figure, axes = _figure(3.7)
    groups = [[row for row in swept if rate_of(row.cell) == rate] for rate in rates]
    means, bars = zip(*(_mean_and_bar(group) for group in groups), strict=True)
    axes.errorbar(rates, means, yerr=bars, color=BLUE, marker="o", markersize=6, linewidth=1.6, capsize=3)
    handles = [(_handle(Style(BLUE, "o", "-", 1.6)), "fixed rate")]
    step = lipschitz_step([*swept, *lipschitz])
    if lipschitz:
        mean, bar = _mean_and_bar(lipschitz)
        if step is None:
            axes.axhline(mean, color=RED, linestyle="--", linewidth=1.4)
            handles.append((_plain_line(RED, "--"), "Lipschitz step (not recorded how long)"))
        else:
            axes.axvline(step, color=RED, linestyle="--", linewidth=1.4)
            axes.errorbar([step], [mean], yerr=[bar], color=RED, marker="D", markersize=7, capsize=3, linestyle="none")
            handles.append((_handle(Style(RED, "D", "--", 1.4)), f"Lipschitz step ({step:.2g})"))
    axes.set_xscale("log")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    axes.set(xlabel="learning rate", ylabel="accuracy, %")
    axes.grid(True, color="0.9")
    _legend(figure, handles)
    at = f"{_shots(fewest)}, {_on(sets)}{where}"
    caption = (
        f"Gradient descent at fixed learning rates and at the step that the curvature gives, {at}. Bars are 95 % "
        f"intervals of the mean over tasks."
    )
    return Picture("rates", f"Gradient descent and its learning rate, {at}", caption, figure)


def _curve_figures(rows: Sequence[Row], styles: dict[str, Style], where: str) -> list[Picture | None]:
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
    at = f"{_shots(most)} of {dataset}, task {seed}{where}"
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
            steps = curve.get("update", [])
            lines[method] = steps if len(steps) == len(values) else [float(i) for i in range(len(values))], values
    if not lines:
        return None
    figure, axes = _figure(3.9)
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
    axes.set(xlabel="updates", ylabel=label)
    axes.grid(True, color="0.9")
    _legend(figure, [(_handle(styles.get(method) or method_styles([method])[method]), method) for method in lines])
    return Picture(key, title, f"{title}. A ring is the update that was kept.", figure)


def _rank_figure(summaries: Sequence[Summary]) -> tuple[Picture | None, str]:
    """Mean ranks with Nemenyi's critical distance; a remark instead where there is too little to compare."""
    main = [one for one in summaries if is_main(one) and one.complete]
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
    # It prints its decisions, and warns of tests for normality, which do not bear on the ranks.
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
    return Picture("ranks", "Ranks", caption, figure), ""


def _blocks(main: Sequence[Summary], methods: Sequence[str]) -> tuple[dict[str, list[float]], list[object], str]:
    """Accuracies by method, one a block that every method has: data sets where there are enough, else by shots too."""
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
    """Names in a column, best first, each with its rank on a line; bars join those that are not told apart."""
    order = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in order]
    groups: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = max(i for i in range(len(order)) if values[i] - values[first] <= distance)
        if last > first and not any(a <= first and last <= b for a, b in groups):
            groups.append((first, last))
    figure, axes = _figure(0.9 + 0.3 * len(order))
    heights = list(range(len(order)))
    for height, name, value in zip(heights, order, values, strict=True):
        strong = name.startswith("LP++")
        axes.plot([value], [height], marker="o", markersize=7, color=RED if strong else BLUE, zorder=3)
    low, high = min(values), max(values)
    room = 0.05 * max(high - low, 1.0)
    for place, (first, last) in enumerate(groups):
        x = high + room * (1.4 + place)
        axes.plot([x, x], [first - 0.2, last + 0.2], color="0.25", linewidth=3, solid_capstyle="butt")
    right = high + room * (2 + len(groups))
    left = low - room
    axes.plot([left, left + distance], [-1, -1], color="0.25", linewidth=1.5, marker="|", markersize=8)
    axes.text(left + distance + room / 2, -1, f"critical distance {distance:.2f}", va="center", fontsize=9)
    axes.set_yticks(heights, [_short(name) for name in order])
    axes.set(
        ylim=(len(order) - 0.5, -1.7), xlim=(left - room / 2, max(right, left + distance + room)), xlabel="mean rank"
    )
    axes.grid(True, axis="x", color="0.9")
    for height in heights:
        axes.axhline(height, color="0.93", linewidth=0.8, zorder=0)
    return figure


@contextmanager
def _style() -> Iterator[None]:
    """Settings of all figures; names are text, never formulas."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "lpplusplus[bench]".') from error
    settings: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "svg.fonttype": "none",
        "text.parse_math": False,
        "text.usetex": False,
        "axes.unicode_minus": True,
    }
    with matplotlib.rc_context(settings):
        yield


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _render(picture: Picture, kind: str) -> bytes:
    import matplotlib

    content = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    # With a salt, equal figures are equal files.
    with _style(), matplotlib.rc_context({"svg.hashsalt": picture.key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # The reader's own fonts will have it.
        picture.figure.savefig(content, format=kind, dpi=200, metadata=metadata)
    return content.getvalue()


def _legend(figure: Any, entries: Sequence[tuple[Any, str]]) -> None:
    """Below the axes, in two columns; the figure grows by what it needs."""
    names = [_short(name) for _, name in entries]
    rows = -(-len(entries) // 2)
    figure.set_figheight(figure.get_figheight() - 0.6 + 0.21 * rows)
    # Names are put in afterwards, for matplotlib leaves out those that begin with "_".
    legend = figure.legend(
        [handle for handle, _ in entries],
        [str(place) for place in range(len(names))],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.35,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def _handle(style: Style, *, line: bool = True) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        color=style.colour,
        marker=style.marker,
        markersize=6,
        linestyle=style.line if line else "none",
        linewidth=style.width,
    )


def _plain_line(colour: str, line: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=line, linewidth=1.3)


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


def _pace(row: Row) -> float | None:
    """Time that an update takes."""
    time, update = row.curve.get("time", []), row.curve.get("update", [])
    return time[-1] / update[-1] if time and update and update[-1] and len(time) == len(update) else None


def _task(row: Row) -> tuple[object, ...]:
    return row.cell.dataset, row.cell.backbone, row.cell.shots, row.cell.seed


def _on(sets: Sequence[str]) -> str:
    return sets[0] if len(sets) == 1 else f"average of {len(sets)} data sets"


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _shots(n: int) -> str:
    return f"{n} shot{'s' * (n != 1)}"


def _with_own_keys(pictures: list[Picture]) -> list[Picture]:
    """Keys that can be file names and differ from each other."""
    used: set[str] = set()
    named = []
    for picture in pictures:
        plain = re.sub(r"[^a-z0-9]+", "-", picture.key.casefold()).strip("-") or "figure"
        key, number = plain, 1
        while key in used:
            number += 1
            key = f"{plain}-{number}"
        used.add(key)
        named.append(Picture(key, picture.title, picture.caption, picture.figure))
    return named
