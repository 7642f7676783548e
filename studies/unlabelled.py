"""Do unlabelled images help, and do they ever harm?

    LPP_DATA=/data python -m studies.unlabelled --rows rows.jsonl --stores pets.features caltech.features
    python -m studies.unlabelled --rows rows.jsonl --table
    python -m studies.unlabelled --rows rows.jsonl --figure unlabelled.png

Each draw has a support, unlabelled images, and a test set that is in neither. What is not in the support is halved for
the last two, where a data set has no test set of its own. Unlabelled are: `all` of that half; `half`, those of every
other class at random; `two`, those of two classes only; `mixed`, all of them and as many images of another data set;
`foreign`, those alone. Rows that are there are not computed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lpplusplus import LPPlusPlus
from lpplusplus.bench.report.statistics import mean_and_error

from .rows import options, panels, read
from .trust import SHOTS, Data, add_draws

KINDS = ("all", "half", "two", "mixed", "foreign")


def draw(data: Data, shots: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows of the support and of unlabelled images; test images and their labels."""
    random = np.random.RandomState(1000 * seed + shots)
    support, free, rest = [], [], []
    for k in range(len(data.text)):
        rows = random.permutation(np.flatnonzero(data.y == k))
        left = rows[shots:]
        half = len(left) if data.test is not None else len(left) // 2
        support.append(rows[:shots])
        free.append(left[:half])
        rest.append(left[half:])
    chosen, unlabelled, test = map(np.concatenate, (support, free, rest))
    if data.test is not None:
        return chosen, unlabelled, data.test, data.test_y
    return chosen, unlabelled, data.X[test], data.y[test]


def images(data: Data, other: Data | None, rows: Any, kind: str, seed: int) -> Any:
    """Unlabelled images of that kind; None if there is no other data set."""
    random = np.random.RandomState(seed)
    some = random.permutation(len(data.text))
    if kind in ("half", "two"):
        return data.X[rows[np.isin(data.y[rows], some[: len(some) // 2 if kind == "half" else 2])]]
    if kind == "all":
        return data.X[rows]
    if other is None:
        return None
    strange = other.X[random.permutation(len(other.X))[: len(rows)]]
    return strange if kind == "foreign" else np.concatenate([data.X[rows], strange])


def row_of(data: Data, other: Data | None, shots: int, seed: int) -> dict[str, Any]:
    """Accuracy without unlabelled images, with those of each kind, and how many were used."""
    support, rows, X, y = draw(data, shots, seed)
    given = (data.X[support], data.y[support])
    row: dict[str, Any] = {"none": [100 * LPPlusPlus(random_state=seed).fit(*given, text=data.text).score(X, y), 0, 0]}
    for kind in KINDS:
        more = images(data, other, rows, kind, seed)
        if more is not None:
            probe = LPPlusPlus(random_state=seed).fit(*given, text=data.text, unlabelled=more)
            row[kind] = [100 * probe.score(X, y), probe.n_unlabelled_, len(more)]
    return row


def _gains(rows: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    """Gains of each kind in all draws, by shots and data set."""
    cells: dict[tuple[int, str], dict[str, Any]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cell = cells[row["shots"], row["data"]]
        cell["none"].append(row["none"][0])
        for kind in KINDS:
            if kind in row:
                cell[kind].append(row[kind][0] - row["none"][0])
    return cells


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: accuracy without, and the mean gain of each kind with its standard error."""
    cells = _gains(rows)
    yield "| shots, data | draws | accuracy without | " + " | ".join(KINDS) + " |"
    yield "|---" * (3 + len(KINDS)) + "|"
    for key in sorted(cells):
        cell = cells[key]
        said = [_with_error(cell[kind]) for kind in KINDS]
        count, mean = len(cell["none"]), float(np.mean(cell["none"]))
        yield f"| {key[0]}, {key[1]} | {count} | {mean:.1f} | {' | '.join(said)} |"


def _with_error(gains: list[float]) -> str:
    if not gains:
        return ""
    mean, error = mean_and_error(gains)
    return f"{mean:+.2f}" + (f" ± {error:.2f}" if len(gains) > 1 else "")


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Gains by number of shots: one panel for each kind, one line for each data set."""
    cells = _gains(rows)
    fig, axes = panels(len(KINDS), width=2.4, height=3, share=True)
    titles = ("all classes", "half of the classes", "two classes", "half are foreign", "all are foreign")
    for axis, kind, title in zip(axes, KINDS, titles, strict=True):
        for number, name in enumerate(sorted({name for _, name in cells})):
            found = {s: cells[s, name][kind] for s in SHOTS if cells.get((s, name), {}).get(kind)}
            means, errors = np.nan_to_num([mean_and_error(gains) for gains in found.values()]).T if found else ((), ())
            if found:
                axis.errorbar(
                    [*found], means, errors, marker="o", markersize=3, linewidth=1, color=f"C{number}", label=name
                )
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xticks(SHOTS, map(str, SHOTS))
        axis.set_title(f"unlabelled: {title}", fontsize=9)
        axis.set_xlabel("labelled images per class")
    axes[0].set_ylabel("gain in accuracy, points")
    axes[0].legend(fontsize=7, loc="upper right")
    fig.savefig(path, dpi=120)


def main() -> None:
    """Compute what is missing, or show it."""
    parser = options(__doc__)
    parser.add_argument("--figure", type=Path, help="draw the figure and compute nothing")
    given = parser.parse_args()
    if given.table:
        print("\n".join(table(read(given.rows))))
    if given.figure:
        figure(read(given.rows), given.figure)
    if given.table or given.figure:
        return
    add_draws(given, row_of)


if __name__ == "__main__":
    main()
