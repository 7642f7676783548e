"""LP++: few-shot classification on image–text embeddings with a linear probe that knows the class names.

>>> import lpplusplus
>>> probe = lpplusplus.LPPlusPlus()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import curvature, objective, starts
    from .many import fit_many
    from .persistence import ModelFormatError, load
    from .probe import LPPlusPlus
    from .selection import History

__version__ = "0.1.0"
__all__ = [
    "History",
    "LPPlusPlus",
    "ModelFormatError",
    "curvature",
    "fit_many",
    "load",
    "objective",
    "starts",
]

_HOMES = {
    "History": "selection",
    "LPPlusPlus": "probe",
    "ModelFormatError": "persistence",
    "fit_many": "many",
    "load": "persistence",
}


def __getattr__(name: str) -> Any:
    """Load on first use: scikit-learn takes a second to import, and a program's --help should not wait for it."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
