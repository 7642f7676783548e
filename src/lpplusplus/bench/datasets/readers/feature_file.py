"""A catalog entry of published embeddings, with a file for each encoder; `..features` reads the file itself."""

from pathlib import Path

from ..splits import DatasetError
from .base import Description, Reader, safe_path, table, text


def feature_path(entry: Description, root: Path, encoder: str | None) -> Path:
    """The file of an encoder; by default the first encoder."""
    files = entry.options["files"]
    if encoder is not None and encoder not in files:
        raise DatasetError(f"{entry.name} has features of {', '.join(files)}, not of {encoder!r}.")
    place: str = files[next(iter(files)) if encoder is None else encoder]
    return root / entry.below(place)


def _needs(entry: Description) -> list[tuple[str, ...]]:
    if not entry.options["files"]:
        raise DatasetError(f"{entry.name}: files must name a file for each encoder.")
    return [(entry.below(place),) for place in entry.options["files"].values()]


READER = Reader({"files": table(safe_path), "prompt": text}, ("files",), _needs, None)
"""Keys: `files`, a file or Parquet data set for each encoder; `prompt`, which prompt to take: "average", "all" or its
words."""
