"""The benchmark as pictures, one file a kind. Needs matplotlib; the rank diagram also needs autorank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...results import Row
from ..keys import own_keys
from ..statistics import Summary, average, is_main, keys_of
from .accuracy import shots_figure, time_figure
from .descent import curve_figures, rate_figure
from .drawing import Picture, house_style, method_styles, on_sets
from .ranks import rank_figure

__all__ = ["Picture", "make_figures"]


def make_figures(rows: Sequence[Row], summaries: Sequence[Summary]) -> tuple[list[Picture], list[str]]:
    """All figures that the rows allow, and remarks on those that they do not."""
    pictures: list[Picture | None] = []
    remarks: list[str] = []
    styles = method_styles(keys_of(summaries, "method"))
    backbones = keys_of(summaries, "backbone")
    with house_style():
        for backbone in backbones:
            ours = [one for one in summaries if one.backbone == backbone]
            main = [one for one in ours if is_main(one)]
            over = average(main)
            theirs = [row for row in rows if row.cell.backbone == backbone]
            where = f", {backbone}" if len(backbones) > 1 else ""
            sets = keys_of(main, "dataset")
            pictures.append(time_figure(over, styles, on_sets(sets) + where))
            if len(sets) > 1:
                pictures.append(shots_figure(over, styles, on_sets(sets) + where, "shots-average"))
            for name in sets:
                chosen = [one for one in main if one.dataset == name]
                pictures.append(shots_figure(chosen, styles, name + where, f"shots-{name}"))
            pictures.append(rate_figure(theirs, where))
            pictures += curve_figures(theirs, styles, where)
        ranks, remark = rank_figure(summaries)
        pictures.append(ranks)
    remarks += [remark] if remark else []
    drawn = [picture for picture in pictures if picture is not None]
    keys = own_keys((picture.key for picture in drawn), "figure")
    return [replace(picture, key=key) for picture, key in zip(drawn, keys, strict=True)], remarks
