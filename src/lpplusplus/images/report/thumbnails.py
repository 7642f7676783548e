"""Small copies of photos, to be put into a page."""

import base64
import hashlib
import io
from pathlib import Path

from ...encoders.pixels.decoding import ImageError, open_image
from ..embeddings import Embeddings
from ..sources.stored_file import StoredFile, content_of

SIDE = 224
"""Pixels of the longer side."""


def thumbnail(images: Embeddings, row: int, side: int = SIDE) -> str | None:
    """An image as a `data:` address, its longer side `side` pixels at most; or None if it is not there any more.

    The copy is encoded anew from pixels, so that neither EXIF data (the place where it was taken) nor anything else
    of the file gets into the page. A file is shown only if it is the one that was embedded: a feature store from
    somebody else could name any file of this computer.
    """
    item = images.items[row] if images.items else Path(images.paths[row])
    try:
        if isinstance(item, Path | StoredFile):
            content = content_of(item)
            if images.hashes is None or hashlib.sha256(content).digest() != images.hashes[row].tobytes():
                return None
            picture = open_image(content)
        else:
            picture = open_image(item)
    except ImageError:
        return None
    small = picture.copy()  # It may be the user's own.
    small.thumbnail((side, side))
    small.info = {}  # Pillow would write a comment that it has read.
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
