"""Where images and labels come from: folders, manifests, lists, files of arrays. Nothing here decodes an image."""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SourceError
from .arrays import read_arrays
from .folders import EXTENSIONS, PartName, from_folder, from_zip
from .image_set import MANIFESTS, ImageSet, from_list, from_manifest, sample_shots

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["ImageSet", "SourceError", "from_folder", "from_list", "open_images", "read_arrays", "sample_shots"]


def open_images(
    source: str | PathLike[str] | Iterable[str | PathLike[str] | Image.Image],
    y: Iterable[Any] | None = None,
    *,
    labels: bool = True,
    allow_empty: bool = False,
    part: PartName | None = None,
) -> ImageSet:
    """Images from a folder, a `.zip` of one, a `.csv` or `.jsonl` manifest, one file, a list of paths or Pillow images.

    Parameters
    ----------
    source
        What the user named.
    y
        Labels, for a list.
    labels
        Whether labels are needed: True for training and evaluation, False for prediction.
    allow_empty
        Keep class folders without images; see `from_folder`.
    part
        Which part to take of a folder that has `train`, `val` or `test` in it; see `from_folder`.
    """
    if not isinstance(source, str | os.PathLike):
        return from_list(source, y if labels else None)
    if y is not None:
        raise SourceError(f"labels belong to a list of images; {os.fspath(source)!r} has its own.")
    path = Path(source)
    suffix = path.suffix.lower()
    if path.is_dir():
        return from_folder(path, labels=labels, allow_empty=allow_empty, part=part)
    if suffix == ".zip" and path.exists():
        return from_zip(path, labels=labels, allow_empty=allow_empty, part=part)
    if suffix in MANIFESTS:
        return from_manifest(path, labels=labels)
    if suffix in EXTENSIONS and not labels:
        return from_list([path])
    raise _unknown(path, labels)


def _unknown(path: Path, labels: bool) -> SourceError:
    if labels and path.suffix.lower() == ".npy" and path.exists():
        return SourceError(
            f"{path} is a lone array, without labels: save both in one file, "
            f"np.savez({str(path.with_suffix('.npz'))!r}, embeddings=…, labels=…)."
        )
    kinds = "a folder nor a manifest (.csv, .jsonl) nor a .zip"
    kinds = kinds if labels else f"an image, {kinds}"
    expected = "images as <class>/*.jpg below a folder, or a list with path and label" if labels else "one of these"
    what = f"is neither {kinds}" if path.exists() else "does not exist"
    return SourceError(f"{path} {what}: expected {expected}.")
