"""What a classifier says of its own photos: wrong labels, what to expect, what to label next, and how fast it grows.

    LPP_DATA=/data python -m benchmarks.knowing mislabels            # 10 % of labels flipped, 8 shots; beside cleanlab
    LPP_DATA=/data python -m benchmarks.knowing expected             # does the interval hold the truth?
    LPP_DATA=/data python -m benchmarks.knowing suggest              # labels needed, against random ones
    python -m benchmarks.knowing extend                              # 50 classes, 16 shots, 512 dimensions

Data: WHU-RS19 with three encoders and DTD, with one prompt. Draws are 0, 1, …; what is not in a support is the test.
cleanlab is used if it is installed.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from lpplusplus import LPPlusPlus
from lpplusplus.images.checking import check
from lpplusplus.images.embeddings import Embeddings
from lpplusplus.images.evaluation import Answers
from lpplusplus.images.insight import examine, suspicion
from lpplusplus.images.lesson import Lesson
from lpplusplus.images.suggesting import choose

SETS = {
    "WHU-RS19 RN50": "whurs19/clip_rn50.npz",
    "WHU-RS19 B/32": "whurs19/clip_vit_b32.npz",
    "WHU-RS19 L/14": "whurs19/clip_vit_l14.npz",
    "DTD B/32": "dtd/clip_vit_b32.npz",
}
PROMPT = "a satellite image of a {}"


def data(name: str) -> tuple[Any, Any, Any]:
    """All embeddings, labels and text of a set."""
    with np.load(Path(os.environ["LPP_DATA"]) / SETS[name], allow_pickle=False) as file:
        if "pool" in file.files:
            X, y = (
                np.concatenate([file["pool"], file["test"]]),
                np.concatenate([file["pool_labels"], file["test_labels"]]),
            )
            return X.astype(np.float32), y, file["text"].astype(np.float32)
        text = file["text"][[str(one) for one in file["prompts"]].index(PROMPT)]
        return file["images"].astype(np.float32), file["labels"], text.astype(np.float32)


def draw(y: Any, shots: int, seed: int) -> Any:
    """Rows of a support."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(y == k))[:shots] for k in np.unique(y)])


def embedded(X: Any, y: Any) -> Embeddings:
    """A support as the package has it."""
    classes = tuple(f"{k:03d}" for k in range(int(y.max()) + 1))
    labels = np.array([classes[k] for k in y])
    return Embeddings(X[:, None], labels, [str(i) for i in range(len(y))], classes, classes)


def answers(X: Any, y: Any, text: Any) -> tuple[Answers, Any, Any]:
    """What is said of held-out photos, the fitted probe, and the insight."""
    support = embedded(X, y)
    probe = LPPlusPlus().fit(X, support.labels, text=text, classes=list(support.classes))
    insight, held = examine(probe, support, text, None)
    assert held is not None
    return held, probe, insight


def mislabels(name: str, seeds: range, shots: int = 8) -> None:
    """Precision at the number of flipped labels, ours and cleanlab's."""
    X, y, text = data(name)
    ours, theirs = [], []
    for seed in seeds:
        rows, rng = draw(y, shots, seed), np.random.default_rng(1000 + seed)
        given = y[rows].copy()
        flipped = rng.permutation(len(rows))[: round(0.1 * len(rows))]
        given[flipped] = (given[flipped] + rng.integers(1, len(text), len(flipped))) % len(text)
        held, _, _ = answers(X[rows], given, text)
        ours.append(np.isin(np.argsort(-suspicion(held), kind="stable")[: len(flipped)], flipped).mean())
        try:
            from cleanlab.rank import get_label_quality_scores
        except ImportError:
            continue
        for how in ("self_confidence", "normalized_margin"):
            score = get_label_quality_scores(given, held.probabilities, method=how)
            theirs.append(np.isin(np.argsort(score, kind="stable")[: len(flipped)], flipped).mean())
    told = [f"ours {np.mean(ours):.3f} ± {np.std(ours) / np.sqrt(len(ours)):.3f}"]
    for i, how in enumerate(("self-confidence", "normalized margin")):
        told.append(f"cleanlab {how} {np.mean(theirs[i::2]):.3f}" if theirs else "")
    print(f"{name}, {shots} shots, {len(ours)} draws:", ", ".join(filter(None, told)), flush=True)


def expected(name: str, seeds: range, shots: int) -> None:
    """How often the interval holds the accuracy on all other images, now and with twice the photos."""
    X, y, text = data(name)
    inside, widths, errors = [], [], []
    for seed in seeds:
        rows = draw(y, shots, seed)
        held, probe, insight = answers(X[rows], y[rows], text)
        support = embedded(X[rows], y[rows])
        found = check(probe, Lesson(support, None, text), insight, held).expected
        row = []
        for one in found[:2]:
            more = draw(y, one.times * shots, seed)
            rest = np.setdiff1d(np.arange(len(y)), more)
            fitted = LPPlusPlus().fit(X[more], y[more], text=text, classes=range(len(text)))
            truth = fitted.score(X[rest], y[rest])
            row.append(one.interval[0] <= truth <= one.interval[1])
            widths.append(one.interval[1] - one.interval[0])
            errors.append(one.accuracy - truth)
        inside.append(row)
    now, twice = np.mean(inside, axis=0)
    print(
        f"{name}, {shots} shots, {len(inside)} draws: interval holds the truth now {now:.2f}, with twice the photos "
        f"{twice:.2f}; mean width {100 * np.mean(widths):.1f}, mean error {100 * np.mean(errors):+.1f} points",
        flush=True,
    )


def suggest(name: str, seeds: range, most: int = 8) -> None:
    """Accuracy by labels per class, chosen and random, both from one random photo per class, on all others."""
    X, y, text = data(name)
    K = len(text)
    curves = np.zeros((2, most))
    tops = []
    for seed in seeds:
        pool = draw(y, int(np.bincount(y).min() * 0.6), seed)
        rest = np.setdiff1d(np.arange(len(y)), pool)
        start = pool[draw(y[pool], 1, seed)]
        for which in (0, 1):
            have = start
            for step in range(most):
                probe = LPPlusPlus().fit(X[have], y[have], text=text, classes=range(K))
                curves[which, step] += probe.score(X[rest], y[rest]) / len(seeds)
                left = np.setdiff1d(pool, have)
                if which == 0:
                    rng = np.random.default_rng([seed, step])
                    have = np.concatenate([have, rng.permutation(left)[:K]])
                else:
                    said = probe.predict_proba(X[left])
                    have = np.concatenate([have, left[choose(X[left], said, X[have], y[have], K)]])
        full = pool[draw(y[pool], 16, seed)]
        tops.append(LPPlusPlus().fit(X[full], y[full], text=text, classes=range(K)).score(X[rest], y[rest]))
    goal = 0.95 * float(np.mean(tops))
    needed = [_crossing(curve, goal) for curve in curves]
    told = f"95 % of 16 shots is {100 * goal:.1f}; labels per class needed: random {needed[0]}, suggested {needed[1]}"
    print(f"{name}, {len(seeds)} draws: {told}", flush=True)
    for kind, curve in zip(("random", "suggested"), curves, strict=True):
        print(f"    {kind:9}", " ".join(f"{100 * one:.1f}" for one in curve), flush=True)


def _crossing(curve: Any, goal: float) -> str:
    """Labels per class at which a curve reaches the goal, between two measurements by a straight line."""
    above = np.flatnonzero(curve >= goal)
    if not above.size:
        return f"> {len(curve)}"
    i = int(above[0])
    return "1.0" if i == 0 else f"{i + (goal - curve[i - 1]) / (curve[i] - curve[i - 1]):.2f}"


def extend(_: str, seeds: range) -> None:
    """Seconds to add a class of 16 to 49 classes of 16, and to fit on all 50 at once, in turn."""
    rng = np.random.default_rng(0)
    text = rng.standard_normal((50, 512)).astype(np.float32)
    y = np.repeat(np.arange(50), 16)
    X = (text[y] + 2 * rng.standard_normal((800, 512))).astype(np.float32)
    old = y < 49
    wall, processor, whole = [], [], []
    for _turn in seeds:
        probe = LPPlusPlus().fit(X[old], y[old], text=text[:49])
        began, spent = time.perf_counter(), time.process_time()
        probe.extend(X[~old], y[~old], text=text[49:])
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
        began = time.perf_counter()
        fitted = LPPlusPlus().fit(X, y, text=text)
        whole.append(time.perf_counter() - began)
        assert (fitted.coef_ == probe.coef_).all()
    told = f"median {np.median(wall):.3f} s, best {min(wall):.3f} s, processor time {np.median(processor):.3f} s"
    print(f"extend: {told}; fit on everything {np.median(whole):.3f} s", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("mislabels", "expected", "suggest", "extend"))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--shots", type=int, action="append")
    given = parser.parse_args()
    seeds = range(given.draws)
    for name in ["made up"] if given.what == "extend" else given.set or list(SETS):
        if given.what == "mislabels":
            mislabels(name, seeds, *(given.shots or [8]))
        elif given.what == "expected":
            for shots in given.shots or (2, 4, 8):
                expected(name, seeds, shots)
        elif given.what == "suggest":
            suggest(name, seeds)
        else:
            extend(name, seeds)


if __name__ == "__main__":
    main()
