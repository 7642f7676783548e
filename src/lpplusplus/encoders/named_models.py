"""Models with a name of one word: two small ones in this package, and OpenAI's CLIP, fetched once from the hub.

CLIP is pinned to one commit, and its weights to their SHA-256.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.threads import lazy
from . import onnx
from .base import Access, Cells, EncoderError, NetworkNeededError
from .onnx_files import file_digest, locate

if TYPE_CHECKING:
    from PIL import Image

FOLDERS = {name: Path(__file__).parent / f"{name}_model" for name in ("embedded", "drawings")}
"""Where each model of the package is."""
DRAWINGS_FINGERPRINT = "onnx-319e5f58640849c5dc9f9c1762a7853922dd08aa033af2fee97120219f97eb6b"
"""Fingerprint of the model that older files call "embedded"."""
PINNED = {
    "clip": "Xenova/clip-vit-base-patch32@d15189d7028b43f1d3e65039190477f6af591c2a",
    "clip-large": "Xenova/clip-vit-large-patch14@c307790166907339eed5a9a53a249af534102536",
}
"""Hub id and commit."""
WEIGHTS = {
    "clip": {
        "onnx/vision_model.onnx": "fd6e1402a588279d1723c7534d4bcba5bc0b14b47dfab0e46f8c47b8270d7d40",
        "onnx/text_model.onnx": "3f6571f5bad13a97c469c1622e1cfc4d9aef78b79fdbfcff804ca357bfada8cc",
    },
    "clip-large": {
        "onnx/vision_model.onnx": "ff49f8aa57c7abfd26e382eb083e4dbf988505223a9bd3767dbfd4e729206709",
        "onnx/text_model.onnx": "a86051a90491b97e2ea1d0351ef664926735bca7536034384f901915ee91fd69",
    },
}
"""SHA-256 of each large file of a pinned model."""


LAST_MAP = "_conv_head.r"
"""The last layer of "embedded" that still has places: an embedding is their mean, at unit length, and constants."""


class PhotoEncoder(onnx.OnnxEncoder):
    """The model of photos in the package."""

    has_cells = True

    @lazy
    def _with_map(self) -> Any:
        """A session that also gives the last map.

        A message of protobuf may come in pieces: what is appended to the file adds an output to its graph, and nothing
        else changes.
        """
        output = _piece(7, _piece(12, _piece(1, LAST_MAP.encode())))  # model.graph, graph.output, its name
        runtime = onnx.runtime()
        return runtime.InferenceSession(self.image_tower[0].read_bytes() + output, providers=["CPUExecutionProvider"])

    def cells(self, image: Image.Image) -> Cells:
        _, pixels, embedding, preprocessing = self.image_tower
        feed = {pixels: preprocessing.centre(image)[None]}
        whole, last = (np.asarray(one[0], float) for one in self._with_map.run([embedding, LAST_MAP], feed))
        places = last.transpose(1, 2, 0)
        mean, count = places.mean(axis=(0, 1)), places.shape[0] * places.shape[1]
        length = whole[: len(mean)] @ mean / (mean @ mean)  # The embedding's part that differs is `mean` times this.
        rest = np.broadcast_to(whole[len(mean) :] / count, (*places.shape[:2], len(whole) - len(mean)))
        parts = np.concatenate([places * (length / count), rest], axis=2)
        return Cells(parts, preprocessing.seen(*image.size))


def _piece(field: int, content: bytes) -> bytes:
    """A field of a protobuf message, of at most 127 bytes."""
    return bytes([field << 3 | 2, len(content)]) + content


def current_name(spec: str, fingerprint: str) -> str:
    """Today's name of the encoder that a file calls `spec`. At first, "embedded" was the model of drawings.

    Examples
    --------
    >>> current_name("embedded", DRAWINGS_FINGERPRINT)
    'drawings'
    """
    return "drawings" if (spec, fingerprint) == ("embedded", DRAWINGS_FINGERPRINT) else spec


def _open_packaged(name: str, access: Access) -> onnx.OnnxEncoder:
    if not FOLDERS[name].is_dir():
        raise EncoderError(f"the model {name} is missing from this installation: reinstall lpplusplus.")
    encoder = (PhotoEncoder if name == "embedded" else onnx.OnnxEncoder)(str(FOLDERS[name]))
    encoder.spec = name
    return encoder


def _open_pinned(name: str, access: Access) -> onnx.OnnxEncoder:
    # Files that are on this machine are used without asking the hub.
    folder, source = locate(PINNED[name], download=access is not Access.LOCAL and not _is_here(name))
    for file, digest in WEIGHTS[name].items():  # A hub or a mirror can be faulty or taken over by an attacker.
        if not (folder / file).is_file() or file_digest(folder / file) != digest:
            raise EncoderError(
                f"{folder / file} is not the file that {source} has. Remove {folder.parent.parent}, then it is "
                f"downloaded again; if that does not help, ask whoever runs the hub that you use."
            )
    return onnx.OnnxEncoder(source, download=False)


def _is_here(name: str) -> bool:
    try:
        locate(PINNED[name], download=False)
    except NetworkNeededError:
        return False
    return True


_DESCRIPTIONS = {
    "embedded": ("photos of things and animals, in this package: offline, fast", 12_900_000),
    "drawings": ("demonstration model of drawn shapes, in this package: for `lpp demo`", 2_800_000),
    "clip": ("CLIP ViT-B/32: anything that has a name; downloaded once", 608_000_000),
    "clip-large": ("CLIP ViT-L/14: better, ten times slower; downloaded once", 1_714_000_000),
}
KINDS = {
    name: replace(
        onnx.KIND,
        scheme=name,
        about=about,
        size=size,
        open=_open_packaged if name in FOLDERS else _open_pinned,
        here=FOLDERS[name].is_dir if name in FOLDERS else partial(_is_here, name),
    )
    for name, (about, size) in _DESCRIPTIONS.items()
}
