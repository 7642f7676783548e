"""Layouts of data sets on disk, one file each."""

from .aircraft_lists import AIRCRAFT_LISTS
from .base import Reader
from .feature_file import FEATURE_FILE
from .folder_per_class import FOLDER_PER_CLASS
from .imagenet import IMAGENET, IMAGENET_SHIFT
from .split_json import SPLIT_JSON

READERS: dict[str, Reader] = {
    "split-json": SPLIT_JSON,
    "aircraft-lists": AIRCRAFT_LISTS,
    "imagenet": IMAGENET,
    "imagenet-shift": IMAGENET_SHIFT,
    "folder-per-class": FOLDER_PER_CLASS,
    "feature-file": FEATURE_FILE,
}
"""Every reader by the name that a catalog entry has in `reader`."""
