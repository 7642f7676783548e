"""Image–text encoders, opened by name.

To add one, write a module with a subclass of `Encoder` and a `KIND` that describes it, and name it in `MODULES`.
A module with several has `KINDS`, by name.
"""

import difflib
import logging
from importlib import import_module
from pathlib import Path
from typing import cast

from .base import Access, Encoder, EncoderError, EncoderKind, NetworkNeededError

__all__ = [
    "DEFAULT_ENCODER",
    "Encoder",
    "EncoderError",
    "EncoderKind",
    "NetworkNeededError",
    "known_encoders",
    "open_encoder",
]

DEFAULT_ENCODER = "embedded"
"""The encoder if none is named."""
LONGEST_NAME = 1000
"""Characters of an encoder's name: messages repeat it, and a file may hold any."""
MODULES = {
    "embedded": ".named_models",
    "clip": ".named_models",
    "clip-large": ".named_models",
    "drawings": ".named_models",
    "onnx": ".onnx",
    "open_clip": ".open_clip",
    "https": ".http",
    "http": ".http",
}
"""The module of each scheme, imported when it is asked for."""


def known_encoders() -> list[EncoderKind]:
    """Every kind of encoder, and whether it can be used here; loads none of them.

    Examples
    --------
    >>> [kind.scheme for kind in known_encoders()][:5]
    ['embedded', 'clip', 'clip-large', 'drawings', 'onnx:FOLDER-OR-HUB-ID']
    """
    return list({kind.scheme: kind for kind in map(_kind, MODULES)}.values())


def open_encoder(spec: str, *, named_by: str | None = None, allow_network: bool = False) -> Encoder:
    """Open an encoder by name.

    Parameters
    ----------
    spec
        "embedded", "clip", "clip-large" or "drawings"; "onnx:" and a folder or hub id; "open_clip:ARCH/PRETRAINED"; or
        the http(s) address of a service.
    named_by
        The file that the name was read from; None if the user chose the encoder. A file may name an encoder on this
        machine. It cannot make us fetch or send anything, and it never decides who gets the user's key.
    allow_network
        Let an encoder that a file names use the network. Without effect if the user chose it.

    Raises
    ------
    EncoderError
        If there is no such encoder, or it cannot be opened here; the message says what to do.

    Examples
    --------
    >>> open_encoder("drawings").encode_texts(["a red star"]).shape
    (1, 130)
    """
    if len(spec) > LONGEST_NAME:
        raise EncoderError(f"{spec[:40]!r}… has {len(spec):,} characters, more than an encoder's name has.")
    scheme, colon, name = spec.partition(":")
    kind = _kind(scheme) if scheme in MODULES else None
    if kind is None or bool(colon) != (":" in kind.scheme):
        raise EncoderError(_unknown(spec, scheme))
    if colon and not name:
        raise EncoderError(f"encoder {spec!r} does not say which model: write {kind.scheme}.")
    if named_by is None:
        return kind.open(spec, Access.KEY)
    try:
        return kind.open(spec, Access.LOCAL)
    except NetworkNeededError as needed:
        announcement = f"{named_by} names the encoder {spec!r}: {needed}"
        if not allow_network:
            raise EncoderError(
                f"{announcement}. If you want that, add --allow-network (in Python allow_network=True), or name the "
                f"encoder yourself with --encoder."
            ) from None
    logging.getLogger(__name__).warning("%s.", announcement)
    return kind.open(spec, Access.NETWORK)


def _kind(name: str) -> EncoderKind:
    module = import_module(MODULES[name], __name__)
    return cast(EncoderKind, module.KINDS[name] if hasattr(module, "KINDS") else module.KIND)


def _unknown(spec: str, scheme: str) -> str:
    choices = ", ".join(kind.scheme for kind in known_encoders())
    close = difflib.get_close_matches(scheme.lower(), MODULES, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    if Path(spec).expanduser().is_dir():
        hint = f" For this folder write onnx:{spec}."
    return f"there is no encoder {spec!r}.{hint} Known are: {choices}."
