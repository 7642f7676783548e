"""The small image–text model that comes with the package: for demonstrations and tests, offline."""

from __future__ import annotations

from pathlib import Path

from .base import EncoderError
from .onnx import OnnxEncoder

FOLDER = Path(__file__).parent / "embedded_model"


class EmbeddedEncoder(OnnxEncoder):
    """The package's own demonstration model; for photographs use a real CLIP."""

    def __init__(self, *, threads: int | None = None) -> None:
        if not FOLDER.is_dir():
            raise EncoderError("the embedded model is missing from this installation: reinstall lpplusplus.")
        super().__init__(str(FOLDER), threads=threads)
        self.spec = "embedded"
