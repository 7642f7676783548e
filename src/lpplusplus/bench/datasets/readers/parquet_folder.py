"""A Parquet data set as the arrays of a feature file; or a folder with one for each split."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....encoders import EncoderError, open_encoder
from ....encoders.class_text import DEFAULT_TEMPLATE
from ....images.embeddings import Embeddings
from ....images.opening import class_text
from ....images.parquet import is_parquet, read_parquet
from ....images.sources.arrays import load_arrays
from ..splits import PARTS, DatasetError
from .clip_benchmark import TEXT


def splits_of(path: Path) -> dict[str, Path]:
    """The Parquet data set of each split, or one for all; empty if `path` is something else."""
    parts = {part: path / part for part in PARTS if (path / part).is_dir() and is_parquet(path / part)}
    if parts:
        return parts
    return {"": path} if is_parquet(path) else {}


def load_parquet(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays `names` of a feature file; text is from `text.npz`, else made by the encoder of the images."""
    found = {part: read_parquet(place, labels=True) for part, place in splits_of(path).items()}
    _check_one_encoder(found, path)
    labels = [label for part in found.values() if part.labels is not None for label in part.labels.tolist()]
    text = path / TEXT
    wanted = [name for name in ("text", "prompts", "classnames") if name in names]
    arrays = load_arrays(text, wanted) if path.is_dir() and text.is_file() else {}
    first = next(iter(found.values()))
    classes = tuple(dict.fromkeys(name for part in found.values() for name in part.classes))
    if "classnames" not in arrays:
        arrays["classnames"] = np.array(classes)
    arrays["labels"] = np.array(labels)
    if "" not in found:
        arrays["split"] = np.repeat(list(found), [len(part) for part in found.values()])
    if "images" in names:
        arrays["images"] = np.concatenate([part.rows for part in found.values()])
        if "text" not in arrays and first.origin is not None:
            arrays["text"] = _text(replace(first, classes=classes, names=_names(found, classes)), path)
    return arrays


def _check_one_encoder(found: dict[str, Embeddings], path: Path) -> None:
    origins = {part.origin.key for part in found.values() if part.origin is not None}
    widths = {part.X.shape[1:] for part in found.values()}
    if len(origins) > 1 or len(widths) > 1:
        raise DatasetError(f"{path}: its splits have embeddings by different encoders.")


def _names(found: dict[str, Embeddings], classes: tuple[str, ...]) -> tuple[str, ...]:
    names = {label: name for part in found.values() for label, name in zip(part.classes, part.names, strict=True)}
    return tuple(names[label] for label in classes)


def _text(found: Embeddings, path: Path) -> NDArray[Any]:
    assert found.origin is not None
    spec = found.origin.spec
    try:
        text = class_text(found, lambda: open_encoder(spec, named_by=str(path)), (DEFAULT_TEMPLATE,))
    except EncoderError as error:
        raise DatasetError(f"{error} Or put the class names' embeddings into {path / TEXT}.") from error
    assert text is not None
    return text
