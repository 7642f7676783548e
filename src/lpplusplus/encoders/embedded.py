"""The small image–text model that comes with the package: for demonstrations and tests, offline."""

from __future__ import annotations

from pathlib import Path

from . import onnx
from .base import EncoderError
from .kinds import EncoderKind

FOLDER = Path(__file__).parent / "embedded_model"


class EmbeddedEncoder(onnx.OnnxEncoder):
    """The package's own demonstration model. It knows drawn shapes only: for photos use a real CLIP."""

    def __init__(self, *, threads: int | None = None) -> None:
        if not FOLDER.is_dir():
            raise EncoderError("the embedded model is missing from this installation: reinstall lpplusplus.")
        super().__init__(str(FOLDER), threads=threads)
        self.spec = "embedded"


KIND = EncoderKind(
    scheme="embedded",
    about="small demonstration model inside this package, works offline",
    needs=onnx.KIND.needs,
    packages=onnx.KIND.packages,
    open=lambda spec, access: EmbeddedEncoder(),
)
