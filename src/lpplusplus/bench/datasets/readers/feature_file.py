"""A catalog entry of published embeddings, a file for each backbone; `..features` reads the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..splits import DataSetError
from .base import Reader

if TYPE_CHECKING:
    from ..catalog import DataSet


def read(dataset: DataSet, root: Path) -> NoReturn:
    """Raise: there are no images."""
    raise DataSetError(f"{dataset.name} has embeddings in {root / dataset.folder}, not images: ask for its features.")


def feature_path(dataset: DataSet, root: Path, backbone: str | None) -> Path:
    """The file of a backbone; that of the first unless told."""
    files = dataset.options["files"]
    if backbone is not None and backbone not in files:
        raise DataSetError(f"{dataset.name} has features of {', '.join(files)}, not of {backbone!r}.")
    place: str = files[next(iter(files)) if backbone is None else backbone]
    return root / dataset.below(place)


def _needs(dataset: DataSet) -> list[tuple[str, ...]]:
    if not dataset.options["files"]:
        raise DataSetError(f"{dataset.name}: files must name a file for each backbone.")
    return [(dataset.below(place),) for place in dataset.options["files"].values()]


FEATURE_FILE = Reader({"files": dict, "prompt": str}, ("files",), _needs, read)
"""Keys: `files`, a file for each backbone; `prompt`, which of its prompts to take unless told."""
