"""Embeddings that CLIP_benchmark's linear probe has cached: a folder `MODEL-PRETRAINED-DATASET` for each encoder.

It holds `features_train.pt` (n, D) and `targets_train.pt` (n,), the same for `test` and perhaps `val`. The cache has no
text and no class names. A file `text.npz` in the folder, with the arrays `text`, `prompts` and `classnames` of a
feature file, adds these. Without it there are images only, and the classes are called 0 to K - 1.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....images.errors import shown
from ....images.sources.arrays import load_arrays
from ..splits import PARTS, DatasetError
from .base import Description, Reader, safe_path, table, text

TEXT = "text.npz"


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


def _needs(entry: Description) -> list[tuple[str, ...]]:
    if not entry.options["files"]:
        raise DatasetError(f"{entry.name}: files must name a folder for each encoder.")
    return [(entry.below(f"{place}/features_train.pt"),) for place in entry.options["files"].values()]


READER = Reader({"files": table(safe_path), "prompt": text}, ("files",), _needs, None)
"""Keys: `files`, a folder for each encoder; `prompt`, which of the prompts in `text.npz` to take by default."""
