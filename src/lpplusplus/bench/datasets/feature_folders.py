"""Folders of embeddings as the arrays of a feature file: Parquet data sets, and the caches of CLIP_benchmark.

Parquet: one data set, or a folder with one for each split. CLIP_benchmark's linear probe caches a folder
`MODEL-PRETRAINED-DATASET` for each encoder, with `features_train.pt` (n, D) and `targets_train.pt` (n,), the same for
`test` and perhaps `val`. It has no text and no class names: a file `text.npz` in the folder, with the arrays `text`,
`prompts` and `classnames` of a feature file, adds these. Without it the classes are called 0 to K - 1.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...encoders import EncoderError, open_encoder
from ...encoders.class_text import DEFAULT_TEMPLATE
from ...images.embeddings import Embeddings
from ...images.errors import shown
from ...images.opening import class_text
from ...images.parquet import is_parquet, read_parquet
from ...images.sources.arrays import load_arrays
from .splits import PARTS, DatasetError

TEXT = "text.npz"


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


def load_folder(folder: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays `names` of a feature file, from a folder of the cache."""
    parts = [part for part in PARTS if (folder / f"targets_{part}.pt").is_file()]
    if not {"train", "test"} <= set(parts):
        raise DatasetError(f"{folder} must have features_train.pt, targets_train.pt, and the same for test.")
    labels = [_tensor(folder / f"targets_{part}.pt", 1, "iu") for part in parts]
    wanted = [name for name in ("text", "prompts", "classnames") if name in names]
    arrays = load_arrays(folder / TEXT, wanted, lists=()) if (folder / TEXT).is_file() else {}
    arrays |= {"labels": np.concatenate(labels), "split": np.repeat(parts, [len(array) for array in labels])}
    if "images" in names:
        images = [_tensor(folder / f"features_{part}.pt", 2, "f") for part in parts]
        if len({array.shape[1] for array in images}) > 1 or list(map(len, images)) != list(map(len, labels)):
            raise DatasetError(f"{folder}: features and targets of its splits do not fit together.")
        arrays["images"] = np.concatenate(images)
    return arrays


def _tensor(path: Path, dimensions: int, kinds: str) -> NDArray[Any]:
    """A tensor from a torch file, read as numbers: no code in it is run."""
    try:
        import torch
    except ImportError as error:
        raise DatasetError(f'{path} is read with torch: pip install "lpplusplus[torch]".') from error
    try:
        size = path.stat().st_size
        for device in ("meta", "cpu"):  # First without memory: a small file may claim a tensor of any shape.
            found = torch.load(path, map_location=device, weights_only=True)
            if not isinstance(found, torch.Tensor) or found.layout != torch.strided:
                raise ValueError(f"it holds {type(found).__name__}, expected a tensor")
            needed = max(found.untyped_storage().nbytes(), found.numel() * found.element_size())
            if needed > size:
                raise ValueError(f"its tensor would take {needed:,} bytes, the file has {size:,}")
        found = found.detach()
        array = np.asarray((found.float() if found.is_floating_point() else found).numpy())
    except Exception as error:  # torch raises anything on malformed content.
        raise DatasetError(f"{path} cannot be read as a tensor ({shown(str(error))}).") from error
    if array.ndim != dimensions or array.dtype.kind not in kinds:
        kind = "class numbers" if dimensions == 1 else "embeddings"
        raise DatasetError(f"{path}: found {array.dtype} of shape {array.shape}, expected {kind}.")
    return array
