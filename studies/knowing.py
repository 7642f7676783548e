"""What a classifier says of its own photos: wrong labels, what to expect, what to label next.

    LPP_DATA=/data python -m studies.knowing mislabels            # 10 % of labels flipped, 8 shots; beside cleanlab
    LPP_DATA=/data python -m studies.knowing expected --rows expected.jsonl --stores pets.features caltech.features
    LPP_DATA=/data python -m studies.knowing suggest --rows suggest.jsonl --stores pets.features caltech.features
    python -m studies.knowing expected --rows expected.jsonl --table --figure learning.png
    python -m studies.knowing suggest --rows suggest.jsonl --table --figure labels.png

Data: WHU-RS19 with three encoders and DTD, with one prompt, and feature stores of photos. What is not in a support is
the test. `expected`: does the interval hold the truth, now, with twice and four times the photos?
`suggest`: accuracy by labels, chosen or random, both from names alone. Rows of these two that are there are not
computed again. cleanlab is used if it is installed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lpplusplus import LPPlusPlus, ZeroShot
from lpplusplus.bench.report.statistics import mean_and_error
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.hold_out import Study
from lpplusplus.images.insight import check, examine, suspicion
from lpplusplus.images.suggesting import choose
from lpplusplus.images.training_data import TrainingData

from .rows import add_missing, options, panels, read
from .trust import tasks

SHOTS = (2, 4)
MOST = 16
"""Labels per class, on average, up to which suggestions are followed."""


def sets(stores: list[Path]) -> dict[str, tuple[Any, Any, Any]]:
    """All embeddings, labels and text of each set."""
    root = os.environ.get("LPP_DATA")
    found = {}
    for name, data in tasks(None if root is None else Path(root), stores).items():
        parts = [(data.X, data.y)] if data.test is None else [(data.X, data.y), (data.test, data.test_y)]
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        found[name] = X, y, data.text
    return found


def draw(y: Any, shots: int, seed: int) -> Any:
    """Rows of a support."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(y == k))[:shots] for k in np.unique(y)])


def embedded(X: Any, y: Any) -> Embeddings:
    """A support as the package has it."""
    classes = tuple(f"{k:03d}" for k in range(int(y.max()) + 1))
    labels = np.array([classes[k] for k in y])
    return Embeddings(X[:, None], labels, [str(i) for i in range(len(y))], classes, classes)


def left_out(X: Any, y: Any, text: Any) -> tuple[Study, Any]:
    """What is said of photos that are left out, and the insight."""
    data = TrainingData(embedded(X, y), None, text)
    insight, study = examine(data.fitted(LPPlusPlus()), data)
    assert study is not None
    return study, insight


def mislabels(name: str, task: tuple[Any, Any, Any], seeds: range, shots: int = 8) -> None:
    """Precision at the number of flipped labels, ours and cleanlab's."""
    X, y, text = task
    ours, theirs = [], []
    for seed in seeds:
        rows, rng = draw(y, shots, seed), np.random.default_rng(1000 + seed)
        given = y[rows].copy()
        flipped = rng.permutation(len(rows))[: round(0.1 * len(rows))]
        given[flipped] = (given[flipped] + rng.integers(1, len(text), len(flipped))) % len(text)
        held = left_out(X[rows], given, text)[0].answers
        ours.append(np.isin(np.argsort(-suspicion(held), kind="stable")[: len(flipped)], flipped).mean())
        try:
            from cleanlab.rank import get_label_quality_scores
        except ImportError:
            continue
        for how in ("self_confidence", "normalized_margin"):
            score = get_label_quality_scores(given, held.probabilities, method=how)
            theirs.append(np.isin(np.argsort(score, kind="stable")[: len(flipped)], flipped).mean())
    told = ["ours {:.3f} ± {:.3f}".format(*mean_and_error(ours))]
    for i, how in enumerate(("self-confidence", "normalized margin")):
        told.append(f"cleanlab {how} {np.mean(theirs[i::2]):.3f}" if theirs else "")
    print(f"{name}, {shots} shots, {len(ours)} draws:", ", ".join(filter(None, told)), flush=True)


def expected(task: tuple[Any, Any, Any], seed: int, shots: int) -> dict[str, Any]:
    """What was expected of 1, 2 and 4 times the photos, in what interval, and what came of it on all other images."""
    X, y, text = task
    rows = draw(y, shots, seed)
    study, insight = left_out(X[rows], y[rows], text)
    row: dict[str, Any] = {}
    for one in check(study.data, insight, study).expected:
        more = draw(y, one.times * shots, seed)
        rest = np.setdiff1d(np.arange(len(y)), more)
        truth = LPPlusPlus().fit(X[more], y[more], text=text, classes=range(len(text))).score(X[rest], y[rest])
        row[str(one.times)] = [one.accuracy, *one.interval, truth]
    return row


def expected_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """How often the interval held the truth, its width, and the mean error of what was expected."""
    yield "| data, shots | draws | now: held, width, error | twice | four times |"
    yield "|---" * 5 + "|"
    for key in sorted({(row["data"], row["shots"]) for row in rows}):
        some = [row for row in rows if (row["data"], row["shots"]) == key]
        said = []
        for times in ("1", "2", "4"):
            guess, low, high, truth = np.array([row[times] for row in some]).T
            held = float(((low <= truth) & (truth <= high)).mean())
            said.append(f"{100 * held:.0f} %, {100 * (high - low).mean():.1f}, {100 * (guess - truth).mean():+.1f}")
        yield f"| {key[0]}, {key[1]} | {len(some)} | {' | '.join(said)} |"


def expected_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Learning curves: what was expected, the mean interval, and what came of it; a panel for each data set."""
    names = sorted({row["data"] for row in rows})
    fig, axes = panels(len(names), width=2.6, height=2.8)
    for axis, name in zip(axes, names, strict=True):
        for shots, colour in zip(sorted({row["shots"] for row in rows}), ("tab:orange", "tab:blue"), strict=False):
            some = [row for row in rows if (row["data"], row["shots"]) == (name, shots)]
            if not some:
                continue
            means = 100 * np.array([[row[times] for times in ("1", "2", "4")] for row in some]).mean(axis=0)
            photos = shots * np.array([1, 2, 4])
            guess, low, high, truth = means.T
            axis.fill_between(photos, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.plot(photos, guess, color=colour, label=f"expected from {shots} per class")
            axis.plot(photos, truth, "x", color=colour, markersize=5, label="what came")
        axis.set_title(name, fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_xticks((2, 4, 8, 16), ("2", "4", "8", "16"))
        axis.set_xlabel("photos per class")
    axes[0].set_ylabel("accuracy in %")
    axes[0].legend(fontsize=7, loc="lower right")
    fig.savefig(path, dpi=120)


def suggest(task: tuple[Any, Any, Any], seed: int, _: int) -> dict[str, Any]:
    """Accuracy by labels per class, random and chosen, both from names alone; and that of 16 of each class."""
    X, y, text = task
    K = len(text)
    pool = draw(y, max(MOST, int(np.bincount(y).min() * 0.6)), seed)
    rest = np.setdiff1d(np.arange(len(y)), pool)
    curves: dict[str, Any] = {"random": [], "suggested": []}
    for which, curve in curves.items():
        have, said = pool[:0], None
        for step in range(MOST):
            left = np.setdiff1d(pool, have)
            if which == "random":
                fresh = np.random.default_rng([seed, step]).permutation(left)[:K]
            else:
                said = names_alone(X[left], text) if said is None else said.predict_proba(X[left])
                fresh = left[choose(X[left], said, X[have], y[have], K)]
            have = np.concatenate([have, fresh])
            probe = LPPlusPlus().fit(X[have], y[have], text=text, classes=range(K))
            said = probe
            curve.append(probe.score(X[rest], y[rest]))
    full = pool[draw(y[pool], MOST, seed)]
    top = LPPlusPlus().fit(X[full], y[full], text=text, classes=range(K)).score(X[rest], y[rest])
    return {**curves, "top": top}


def names_alone(X: Any, text: Any) -> Any:
    """Zero-shot probabilities."""
    return ZeroShot().fit(text=text, classes=range(len(text))).predict_proba(X)


def suggest_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Labels per class needed to reach 95 % of what 16 of each class reach."""
    yield "| data | draws | goal | random | suggested | after 1, 2, 4, 8 labels per class: random | suggested |"
    yield "|---" * 7 + "|"
    for name in sorted({row["data"] for row in rows}):
        some = [row for row in rows if row["data"] == name]
        goal = 0.95 * float(np.mean([row["top"] for row in some]))
        means = {kind: np.mean([row[kind] for row in some], axis=0) for kind in ("random", "suggested")}
        needed = [_crossing(curve, goal) for curve in means.values()]
        path = [", ".join(f"{100 * curve[n - 1]:.1f}" for n in (1, 2, 4, 8)) for curve in means.values()]
        yield f"| {name} | {len(some)} | {100 * goal:.1f} | {needed[0]} | {needed[1]} | {path[0]} | {path[1]} |"


def suggest_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Label-efficiency curves, a panel for each data set."""
    names = sorted({row["data"] for row in rows})
    fig, axes = panels(len(names), width=2.6, height=2.8)
    for axis, name in zip(axes, names, strict=True):
        some = [row for row in rows if row["data"] == name]
        for kind, colour in (("random", "grey"), ("suggested", "tab:blue")):
            curves = 100 * np.array([row[kind] for row in some])
            labels, (mean, error) = np.arange(1, curves.shape[1] + 1), mean_and_error(curves)
            axis.plot(labels, mean, color=colour, label=kind)
            axis.fill_between(labels, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
        axis.axhline(95 * np.mean([row["top"] for row in some]), color="black", linewidth=0.7, linestyle=":")
        axis.set_title(name, fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_xticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
        axis.set_xlabel("labels per class")
    axes[0].set_ylabel("accuracy in %")
    axes[0].legend(fontsize=8, loc="lower right")
    fig.savefig(path, dpi=120)


def _crossing(curve: Any, goal: float) -> str:
    """Labels per class at which a curve reaches the goal, between two measurements by a straight line."""
    above = np.flatnonzero(curve >= goal)
    if not above.size:
        return f"> {len(curve)}"
    i = int(above[0])
    return "1.0" if i == 0 else f"{i + (goal - curve[i - 1]) / (curve[i] - curve[i - 1]):.2f}"


def main() -> None:
    """The command line."""
    parser = options(__doc__, rows_needed=False)
    parser.add_argument("what", choices=("mislabels", "expected", "suggest"))
    parser.add_argument("--figure", type=Path, help="draw the rows, and compute nothing")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.draws)
    if given.what == "mislabels":
        for name, task in sets(given.stores).items():
            if name in (given.only or [name]):
                mislabels(name, task, seeds)
        return None
    if given.rows is None:
        parser.error("--rows: name a file to keep the draws in")
    if given.table:
        print("\n".join((expected_table if given.what == "expected" else suggest_table)(read(given.rows))))
    if given.figure:
        (expected_figure if given.what == "expected" else suggest_figure)(read(given.rows), given.figure)
    return None if given.table or given.figure else _add(given, seeds)


def _add(given: argparse.Namespace, seeds: range) -> None:
    """Compute the rows that are missing."""
    make, shots = (expected, SHOTS) if given.what == "expected" else (suggest, (MOST,))
    found = sets(given.stores)
    add_missing(
        given.rows, given.only or list(found), shots, seeds, lambda name, count, seed: make(found[name], seed, count)
    )


if __name__ == "__main__":
    main()
