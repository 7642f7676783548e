"""Every method against one of them, draw by draw. A mean over shots is taken per draw first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import DataFrame

from .statistics import Difference, difference, in_order, in_shots
from .table import NOTHING, Column, Table, Value, duration, table_of

READING = (
    "Points of accuracy, paired by draw, ± the standard error of the difference. Fit: median seconds at most shots."
)
"""How to read these tables."""
_Places = list[tuple[str, str]]
"""Data sets, each with an encoder."""


def paired_tables(scores: DataFrame, against: str) -> list[Table]:
    """A table of differences over all data sets and encoders, and one for each of them."""
    scores = _named_as_planned(scores[scores.draws > 0])
    if against not in [*scores.method]:
        raise ValueError(f"there are no results of {against!r}; methods with results: "
                         f"{', '.join(in_order(scores.method))}.")  # fmt: skip
    places = [*scores.groupby(["dataset", "encoder"], sort=False).groups]
    known = {
        (*place, method): {one.shots: one for one in part.itertuples()}
        for (*place, method), part in scores.groupby(["dataset", "encoder", "method"], sort=False)
    }
    tables = [_overview(known, places, in_order(scores.method), against)] if len(places) > 1 else []
    tables += [_place_table(known, place, in_order(scores.method), against) for place in places]
    return [table for table in tables if table is not None]


def _named_as_planned(scores: DataFrame) -> DataFrame:
    """The scores under their names in the plan: variants that differ only between data sets need no number here."""
    alone = scores.groupby(["dataset", "encoder", "name"]).method.transform("nunique") == 1
    return scores.assign(method=scores.name.where(alone, scores.method))


def _gap(ours: dict[int, Any], theirs: dict[int, Any]) -> Difference | None:
    """Over the numbers of shots that both have."""
    common = sorted(ours.keys() & theirs.keys())
    return difference([ours[n].accuracies for n in common], [theirs[n].accuracies for n in common])


def _overview(known: dict[Any, dict[int, Any]], places: _Places, methods: Sequence[str], against: str) -> Table | None:
    """Mean over shots: a row for each method, a column for each data set and encoder, and their mean."""
    lines = []
    for method in methods:
        found = [_gap(known.get((*place, method), {}), known.get((*place, against), {})) for place in places]
        line: dict[Column, Value] = {Column("Method"): method}
        for place, gap in zip(places, found, strict=True):
            line[Column(", ".join(place))] = None if gap is None else "" if method == against else str(gap)
        gaps = [gap for gap in found if gap is not None]
        if len(gaps) == len(found) and method != against:
            # The draws differ: their errors are independent.
            error = float(np.sqrt(np.sum(np.square([gap.error for gap in gaps])))) / len(gaps)
            line[Column("all")] = str(Difference(float(np.mean([gap.mean for gap in gaps])), error, 0))
        lines.append(line)
    shots = sorted({n for scores in known.values() for n in scores})
    title = f"Difference from {against}, mean over {', '.join(map(str, shots))} shots"
    return table_of("paired", title, lines, [READING])


def _place_table(
    known: dict[Any, dict[int, Any]], place: tuple[str, str], methods: Sequence[str], against: str
) -> Table | None:
    """A row for each method: at each number of shots its accuracy, and its difference."""
    theirs = known.get((*place, against), {})
    shots = sorted({n for key, scores in known.items() if key[:2] == place for n in scores})
    lines, fewer = [], dict[str, list[str]]()
    for method in methods:
        ours = known.get((*place, method), {})
        line: dict[Column, Value] = {Column("Method"): method}
        for n in shots:
            gap = _gap({n: ours[n]}, {n: theirs[n]}) if n in ours and n in theirs else None
            beside = f" ({gap})" if gap is not None and method != against else ""
            line[Column(in_shots(n))] = f"{ours[n].mean:.1f}{beside}" if n in ours else None
            if gap is not None and gap.draws < theirs[n].draws:
                fewer.setdefault(method, []).append(f"{gap.draws} at {in_shots(n)}")
        last = float(ours[max(ours)].fit_seconds) if ours else 0.0
        line[Column("fit")] = None if not ours else NOTHING if np.isnan(last) else duration(last)
        lines.append(line)
    draws = max((one.draws for one in theirs.values()), default=0)
    notes = [f"Mean of {draws} draws."] + [f"{method}: draws {', '.join(at)}." for method, at in fewer.items()]
    title = f"{', '.join(place)}: accuracy (difference from {against})"
    return table_of("paired " + " ".join(place), title, lines, notes)
