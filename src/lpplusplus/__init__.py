"""LP++: few-shot classification on image–text embeddings with a linear probe that knows the class names.

>>> import lpplusplus
>>> probe = lpplusplus.LPPlusPlus()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import curvature, objective, starts
    from .journal import Journal
    from .many import fit_many
    from .methods import ClipAdapter, LinearProbe, TipAdapter, TipAdapterF, TipAdapterFStar, ZeroShot
    from .persistence import ModelFormatError, load
    from .probe import LPPlusPlus
    from .prompts import PLOT, CoOp, KgCoOp, ProGrad
    from .selection import History

__version__ = "0.1.0"
__all__ = [
    "PLOT",
    "ClipAdapter",
    "CoOp",
    "History",
    "Journal",
    "KgCoOp",
    "LPPlusPlus",
    "LinearProbe",
    "ModelFormatError",
    "ProGrad",
    "TipAdapter",
    "TipAdapterF",
    "TipAdapterFStar",
    "ZeroShot",
    "curvature",
    "fit_many",
    "load",
    "objective",
    "starts",
]

_HOMES = {
    "PLOT": "prompts",
    "ClipAdapter": "methods",
    "CoOp": "prompts",
    "History": "selection",
    "Journal": "journal",
    "KgCoOp": "prompts",
    "LPPlusPlus": "probe",
    "LinearProbe": "methods",
    "ModelFormatError": "persistence",
    "ProGrad": "prompts",
    "TipAdapter": "methods",
    "TipAdapterF": "methods",
    "TipAdapterFStar": "methods",
    "ZeroShot": "methods",
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
