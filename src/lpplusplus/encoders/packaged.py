"""The two small models that come with the package and need no network: one of photos, one of drawings."""

from pathlib import Path

from . import onnx
from .base import EncoderError
from .kinds import Access, EncoderKind

FOLDERS = {name: Path(__file__).parent / f"{name}_model" for name in ("embedded", "drawings")}
"""Where each model is."""
DRAWINGS_FINGERPRINT = "onnx-319e5f58640849c5dc9f9c1762a7853922dd08aa033af2fee97120219f97eb6b"
"""Fingerprint of the model that older files call "embedded"."""


class PackagedEncoder(onnx.OnnxEncoder):
    """A model of the package: "embedded" or "drawings"."""

    def __init__(self, name: str, *, threads: int | None = None) -> None:
        if not FOLDERS[name].is_dir():
            raise EncoderError(f"the model {name} is missing from this installation: reinstall lpplusplus.")
        super().__init__(str(FOLDERS[name]), threads=threads)
        self.spec = name


def current_name(spec: str, fingerprint: str) -> str:
    """Today's name of the encoder that a file calls `spec`. At first, "embedded" was the model of drawings.

    Examples
    --------
    >>> current_name("embedded", DRAWINGS_FINGERPRINT)
    'drawings'
    """
    return "drawings" if (spec, fingerprint) == ("embedded", DRAWINGS_FINGERPRINT) else spec


def _kind(name: str, about: str, size: int) -> EncoderKind:
    def open_packaged(spec: str, access: Access) -> PackagedEncoder:
        return PackagedEncoder(name)

    return EncoderKind(
        scheme=name,
        about=about,
        needs=onnx.KIND.needs,
        packages=onnx.KIND.packages,
        open=open_packaged,
        size=size,
        here=FOLDERS[name].is_dir,
    )


KINDS = {
    "embedded": _kind("embedded", "photos of things and animals, in this package: offline, fast", 12_900_000),
    "drawings": _kind("drawings", "demonstration model of drawn shapes, in this package: for `lpp demo`", 2_800_000),
}
