"""Probabilities, prediction sets and none-of-these of the default: are they what they claim to be, and against what?

    LPP_DATA=/data python -m studies.trust --rows rows.jsonl               # WHU-RS19 x 3 and DTD, draws 1 to 10
    python -m studies.trust --rows rows.jsonl --stores pets.features caltech.features
    python -m studies.trust --rows rows.jsonl --table                      # Markdown tables of all rows so far

Feature stores are those of `lpp embed`; the names go through their encoder. Each row of the file is a draw; rows that
are there are not computed again. `docs/figures/trust.py` draws from the same file.

Against: no calibration; scikit-learn's temperature scaling on as many validation images again; rescaling each image's
logits to the range of zero-shot's (SaLS). Split conformal prediction with the same labels in all, half of them to fit
on. The largest probability, and the largest cosine with a name, as scores of none-of-these, with a third of the classes
left out and with images of another data set.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score, roc_curve

from lpplusplus import LPPlusPlus
from lpplusplus.bench.report.statistics import mean_and_error
from lpplusplus.probe.uncertainty import largest_loss, sets_of

from .rows import add_missing, options, read

SHOTS = (2, 4, 8, 16)
BINS = 15
PROMPT = "a satellite image of a {}"
FOREIGN = {"WHU-RS19 B/32": "DTD B/32", "DTD B/32": "WHU-RS19 B/32", "pets": "caltech", "caltech": "pets"}
"""Other data of the same encoder."""
COVERAGES = (0.8, 0.9, 0.95)
FALSE_ALARMS = 0.05
GRID = np.linspace(0, 1, 51)


class Data(NamedTuple):
    """Embeddings of a data set; a test set where it has one of its own."""

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    text: NDArray[np.float32]
    test: NDArray[np.float32] | None = None
    test_y: NDArray[np.intp] | None = None


def tasks(root: Path | None, stores: list[Path]) -> dict[str, Data]:
    """All data sets by name."""
    found = {}
    if root is not None:
        for name, file in (("RN50", "rn50"), ("B/32", "vit_b32"), ("L/14", "vit_l14")):
            with np.load(root / "whurs19" / f"clip_{file}.npz", allow_pickle=False) as z:
                text = z["text"][[str(prompt) for prompt in z["prompts"]].index(PROMPT)]
                found[f"WHU-RS19 {name}"] = Data(_single(z["images"]), z["labels"], _single(text))
        with np.load(root / "dtd" / "clip_vit_b32.npz", allow_pickle=False) as z:
            parts = (_single(z["pool"]), z["pool_labels"], _single(z["text"]), _single(z["test"]), z["test_labels"])
            found["DTD B/32"] = Data(*parts)
    for store in stores:
        from lpplusplus.encoders import open_encoder
        from lpplusplus.encoders.class_text import DEFAULT_TEMPLATE
        from lpplusplus.images.opening import class_text, embed_source, open_source

        images = embed_source(open_source(store), lambda: open_encoder("embedded"))
        text = class_text(images, lambda: open_encoder("embedded"), (DEFAULT_TEMPLATE,))
        place = {label: k for k, label in enumerate(images.classes)}
        y = np.array([place[label] for label in images.labels])
        found[store.stem] = Data(_single(images.rows), y, _single(text))
    return found


def draw(data: Data, shots: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Any, Any]:
    """Support, validation images (as many, or half of what is left), and test images with their labels."""
    random = np.random.RandomState(1000 * seed + shots)
    support, held = [], []
    for k in range(len(data.text)):
        rows = random.permutation(np.flatnonzero(data.y == k))
        support.append(rows[:shots])
        held.append(rows[shots:][: min(shots, (len(rows) - shots) // (1 if data.test is not None else 2))])
    chosen, validation = np.concatenate(support), np.concatenate(held)
    if data.test is not None:
        return chosen, validation, data.test, data.test_y
    rest = np.setdiff1d(np.arange(len(data.y)), np.concatenate([chosen, validation]))
    return chosen, validation, data.X[rest], data.y[rest]


def row_of(data: Data, other: Data | None, shots: int, seed: int) -> dict[str, Any]:
    """Everything that one draw says."""
    support, held, X, y = draw(data, shots, seed)
    probe = LPPlusPlus(random_state=seed).fit(data.X[support], data.y[support], text=data.text)
    z = probe.decision_function(X)
    history = probe.history_.as_arrays()
    scale = history["held_out_scale"][history["held_out_loss"].argmin()]
    few = {"method": "temperature", "cv": min(5, int(np.bincount(data.y[held]).min()))}  # Folds of a frozen estimator.
    scaled = CalibratedClassifierCV(FrozenEstimator(probe), **few).fit(data.X[held], data.y[held])
    zero_shot = 100 * _unit(X) @ probe.text_.T
    low, high = z.min(axis=1, keepdims=True), z.max(axis=1, keepdims=True)
    ranged = (z - low) / (high - low) * np.ptp(zero_shot, axis=1, keepdims=True)
    logs = {
        "ours": log_softmax(z, axis=1),
        "none": log_softmax(z / scale, axis=1),
        "validation": np.log(np.maximum(scaled.predict_proba(X), 1e-30)),
        "range": log_softmax(ranged, axis=1),
    }
    row: dict[str, Any] = {"accuracy": 100 * float((z.argmax(axis=1) == y).mean()), "calibration": {}, "sets": {}}
    for name, log_p in logs.items():
        bins = _bins(np.exp(log_p), y)
        error = sum(abs(sure - right) for _, sure, right in bins) / len(y)
        loss = -float(log_p[np.arange(len(y)), y].mean())
        row["calibration"][name] = {"error": 100 * error, "loss": loss, "bins": bins}
    split = _split(data, support, seed, X)
    for coverage in COVERAGES:
        row["sets"][str(coverage)] = {
            "ours": _about(probe.predict_set(X, coverage), y),
            "split": _about(sets_of(split[0], largest_loss(split[1], coverage)), y),
        }
    if shots == 4:
        row["none"] = unknown(data, other, support, X, y, seed)
    return row


def _split(data: Data, support: NDArray[np.intp], seed: int, X: Any) -> tuple[Any, Any]:
    """Split conformal prediction: half of the labels fit, half say how large the sets are.

    Returns logits of the test images and losses of the second half.
    """
    rows = np.random.RandomState(seed).permutation(support)
    order = rows[np.argsort(data.y[rows], kind="stable")].reshape(len(data.text), -1)
    half = order.shape[1] // 2
    fit, held = order[:, :half].ravel(), order[:, half:].ravel()
    probe = LPPlusPlus(random_state=seed).fit(data.X[fit], data.y[fit], text=data.text)
    losses = -log_softmax(probe.decision_function(data.X[held]), axis=1)[np.arange(len(held)), data.y[held]]
    return probe.decision_function(X), losses


def unknown(data: Data, other: Data | None, support: Any, X: Any, y: Any, seed: int) -> dict[str, Any]:
    """None of these, with a third of the classes left out, and on other data."""
    n = len(data.text)
    known = np.sort(np.random.RandomState(seed).permutation(n)[: n - n // 3])
    few = support[np.isin(data.y[support], known)]
    probe = LPPlusPlus(random_state=seed).fit(data.X[few], data.y[few], text=data.text[known])
    members = np.isin(y, known)
    strangers = {"left out": X[~members]}
    if other is not None:
        strangers["foreign"] = other.X
    scores = {
        "ours": probe.familiarity,
        "softmax": lambda images: probe.predict_proba(images).max(axis=1),
        "names": lambda images: (_unit(images) @ probe.text_.T).max(axis=1),
    }
    found: dict[str, Any] = {"false alarms": 100 * float(probe.none_of_these(X[members], FALSE_ALARMS).mean())}
    for name, images in strangers.items():
        truth = np.arange(members.sum() + len(images)) < members.sum()
        found[name] = {"found": 100 * float(probe.none_of_these(images, FALSE_ALARMS).mean())}
        for who, score in scores.items():
            values = np.concatenate([score(X[members]), score(images)])
            false, true, _ = roc_curve(truth, values)
            curve = np.interp(GRID, false, true).round(4).tolist()
            found[name][who] = {"area": float(roc_auc_score(truth, values)), "curve": curve}
    return found


def _about(sets: Any, y: Any) -> dict[str, float]:
    sizes = sets.sum(axis=1)
    return {
        "coverage": 100 * float(sets[np.arange(len(y)), y].mean()), "size": float(sizes.mean()),
        "median": float(np.median(sizes)), "single": 100 * float((sizes == 1).mean()),
        "empty": 100 * float((sizes == 0).mean()),
    }  # fmt: skip


def _bins(p: Any, y: Any) -> list[list[float]]:
    """For each bin of confidence: images, the sum of their confidences, how many are right."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [[float(part.sum()) for part in (place == b, sure[place == b], right[place == b])] for b in range(BINS)]


def _single(x: Any) -> NDArray[np.float32]:
    return np.asarray(x, np.float32)


def _unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: means over draws, per data set and number of shots, and over all."""
    cells: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row["shots"], row["data"]].append(row)
    ways = ("ours", "none", "validation", "range")
    yield "| shots, data | draws | " + " | ".join(f"{w}: error, loss" for w in ways) + " |"
    yield "|---" * 6 + "|"
    yield from _table(cells, lambda r: [r["calibration"][w][k] for w in ways for k in ("error", "loss")], (1, 3))
    kinds = ("coverage", "size", "median", "single")
    for coverage in map(str, COVERAGES):
        yield (
            f"\n| coverage {coverage} | draws | "
            + " | ".join(f"{w}: {', '.join(kinds)}" for w in ("ours", "split"))
            + " |"
        )
        yield "|---" * 4 + "|"
        yield from _table(
            cells, lambda r, c=coverage: [r["sets"][c][w][k] for w in ("ours", "split") for k in kinds], (1, 2, 1, 1),
            errors=(0, 4),
        )  # fmt: skip
    some = {key: part for key, part in cells.items() if "none" in part[0]}
    yield "\n| 4 shots | draws | false alarms | left out: ours, softmax, names | foreign: ours, softmax, names |"
    yield "|---" * 5 + "|"
    for key, part in some.items():
        near, far = ([[r["none"][w][s]["area"] for s in ("ours", "softmax", "names")] for r in part if w in r["none"]]
                     for w in ("left out", "foreign"))  # fmt: skip
        alarms = [r["none"]["false alarms"] for r in part]
        said = [", ".join(f"{v:.3f}" for v in np.mean(x, axis=0)) if x else "" for x in (near, far)]
        mean, error = mean_and_error(alarms)
        spread = f" ± {error:.1f}" if len(alarms) > 1 else ""
        yield f"| {key[1]} | {len(part)} | {mean:.1f}{spread} | {said[0]} | {said[1]} |"


def _table(
    cells: dict[Any, list[dict[str, Any]]], numbers: Any, digits: tuple[int, ...], errors: tuple[int, ...] = ()
) -> Iterator[str]:
    """Means, and standard errors of those among them that `errors` names."""
    means: dict[int, list[Any]] = defaultdict(list)
    for key in sorted(cells):
        found = np.array([numbers(row) for row in cells[key]])
        mean, spread = mean_and_error(found)
        means[key[0]].append(mean)
        yield _line(f"{key[0]}, {key[1]}", len(found), mean, digits, {i: spread[i] for i in errors})
    for shots, parts in means.items():
        yield _line(f"**{shots}, mean**", len(parts), np.mean(parts, axis=0), digits, {})


def _line(name: str, count: int, values: Any, digits: tuple[int, ...], errors: dict[int, float]) -> str:
    said = [f"{value:.{digits[i % len(digits)]}f}" for i, value in enumerate(values)]
    for i, error in errors.items():
        said[i] += f" ± {error:.1f}"
    groups = [", ".join(said[i : i + len(digits)]) for i in range(0, len(said), len(digits))]
    return f"| {name} | {count} | {' | '.join(groups)} |"


def add_draws(given: argparse.Namespace, row_of: Callable[[Data, Data | None, int, int], dict[str, Any]]) -> None:
    """Add the rows that are missing: `row_of` gets a data set, other data of its encoder, shots and the draw."""
    root = os.environ.get("LPP_DATA")
    data = tasks(None if root is None else Path(root), given.stores)

    def make(name: str, shots: int, seed: int) -> dict[str, Any]:
        return row_of(data[name], data.get(FOREIGN.get(name, "")), shots, seed)

    add_missing(given.rows, given.only or list(data), SHOTS, range(given.first, given.first + given.draws), make)


def main() -> None:
    """Compute what is missing, or print the tables."""
    parser = options(__doc__)
    given = parser.parse_args()
    if given.table:
        print("\n".join(tables(read(given.rows))))
        return
    add_draws(given, row_of)


if __name__ == "__main__":
    main()
