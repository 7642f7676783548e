"""Where pictures and labels come from: folders, manifests, lists, files of arrays. Nothing here decodes a picture."""

from .arrays import ArraySet, read_arrays
from .class_names import display_name, read_class_names
from .folders import EXTENSIONS, from_folder
from .image_set import ImageSet, SourceError, from_list
from .manifests import from_manifest
from .opening import open_images
from .shots import sample_shots

__all__ = [
    "EXTENSIONS",
    "ArraySet",
    "ImageSet",
    "SourceError",
    "display_name",
    "from_folder",
    "from_list",
    "from_manifest",
    "open_images",
    "read_arrays",
    "read_class_names",
    "sample_shots",
]
