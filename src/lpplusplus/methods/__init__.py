"""The feature-level methods that the LP++ paper compares with; one file each, all with the contract of `LPPlusPlus`."""

from .clip_adapter import ClipAdapter
from .linear_probe import LinearProbe
from .tip_adapter import TipAdapter, TipAdapterF, TipAdapterFStar
from .zero_shot import ZeroShot

__all__ = ["ClipAdapter", "LinearProbe", "TipAdapter", "TipAdapterF", "TipAdapterFStar", "ZeroShot"]
