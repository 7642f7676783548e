"""Data sets of the benchmark: the paper's eleven, ImageNet's four shifts, folders per class, published features."""

from .catalog import Entry, catalog, find
from .splits import DatasetError, ImageSplits, OverlapError, Part, Splits

__all__ = ["DatasetError", "Entry", "ImageSplits", "OverlapError", "Part", "Splits", "catalog", "find"]
