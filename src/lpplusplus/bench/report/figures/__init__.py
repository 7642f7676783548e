"""The benchmark as figures, one file per kind. Needs matplotlib; the rank diagram also needs autorank."""

from collections.abc import Sequence
from dataclasses import replace

from ...results import Row
from ..statistics import Score, average, is_main, keys_of, on_sets
from ..table import own_keys
from .accuracy import shots_figure, time_figure
from .descent import curve_figures, rate_figure
from .drawing import Plot, house_style, method_styles
from .ranks import rank_figure

__all__ = ["Plot", "make_figures"]


def make_figures(rows: Sequence[Row], scores: Sequence[Score]) -> tuple[list[Plot], list[str]]:
    """All figures that can be drawn from the rows, and remarks on the others."""
    plots: list[Plot | None] = []
    remarks: list[str] = []
    styles = method_styles(keys_of(scores, "method"))
    backbones = keys_of(scores, "backbone")
    with house_style():
        for backbone in backbones:
            ours = [one for one in scores if one.backbone == backbone]
            main = [one for one in ours if is_main(one)]
            over = average(main)
            theirs = [row for row in rows if row.cell.backbone == backbone]
            where = f", {backbone}" if len(backbones) > 1 else ""
            sets = keys_of(main, "dataset")
            plots.append(time_figure(over, styles, on_sets(sets) + where))
            if len(sets) > 1:
                plots.append(shots_figure(over, styles, on_sets(sets) + where, "shots-average"))
            for name in sets:
                chosen = [one for one in main if one.dataset == name]
                plots.append(shots_figure(chosen, styles, name + where, f"shots-{name}"))
            plots.append(rate_figure(theirs, where))
            plots += curve_figures(theirs, styles, where)
        ranks, remark = rank_figure(scores)
        plots.append(ranks)
    remarks += [remark] if remark else []
    drawn = [plot for plot in plots if plot is not None]
    keys = own_keys((plot.key for plot in drawn), "figure")
    return [replace(plot, key=key) for plot, key in zip(drawn, keys, strict=True)], remarks
