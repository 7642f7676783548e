"""Packages that only some encoders need."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from .base import EncoderError


def missing(packages: Sequence[str]) -> list[str]:
    """Those that are not installed; nothing is imported."""
    return [name for name in packages if find_spec(name) is None]


def require(what: str, packages: Sequence[str], extra: str) -> None:
    """Refuse, naming the extra to install, unless all packages are there."""
    absent = missing(packages)
    if absent:
        raise EncoderError(f'{what} needs {", ".join(absent)}: pip install "lpplusplus[{extra}]"')
