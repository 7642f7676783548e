"""The WHU-RS19 table of docs/benchmark.md, from the results of a run: every method over all encoders, in Markdown.

    lpp bench run docs/whurs19.toml --root ../shared/data -o results/
    python -m benchmarks.whurs19_table results/

Accuracy and calibration error are means over all tasks of all encoders, times are medians. A method that lacks a task
which another has gets a dash.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from lpplusplus.bench.report.statistics import Summary, keys_of, summarise
from lpplusplus.bench.results import Results, Row

DATASET = "whurs19"
ALL = "all encoders"


def over_encoders(rows: Iterable[Row], failed: Iterable[Row] = ()) -> list[Summary]:
    """Sum up rows by method and shots; a task that another encoder sees counts as another task."""
    numbers: dict[tuple[str, int], int] = {}

    def together(row: Row) -> Row:
        number = numbers.setdefault((row.cell.backbone, row.cell.seed), len(numbers))
        return replace(row, cell=replace(row.cell, backbone=ALL, seed=number))

    pooled, gaps = ([together(row) for row in part if row.cell.dataset == DATASET] for part in (rows, failed))
    return summarise(pooled, gaps)


def table(results: Results) -> str:
    """The table in Markdown."""
    rows = results.rows()
    found = {(one.method, one.shots): one for one in over_encoders(rows, results.rows(failed=True))}
    if not found:
        raise SystemExit(f"{results.folder} has no results of {DATASET}: run docs/whurs19.toml into it first.")
    cells = [row.cell for row in rows if row.cell.dataset == DATASET]
    encoders, tasks = len({cell.backbone for cell in cells}), len({cell.seed for cell in cells})
    shots = sorted({n for _, n in found})
    first, *others = shots
    heads = [
        f"mean accuracy of {encoders} encoders, {tasks} tasks each",
        f"{first} shot{'s' * (first > 1)}",
        *map(str, others),
        f"fit at {shots[-1]} shots, median s",
        f"calibration error at {shots[-1]} shots",
    ]
    lines = [heads, ["---"] * len(heads)]
    for method in keys_of(found.values(), "method"):
        line = [found.get((method, n)) for n in shots]
        last = line[-1]
        lines.append([method, *(_written(one, "mean", ".1f") for one in line), _written(last, "fit_seconds", ".3g"),
                      _written(last, "calibration_error", ".1f")])  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _written(one: Summary | None, name: str, form: str) -> str:
    value = getattr(one, name) if one is not None and one.complete else None
    return "–" if value is None else format(value, form)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("results", help="results folder of `lpp bench run docs/whurs19.toml`")
    options = parser.parse_args(arguments)
    print(table(Results(options.results, create=False)))


if __name__ == "__main__":
    main()
