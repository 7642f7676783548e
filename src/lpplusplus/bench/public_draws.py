"""The public few-shot splits of "Rethinking Few-Shot Adaptation of Vision-Language Models in Two Stages" (2SFS).

Its 165 supports, of eleven data sets, 1 to 16 shots and seeds 1 to 3, are files `shot_4-seed_1_train.jsonl` in a data
set's folder `split_fewshot`, beside CoOp's split file; `shot_4-seed_1_val.jsonl` has the validation images, min(S, 4)
per class. A line is an image, its path relative to the folder of all data sets:

    {"_impath": "dtd/images/banded/banded_0133.jpg", "_label": 0, "_domain": 0, "_classname": "banded"}

A plan with `generator = "2sfs"` and `validation = "coop"` (or "none") takes its tasks from them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from .datasets import ImageSplits
from .datasets.readers.base import lines, safe_path
from .draws import TWO_STAGE, Draw, DrawError, Validation, labels_digest, labels_of
from .sampling import Positions

FOLDER = "split_fewshot"


def public_draw(data: ImageSplits, root: Path, folder: str, *, shots: int, seed: int, validation: Validation) -> Draw:
    """The task with these shots and seed, checked against the data set's images and labels.

    Parameters
    ----------
    data
        The data set, with CoOp's splits.
    root, folder
        Folder of all data sets, and the folder of this one inside it.
    shots, seed, validation
        Which task; `validation` is "coop" or "none".
    """
    if validation == "paper":
        raise DrawError("the splits of 2SFS have min(S, 4) validation images per class: write validation = 'coop'.")
    start = root / folder / FOLDER / f"shot_{shots}-seed_{seed}"
    found: dict[str, Positions] = {"validation": np.empty(0, np.intp)}
    sources = {"support": "train"}
    if validation == "coop":
        sources["validation"] = "train" if data.val is None else "val"
    for purpose, source in sources.items():
        part = data.part(source)
        place = part.root.relative_to(root).as_posix()
        positions = {f"{place}/{file}": row for row, file in enumerate(part.files)}
        name = f"{start}_{'train' if purpose == 'support' else 'val'}.jsonl"
        found[purpose] = _rows(Path(name), positions, part.labels)
    labels_train, labels_val, n_test = labels_of(data)
    if n_test is None:
        raise DrawError(f"{data.name} has no test split, which the splits of 2SFS leave to CoOp's file.")
    counts = np.bincount(labels_train[np.unique(found["support"])], minlength=len(data.classes))
    short = tuple(int(k) for k in np.flatnonzero(counts < shots))
    return Draw(
        data.name, shots, seed, TWO_STAGE, validation, "repeat", sources.get("validation", "none"), "test",  # type: ignore[arg-type]
        labels_digest(labels_train, labels_val, n_test), found["support"], found["validation"], np.arange(n_test),
        {"support": short} if short else {},
    )  # fmt: skip


def _rows(path: Path, positions: dict[str, int], labels: Positions) -> Positions:
    """Positions of the listed images in their split, class by class."""
    rows = []
    for number, line in lines(path):
        where = f"{path}, line {number}"
        try:
            item: Any = json.loads(line)
            image, label = safe_path(item["_impath"], where), item["_label"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DrawError(f"{where}: expected an object with _impath and _label ({error}).") from error
        if image not in positions:
            raise DrawError(f"{where}: {image!r} is not an image of the split that it should be from.")
        if type(label) is not int or labels[positions[image]] != label:
            raise DrawError(
                f"{where}: {image!r} has label {label!r}, but {labels[positions[image]]} in the split file."
            )
        rows.append(positions[image])
    if not rows:
        raise DrawError(f"{path} lists no images.")
    return np.array(sorted(rows, key=lambda row: int(labels[row])), np.intp)
