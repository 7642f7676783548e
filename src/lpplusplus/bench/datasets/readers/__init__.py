"""Layouts of data sets on disk. A new layout is a file here, with a `READER`, and its name in `LAYOUTS`."""

from importlib import import_module

from .base import Reader

LAYOUTS = (
    "split_json",
    "aircraft_lists",
    "imagenet",
    "imagenet_shift",
    "folder_per_class",
    "feature_file",
    "clip_benchmark",
)
"""Files of this folder; a catalog entry has the name in `reader`, with "-" for "_"."""

READERS: dict[str, Reader] = {name.replace("_", "-"): import_module(f".{name}", __package__).READER for name in LAYOUTS}
"""Every reader by the name that a catalog entry has in `reader`."""
