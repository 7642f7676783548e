"""The default of this code against that of another checkout, and against the cross-modal probe, draw by draw.

    export LPP_DATA=/data
    python -m studies.against --rows rows.jsonl --method now
    python -m studies.against --rows rows.jsonl --method cross-modal --shots 1
    PYTHONPATH=/other/checkout/src python -m studies.against --rows rows.jsonl --method before
    python -m studies.against --rows rows.jsonl --table

`--method images` is the default without class names. Features of photos, as arrays X, y and text in .npz files, are
added by `--npz`. A data set that ends in "-128" is projected to 128 principal directions. The table has the differences
to "before", then those to "cross-modal" and "images": points of accuracy, paired by draw, ± the standard error.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rows import Row, add_missing, options, read

WIDTHS = (128, 256)
"""Dimensions that SUN397 is projected to: fewer than it has classes."""
PROMPT = "a satellite image of a {}"
Data = tuple[Any, Any, Any, Any, Any]
"""Images to draw from with their classes, test images with theirs or None, and texts."""


def unit(X: Any) -> NDArray[np.float32]:
    """Rows of unit length."""
    X = np.asarray(X, np.float32)
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


def data_sets(root: Path, more: list[Path]) -> dict[str, Callable[[], Data]]:
    """How to read each data set, by name."""
    found: dict[str, Callable[[], Data]] = {}
    for name, file in (("WHU RN50", "rn50"), ("WHU ViT-B/32", "vit_b32"), ("WHU ViT-L/14", "vit_l14")):
        found[name] = partial(_whu, root / "whurs19" / f"clip_{file}.npz")
    names = ("pool", "pool_labels", "test", "test_labels", "text")
    found["DTD"] = partial(_arrays, root / "dtd" / "clip_vit_b32.npz", names)
    found |= {path.stem: partial(_arrays, path, ("X", "y", "", "", "text")) for path in more}
    sun = partial(_arrays, root / "sun397" / "clip_vit_b32.npz", ("train", "train_y", "val", "val_y", "text"))
    return found | {"SUN397": sun} | {f"SUN397-{width}": partial(_projected, sun, width) for width in WIDTHS}


def _whu(path: Path) -> Data:
    with np.load(path, allow_pickle=False) as z:
        place = next(i for i, prompt in enumerate(z["prompts"]) if PROMPT[:-2] in str(prompt))
        return unit(z["images"]), z["labels"].astype(int), None, None, unit(z["text"][place])


def _arrays(path: Path, names: tuple[str, ...]) -> Data:
    with np.load(path, allow_pickle=False) as z:
        X, y, test, test_y, text = (z[name] if name else None for name in names)
    return unit(X), y.astype(int), None if test is None else unit(test), test_y, unit(text)


def _projected(whole: Callable[[], Data], width: int) -> Data:
    X, y, test, test_y, text = whole()
    turned = np.linalg.eigh(X.T.astype(float) @ X)[1][:, ::-1][:, :width].astype(np.float32)
    return unit(X @ turned), y, unit(test @ turned), test_y, unit(text @ turned)


def draw(data: Data, shots: int, seed: int) -> Data:
    """Support with its classes, test images with theirs, and texts."""
    X, y, test, test_y, text = data
    random = np.random.RandomState(1000 * seed + shots)
    rows = [random.permutation(np.flatnonzero(y == k)) for k in range(len(text))]
    support = np.concatenate([some[:shots] for some in rows])
    if test is None:
        rest = np.concatenate([some[shots:] for some in rows])
        test, test_y = X[rest], y[rest]
    return X[support], y[support], test, test_y, text


def accuracy(method: str, data: Data, shots: int, seed: int) -> Row:
    """That of one draw, in percent."""
    from lpplusplus import CrossModalProbe, LPPlusPlus

    X, y, test, test_y, text = draw(data, shots, seed)
    if method == "cross-modal":
        probe = CrossModalProbe(iterations=1280, weight_decays=(0.01,), random_state=seed).fit(X, y, text=text)
    elif method == "images":
        probe = LPPlusPlus(random_state=seed, alpha="none").fit(X, y)
    else:
        probe = LPPlusPlus(random_state=seed).fit(X, y, text=text)
    return {"accuracy": 100 * float(probe.score(test, test_y))}


def tables(rows: list[Row]) -> None:
    """Print what the rows say."""
    found: dict[tuple[str, str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        data, method = row["data"].rsplit(" by ", 1)
        found[data, method, row["shots"]][row["seed"]] = row["accuracy"]
    shots = sorted({key[2] for key in found})
    for other in ("before", "cross-modal", "images"):
        print(f"\n| less {other} | {' | '.join(map(str, shots))} |\n|{'---|' * (len(shots) + 1)}")
        for data in dict.fromkeys(key[0] for key in found):
            cells = []
            for count in shots:
                now, then = found[data, "now", count], found[data, other, count]
                gains = [now[seed] - then[seed] for seed in now.keys() & then.keys()]
                error = np.std(gains, ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else np.nan
                cells.append(f"{np.mean(gains):+.2f} ± {error:.2f} ({len(gains)})" if gains else "")
            print(f"| {data} | {' | '.join(cells)} |")


def main() -> None:
    """Compute what is missing, or print the tables."""
    parser = options(__doc__)
    parser.add_argument("--method", choices=("now", "before", "cross-modal", "images"), default="now")
    parser.add_argument("--shots", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--npz", type=Path, nargs="*", default=[], help="features of photos: X, y, text")
    given = parser.parse_args()
    if not given.table:
        known = data_sets(Path(os.environ["LPP_DATA"]), given.npz)
        for name in given.only or known:
            data = known[name]()
            shots = [count for count in given.shots if count <= np.bincount(data[1]).min()]
            seeds = range(given.first, given.first + given.draws)
            make = partial(_row, given.method, data)
            add_missing(given.rows, [f"{name} by {given.method}"], shots, seeds, make)
    tables(read(given.rows))


def _row(method: str, data: Data, _: str, shots: int, seed: int) -> Row:
    return accuracy(method, data, shots, seed)


if __name__ == "__main__":
    main()
