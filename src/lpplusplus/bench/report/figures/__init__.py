"""The benchmark as pictures, one file a kind. Needs matplotlib; the rank diagram also needs autorank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...results import Row
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
    return _with_own_keys([picture for picture in pictures if picture is not None]), remarks


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
