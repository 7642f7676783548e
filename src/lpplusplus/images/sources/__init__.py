"""Where images and labels come from: folders, manifests, lists, files of arrays. Nothing here decodes an image."""

from ..errors import SourceError
from .arrays import read_arrays
from .folders import from_folder
from .image_set import ImageSet
from .images import open_images
from .lists import from_list
from .shots import sample_shots

__all__ = ["ImageSet", "SourceError", "from_folder", "from_list", "open_images", "read_arrays", "sample_shots"]
