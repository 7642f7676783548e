"""Published embeddings: images, labels and text of a data set in one `.npz` or `.safetensors` file.

`images` (or `embeddings`)
    (n, D) real numbers.
`labels`
    (n,) positions in `classnames`, or names.
`text`
    (K, D), or (P, K, D) with one classifier for each of P prompts.
`prompts`
    (P,) texts such as "a photo of a {}."
`classnames` (or `classes`)
    (K,) names; without them the classes are called 0 to K - 1.
`split`
    (n,) 0, 1, 2 or "train", "val", "test"; without it all images are one pool.

Or an array for each split, `train` (or `pool`), `val` and `test`, with its labels in `train_labels` and so on. A folder
of CLIP_benchmark's cache is read as such a file (`load_folder`), and so is a Parquet data set
(`load_parquet`), or a folder with one for each split in `train`, `val` and `test`.

A safetensors file has `prompts` and `classnames` as JSON lists in its metadata. Nothing is unpickled.
"""

from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...encoders import EncoderError, open_encoder
from ...encoders.class_text import DEFAULT_TEMPLATE, display_name
from ...images.embeddings import Embeddings
from ...images.errors import shown
from ...images.opening import class_text
from ...images.parquet import is_parquet, read_parquet
from ...images.sources import SourceError
from ...images.sources.arrays import check_finite_rows, load_arrays
from .splits import PARTS, DatasetError, Splits

AVERAGE = "average"
"""Instead of a prompt: the mean of all prompts' unit embeddings."""
EVERY = "all"
"""Instead of a prompt: all of them, for methods that weight prompts; other methods take the mean."""

MOST_CLASSES = 1_000_000
"""Most classes of a file that does not name them."""

BY_SPLIT = {"train": "train", "pool": "train", "val": "val", "test": "test"}
"""Names of the images of a split, if each split is an array of its own."""
LABELS = ("labels", "classnames", "classes", "split", *(f"{name}_labels" for name in BY_SPLIT))
LISTS = ("prompts", *LABELS)
"""Arrays that a safetensors file may have as lists."""
ALL = ("images", "embeddings", "text", "prompts", *BY_SPLIT, *LABELS)


@dataclass(frozen=True, eq=False)
class FeatureSplits(Splits[Embeddings]):
    """A data set of embeddings.

    Attributes
    ----------
    text
        (K, D) float32 embeddings of the classes, as the file has them; averages have unit length. (P, K, D) if all
        prompts were asked for. None if the file has no text.
    prompt
        The prompt of `text`: its own words, "average", "all", or "" if the file does not say.
    """

    text: NDArray[np.float32] | None = field(kw_only=True)
    prompt: str = field(kw_only=True)


def read_feature_file(
    path: str | PathLike[str], *, name: str | None = None, prompt: str | None = None
) -> FeatureSplits:
    """Read and check a file of embeddings.

    Parameters
    ----------
    path
        The file.
    name
        Name of the data set; by default the file's name.
    prompt
        One of the file's prompts, by its words, "average" or "all". By default the average, if there are several.
    """
    path = Path(path)
    arrays = _load(path, ALL)
    X = _numbers(arrays, "images" if "images" in arrays else "embeddings", path)
    if X.ndim != 2:
        raise DatasetError(f"{path}: embeddings have shape {X.shape}, expected (n, D).")
    text, chosen = _text(arrays, prompt, path)
    classes = _classes(arrays, path)
    if classes is None:
        count = int(_labels(arrays, None, path).max()) + 1 if text is None else text.shape[-2]
        classes = tuple(str(label) for label in range(count))
    if text is not None and text.shape[-2:] != (len(classes), X.shape[1]):
        raise DatasetError(f"{path}: text is for {text.shape[-2]} classes in {text.shape[-1]} dimensions, but there "
                           f"are {len(classes)} class names, and embeddings have {X.shape[1]} dimensions.")  # fmt: skip
    labels = _labels(arrays, classes, path)
    if len(labels) != len(X):
        raise DatasetError(f"{path} has {len(X)} embeddings and {len(labels)} labels.")
    shown = tuple(display_name(label) for label in classes)
    parts = {
        part: Embeddings(
            X[rows, None], labels[rows], classes=classes, names=shown, positions=np.arange(len(labels[rows]))
        )
        for part, rows in _rows(arrays, len(X), path).items()
    }
    return FeatureSplits(name or path.stem, classes, shown, (), **parts, text=text, prompt=chosen)


def count_features(path: str | PathLike[str]) -> dict[str, int]:
    """Numbers of classes and of images in each split, without reading embeddings."""
    path = Path(path)
    arrays = _load(path, LABELS)
    classes = _classes(arrays, path)
    labels = _labels(arrays, classes, path)
    rows = _rows(arrays, len(labels), path)
    found = {"classes": len(classes) if classes else len(np.unique(labels))}
    return found | {part: len(labels[which]) for part, which in rows.items()}


def _load(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    try:
        if splits_of(path):
            return load_parquet(path, names)
        if path.is_dir():
            return load_folder(path, names)
        arrays = load_arrays(path, names, lists=LISTS)
    except SourceError as error:
        raise DatasetError(str(error)) from error
    return _joined(arrays, path) if "labels" not in arrays else arrays


def _joined(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, NDArray[Any]]:
    """One array each of images, labels and splits, from arrays of the single splits."""
    found = [name for name in BY_SPLIT if f"{name}_labels" in arrays]
    if not found:
        return arrays
    labels = [arrays[f"{name}_labels"] for name in found]
    split = [np.full(len(part), BY_SPLIT[name]) for name, part in zip(found, labels, strict=True)]
    try:
        joined = {"labels": np.concatenate(labels), "split": np.concatenate(split)}
        if any(name in arrays for name in found):
            joined["images"] = np.concatenate([arrays[name] for name in found])
    except (KeyError, ValueError, TypeError) as error:
        raise DatasetError(f"{path}: its splits {', '.join(found)} do not fit together ({error}).") from error
    return arrays | joined


def _numbers(arrays: dict[str, NDArray[Any]], name: str, path: Path) -> NDArray[np.float32]:
    array = arrays.get(name)
    if array is None:
        raise DatasetError(f"{path} has the arrays {sorted(arrays)}, expected 'images', 'labels' and 'text'.")
    if array.dtype.kind != "f" or not array.ndim or 0 in array.shape:
        raise DatasetError(f"{path}: {name} is {array.dtype} of shape {array.shape}, expected real numbers.")
    try:
        check_finite_rows(array, f"{path}: {name}")
    except SourceError as error:
        raise DatasetError(str(error)) from error
    return np.asarray(array, np.float32)


def _text(arrays: dict[str, NDArray[Any]], prompt: str | None, path: Path) -> tuple[NDArray[np.float32] | None, str]:
    if "text" not in arrays and (path.is_dir() or splits_of(path)):
        return None, ""
    text = _numbers(arrays, "text", path)
    prompts = _strings(arrays["prompts"], "prompts", path) if "prompts" in arrays else None
    if text.ndim == 2 and prompts is None:
        if prompt is not None:
            raise DatasetError(f"{path} does not say which prompts its text is of, so {prompt!r} cannot be chosen.")
        return text, ""
    text = text[None] if text.ndim == 2 else text
    if text.ndim != 3 or (prompts is not None and len(prompts) != len(text)):
        known = "" if prompts is None else f" for {len(prompts)} prompts"
        raise DatasetError(f"{path}: text has shape {text.shape}{known}, expected (K, D) or (P, K, D).")
    return _chosen(text, prompts, prompt, path)


def _chosen(
    text: NDArray[np.float32], prompts: list[str] | None, prompt: str | None, path: Path
) -> tuple[NDArray[np.float32], str]:
    """The text of one prompt, of their average, or of all; and which."""
    if prompt is None and len(text) == 1:
        return text[0], prompts[0] if prompts else ""
    if prompt == EVERY:
        return text, EVERY
    if prompt is None or prompt == AVERAGE:
        return _average(text, path), AVERAGE
    if prompts is None or prompt not in prompts:
        some = f"has prompts such as {prompts[0]!r}" if prompts else "does not name its prompts"
        raise DatasetError(f"{path} {some}, not {prompt!r}: choose one of them, 'average' or 'all'.")
    return text[prompts.index(prompt)], prompt


def _average(text: NDArray[np.float32], path: Path) -> NDArray[np.float32]:
    """The mean of unit rows, scaled to unit length again, as CLIP does it."""
    lengths = np.linalg.norm(text, axis=2, keepdims=True)
    mean = (text / np.where(lengths > 0, lengths, 1)).mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    if not ((lengths > 0).all() and (length > 0).all()):
        raise DatasetError(f"{path}: text has a class whose embedding is zero.")
    return np.asarray(mean / length, np.float32)


def _strings(array: NDArray[Any], name: str, path: Path) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U" or len(set(array.tolist())) < len(array) or not len(array):
        raise DatasetError(f"{path}: {name} must be a list of different texts, found {array.dtype} of {array.shape}.")
    found: list[str] = array.tolist()
    return found


def _classes(arrays: dict[str, NDArray[Any]], path: Path) -> tuple[str, ...] | None:
    for name in ("classnames", "classes"):
        if name in arrays:
            return tuple(_strings(arrays[name], name, path))
    return None


def _labels(arrays: dict[str, NDArray[Any]], classes: tuple[str, ...] | None, path: Path) -> NDArray[np.intp]:
    labels = arrays.get("labels")
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iuU" or not len(labels):
        found = "missing" if labels is None else f"{labels.dtype} of shape {labels.shape}"
        raise DatasetError(f"{path}: labels are {found}, expected n whole numbers or names.")
    if labels.dtype.kind == "U":
        positions = {name: position for position, name in enumerate(classes or ())}
        unknown = sorted(set(labels.tolist()) - positions.keys())
        if unknown:
            raise DatasetError(f"{path}: label {unknown[0]!r} is not among its classnames.")
        return np.array([positions[label] for label in labels.tolist()], np.intp)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= (MOST_CLASSES if classes is None else len(classes)):
        raise DatasetError(f"{path}: labels from {low} to {high} are not positions in its classnames.")
    return labels.astype(np.intp)


def _rows(arrays: dict[str, NDArray[Any]], n: int, path: Path) -> dict[str, Any]:
    """Which rows each split has."""
    if "split" not in arrays:
        return {"train": slice(None)}
    split = arrays["split"]
    values = dict(zip(PARTS, PARTS if split.dtype.kind == "U" else range(3), strict=True))
    if split.shape != (n,) or split.dtype.kind not in "iuU" or set(split.tolist()) - set(values.values()):
        raise DatasetError(f"{path}: split must give each of {n} images 0, 1, 2 or 'train', 'val', 'test'.")
    rows = {part: np.flatnonzero(split == value) for part, value in values.items()}
    if not len(rows["train"]) or not len(rows["test"]):
        raise DatasetError(f"{path}: split leaves no image for train, or none for test.")
    return {part: which for part, which in rows.items() if len(which)}


TEXT = "text.npz"


def splits_of(path: Path) -> dict[str, Path]:
    """The Parquet data set of each split, or one for all; empty if `path` is something else."""
    parts = {part: path / part for part in PARTS if (path / part).is_dir() and is_parquet(path / part)}
    if parts:
        return parts
    return {"": path} if is_parquet(path) else {}


def load_parquet(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays `names` of a feature file; text is from `text.npz`, else made by the encoder of the images."""
    parts = {part: read_parquet(place, labels=True) for part, place in splits_of(path).items()}
    first = next(iter(parts.values()))
    _check_one_encoder(parts, path)
    shown = {label: name for part in parts.values() for label, name in zip(part.classes, part.names, strict=True)}
    arrays = {"classnames": np.array([*shown])} | _text_file(path, names)
    arrays["labels"] = np.concatenate([np.asarray(part.labels, np.str_) for part in parts.values()])
    if "" not in parts:
        arrays["split"] = np.repeat([*parts], [len(part) for part in parts.values()])
    if "images" in names:
        arrays["images"] = np.concatenate([part.rows for part in parts.values()])
        if "text" not in arrays and first.origin is not None:
            arrays["text"] = _made_text(replace(first, classes=(*shown,), names=(*shown.values(),)), path)
    return arrays


def _check_one_encoder(parts: dict[str, Embeddings], path: Path) -> None:
    origins = {part.origin.key for part in parts.values() if part.origin is not None}
    if len(origins) > 1 or len({part.X.shape[1:] for part in parts.values()}) > 1:
        raise DatasetError(f"{path}: its splits have embeddings by different encoders.")


def _text_file(folder: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays of the text that lies beside embeddings, if it is there."""
    wanted = [name for name in ("text", "prompts", "classnames") if name in names]
    return load_arrays(folder / TEXT, wanted) if (folder / TEXT).is_file() else {}


def _made_text(found: Embeddings, path: Path) -> Any:
    assert found.origin is not None
    spec = found.origin.spec
    try:
        return class_text(found, lambda: open_encoder(spec, named_by=str(path)), (DEFAULT_TEMPLATE,))
    except EncoderError as error:
        raise DatasetError(f"{error} Or put the class names' embeddings into {path / TEXT}.") from error


def load_folder(folder: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays `names` of a feature file, from a folder of the cache."""
    parts = [part for part in PARTS if (folder / f"targets_{part}.pt").is_file()]
    if not {"train", "test"} <= set(parts):
        raise DatasetError(f"{folder} must have features_train.pt, targets_train.pt, and the same for test.")
    labels = [_tensor(folder / f"targets_{part}.pt", 1, "iu") for part in parts]
    split = np.repeat(parts, [len(array) for array in labels])
    arrays = _text_file(folder, names) | {"labels": np.concatenate(labels), "split": split}
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
