"""One way in for whatever a user names: a folder, a manifest, files, images."""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .class_names import SourceError
from .folders import EXTENSIONS, from_folder
from .image_set import ImageSet, from_list
from .manifests import from_manifest

if TYPE_CHECKING:
    from PIL import Image

Source: TypeAlias = "str | PathLike[str] | Iterable[str | PathLike[str] | Image.Image]"


def open_images(source: Source, y: Iterable[Any] | None = None, *, labels: bool = True, allow_empty: bool = False,
                ) -> ImageSet:  # fmt: skip
    """Pictures from a folder, a `.csv` or `.jsonl` manifest, one file, or a list of paths or Pillow images.

    Parameters
    ----------
    source
        What the user named.
    y
        Labels, for a list.
    labels
        Whether labels are wanted: True for training and evaluation, False for prediction.
    allow_empty
        Keep class folders without pictures; see `from_folder`.
    """
    if not isinstance(source, str | os.PathLike):
        return from_list(source, y if labels else None)
    if y is not None:
        raise SourceError(f"labels belong to a list of images; {os.fspath(source)!r} has its own.")
    path = Path(source)
    if path.is_dir():
        return from_folder(path, labels=labels, allow_empty=allow_empty)
    if path.suffix.lower() in (".csv", ".jsonl"):
        return from_manifest(path, labels=labels)
    if path.suffix.lower() in EXTENSIONS and not labels:
        return from_list([path])
    if not labels:
        what = "is neither an image, a folder nor a manifest (.csv, .jsonl)" if path.exists() else "does not exist"
        raise SourceError(f"{path} {what}: expected one of these.")
    if path.suffix.lower() == ".npy" and path.exists():
        raise SourceError(
            f"{path} is a lone array, without labels: save both in one file, "
            f"np.savez({str(path.with_suffix('.npz'))!r}, embeddings=…, labels=…)."
        )
    what = "is neither a folder nor a manifest (.csv, .jsonl)" if path.exists() else "does not exist"
    raise SourceError(f"{path} {what}: expected images as <class>/*.jpg below a folder, or a list with path and label.")
