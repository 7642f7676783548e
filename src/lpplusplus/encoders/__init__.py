"""Image–text encoders, opened by name; one small file each."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from ._packages import missing
from .base import Encoder, EncoderError

__all__ = ["Encoder", "EncoderError", "KnownEncoder", "known_encoders", "open_encoder"]


@dataclass(frozen=True)
class KnownEncoder:
    """A kind of encoder, for people to choose from."""

    scheme: str
    """How its specs look."""
    about: str
    needs: str
    usable: bool
    """Whether all packages it needs are installed."""


def known_encoders() -> list[KnownEncoder]:
    """Every kind of encoder, and whether it can be used here and now; loads none of them.

    Examples
    --------
    >>> [row.scheme for row in known_encoders()]
    ['embedded', 'onnx:FOLDER-OR-HUB-ID', 'open_clip:ARCH/PRETRAINED', 'https://HOST/v1?model=NAME']
    """
    from . import http, onnx, open_clip

    def row(scheme: str, about: str, needs: str, packages: tuple[str, ...]) -> KnownEncoder:
        return KnownEncoder(scheme, about, needs, not missing(packages))

    folder = Path(__file__).parent / "embedded_model"
    packaged = row("embedded", "small demonstration model inside this package, works offline", "images", onnx.PACKAGES)
    return [
        KnownEncoder(packaged.scheme, packaged.about, packaged.needs, packaged.usable and folder.is_dir()),
        row("onnx:FOLDER-OR-HUB-ID", "CLIP exported to ONNX, on the processor", onnx.EXTRA, onnx.PACKAGES),
        row("open_clip:ARCH/PRETRAINED", "any open_clip model, through torch", open_clip.EXTRA, open_clip.PACKAGES),
        row("https://HOST/v1?model=NAME", "an embedding service, OpenAI-style", http.EXTRA, http.PACKAGES),
    ]


def open_encoder(spec: str) -> Encoder:
    """Open an encoder by name.

    Parameters
    ----------
    spec
        "embedded"; "onnx:" and a folder or hub id; "open_clip:ARCH/PRETRAINED"; or the http(s) address of a service.

    Raises
    ------
    EncoderError
        If there is no such encoder, or it cannot be opened here; the message says what to do.
    """
    scheme, colon, rest = spec.partition(":")
    if spec == "embedded":
        from .embedded import EmbeddedEncoder

        return EmbeddedEncoder()
    if scheme in ("onnx", "open_clip") and not rest:
        raise EncoderError(f"encoder {spec!r} does not say which model: see `lpp encoders`.")
    if scheme == "onnx":
        from .onnx import OnnxEncoder

        return OnnxEncoder(rest)
    if scheme == "open_clip":
        from .open_clip import OpenClipEncoder

        return OpenClipEncoder(rest)
    if scheme in ("http", "https") and rest.startswith("//"):
        from .http import HttpEncoder

        return HttpEncoder(spec)
    raise EncoderError(_unknown(spec, scheme if colon else spec))


def _unknown(spec: str, scheme: str) -> str:
    choices = ", ".join(row.scheme for row in known_encoders())
    if Path(spec).expanduser().is_dir():
        hint = f" For this folder write onnx:{spec}."
    else:
        close = difflib.get_close_matches(scheme.lower(), ["embedded", "onnx", "open_clip", "http", "https"], 1)
        hint = f" Did you mean {close[0]}?" if close else ""
    return f"there is no encoder {spec!r}.{hint} Known are: {choices}."
