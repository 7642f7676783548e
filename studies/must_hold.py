"""What the default promises, from the rows of the plans in docs/plans: each promise, its figure, and whether it holds.

    lpp bench run docs/plans/names.toml --root $LPP_DATA -o results/
    lpp bench run docs/plans/names-dtd.toml --root $LPP_DATA -o results/
    lpp bench run docs/plans/whurs19-default.toml --root $LPP_DATA -o results/
    lpp bench run docs/plans/league.toml --root $LPP_DATA -o results/
    lpp bench run docs/plans/league-dtd.toml --root $LPP_DATA -o results/
    lpp bench run docs/plans/photos.toml --root $LPP_DATA/photos -o photos/
    python -m studies.must_hold results/ photos/             # prints the table
    python -m studies.must_hold results/ photos/ --write     # into docs/explanation/flow.md, with that of the names

Figures are points of accuracy, paired draw by draw, ± the standard error of the difference. A promise without rows is
"not run". Where a figure misses its limit by less than its standard error, "within noise" stands beside "no".
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lpplusplus._core.files import atomic_write
from lpplusplus.bench.report.statistics import Difference, difference, mean_and_error, summarise
from lpplusplus.bench.results import Results

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "flow.md"
SHOTS = (1, 2, 4, 8, 16)
DEFAULT, IMAGES, HALF, ALL = "LP++ (default)", "Images alone", "Half of the names wrong", "All names wrong"
SATELLITES = (("whurs19", "RN50"), ("whurs19", "ViT-B/32"), ("whurs19", "ViT-L/14"))
TEXTURES = ("dtd-features", "ViT-B/32")
FOUR = (*SATELLITES, TEXTURES)
PHOTOS = (("pets", "embedded"), ("caltech", "embedded"))
BEFORE = {
    "RN50": (84.3, 87.9, 91.6, 94.7, 96.5),
    "ViT-B/32": (90.0, 92.6, 94.9, 96.8, 98.0),
    "ViT-L/14": (96.7, 98.1, 98.7, 99.1, 99.4),
}
"""The default before it had a metric, mean of 100 draws: the last run of that code."""
TEXTURES_GOAL = {2: 55.4, 4: 60.0, 8: 63.7, 16: 67.8}

Place = tuple[str, str]
Line = tuple[str, str, str]
"""Promise, figures, whether it holds."""


class Table:
    """Scores by place, method and number of shots."""

    def __init__(self, folders: Iterable[Path]) -> None:
        rows = [row for folder in folders for row in Results(folder, create=False).rows()]
        self._accuracies = {
            (one.dataset, one.encoder, one.name, one.shots): one.accuracies
            for one in summarise(rows).itertuples() if one.draws
        }  # fmt: skip

    def accuracies(self, places: Sequence[Place], method: str, shots: Sequence[int]) -> list[Any]:
        """Accuracies by draw of each place and number of shots, or none if one is missing."""
        found = [self._accuracies.get((*where, method, count)) for where in places for count in shots]
        return [] if any(one is None for one in found) else found

    def gap(self, places: Sequence[Place], shots: Sequence[int], one: str, other: str) -> Difference | None:
        """Of the mean over these places and shots, draw by draw."""
        return difference(self.accuracies(places, one, shots), self.accuracies(places, other, shots))

    def level(self, where: Place, shots: int) -> Difference | None:
        """The default's accuracy and its standard error."""
        for one in self.accuracies([where], DEFAULT, [shots]):
            return Difference(*mean_and_error(one), len(one))
        return None


def verdict(found: Sequence[tuple[Difference | None, float]]) -> str:
    """Whether every figure reaches its limit."""
    if any(gap is None for gap, _ in found):
        return "not run" if all(gap is None for gap, _ in found) else "not all run"
    missed = [(gap, limit) for gap, limit in found if gap is not None and gap.mean < limit]
    if not missed:
        return "yes"
    noise = all(gap.mean + np.nan_to_num(gap.error) >= limit for gap, limit in missed)
    return "no, within noise" if noise else "**no**"


def shown(gaps: Sequence[Difference | None], *, signed: bool = True) -> str:
    """Figures one after the other, with two digits, and of how many draws they are."""
    parts = []
    for gap in gaps:
        error = "" if gap is None or np.isnan(gap.error) else f" ± {gap.error:.2f}"
        parts.append("–" if gap is None else f"{gap.mean:{'+' if signed else ''}.2f}{error}".replace("-", "−"))
    draws = sorted({gap.draws for gap in gaps if gap is not None})
    return ", ".join(parts) + (f"; {'–'.join(map(str, draws[:: max(1, len(draws) - 1)]))} draws" if draws else "")


def name(where: Place) -> str:
    """As the table names it."""
    return {"whurs19": f"WHU {where[1]}", "dtd-features": "DTD"}.get(where[0], where[0])


def lines(table: Table) -> Iterator[Line]:
    """Every promise."""
    few, more = SHOTS[:1], SHOTS[1:]
    for where in SATELLITES:
        gaps = []
        for shots, before in zip(more, BEFORE[where[1]][1:], strict=True):
            gap = table.level(where, shots)
            gaps.append(None if gap is None else Difference(gap.mean - before, gap.error, gap.draws))
        yield (f"{name(where)}: not below the default before its metric, at 2, 4, 8, 16", shown(gaps),
               verdict([(gap, -np.nan_to_num(gap.error) if gap else 0.0) for gap in gaps]))  # fmt: skip
    goals = [(table.level(TEXTURES, shots), goal) for shots, goal in TEXTURES_GOAL.items()]
    asked = "/".join(f"{goal:.1f}" for goal in TEXTURES_GOAL.values())
    yield f"DTD: at least {asked} at 2, 4, 8, 16", shown([gap for gap, _ in goals], signed=False), verdict(goals)
    for other in ("GDA", "LP++ (released)"):
        gaps = [table.gap([where], SHOTS, DEFAULT, other) for where in FOUR]
        yield (
            f"above {other} with validation, mean over shots, on each of four tasks",
            shown(gaps),
            verdict([(gap, 0.0) for gap in gaps]),
        )
    for other, limits in ((ALL, (-1.0, -0.5)), (HALF, (0.0, 0.0))):
        gaps = [table.gap(FOUR, [shots], other, IMAGES) for shots in SHOTS]
        bounds = [limits[0]] * len(few) + [limits[1]] * len(more)
        words = "at or above images alone" if other == HALF else "within 1.0 of images alone at 1, 0.5 at 2 to 16"
        yield (
            f"{other.lower()}, mean of four tasks: {words}",
            shown(gaps),
            verdict(list(zip(gaps, bounds, strict=True))),
        )
    for places, other, limit in ((FOUR, IMAGES, 0.0), (FOUR, "Zero-shot", -0.3), (PHOTOS, "Zero-shot", -0.3)):
        every = [(table.gap([where], [n], DEFAULT, other), where, n) for where in places for n in SHOTS]
        known = [(gap.mean, gap, where, n) for gap, where, n in every if gap is not None]
        figure = "–"
        if known:
            _, gap, where, n = min(known, key=lambda one: one[0])
            figure = f"lowest, {name(where)} at {n}: {shown([gap])}"
        words = "four tasks" if places is FOUR else "photos, embedded encoder"
        promise = "not below images alone" if other == IMAGES else "never more than 0.3 below zero-shot"
        yield f"{words}, every number of shots: {promise}", figure, verdict([(gap, limit) for gap, *_ in every])


def names_table(table: Table) -> str:
    """Right names, wrong names, and none: the mean over four tasks."""
    rows = ["| | 1 shot | 2 | 4 | 8 | 16 |", "|---|---|---|---|---|---|"]
    for label, method in (("right names", DEFAULT), ("half of the names wrong", HALF), ("all names wrong", ALL),
                          ("images alone", IMAGES)):  # fmt: skip
        means = []
        for shots in SHOTS:
            # The draws that all of these methods have.
            found = [table.accuracies(FOUR, each, [shots]) for each in (method, HALF, ALL, IMAGES)]
            seeds = set.intersection(*(set(one.index) for group in found for one in group)) if all(found) else set()
            each = [a for one in found[0] for seed, a in one.items() if seed in seeds]
            means.append(f"{np.mean(each):.1f}" if each else "–")
        rows.append(f"| {label} | {' | '.join(means)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Print the tables, and write them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="results of `lpp bench run`")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    chosen = parser.parse_args()
    table = Table(chosen.folders)
    promises = "| Promise | figure | holds |\n|---|---|---|\n"
    promises += "".join(f"| {promise} | {figure} | {holds} |\n" for promise, figure, holds in lines(table))
    print(promises, names_table(table), sep="\n")
    if chosen.write:
        page = PAGE.read_text(encoding="utf-8")
        for mark, text in (("must hold", promises), ("names", names_table(table))):
            start, rest = page.split(f"<!-- {mark} -->\n")
            page = f"{start}<!-- {mark} -->\n{text}{rest[rest.index('<!-- end -->') :]}"
        with atomic_write(PAGE) as file:
            file.write(page.encode())


if __name__ == "__main__":
    main()
