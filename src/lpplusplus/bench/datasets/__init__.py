"""Data sets of the benchmark: the paper's eleven, ImageNet's four shifts, folders per class, published features."""

from .catalog import DataSet, catalog, find, parse_entry, with_parents
from .features import AVERAGE, FeaturePart, FeatureSet, read_feature_file
from .readers import READERS
from .splits import PARTS, DataSetError, OverlapError, Part, Splits, check_disjoint, check_rows, shared_part
from .status import Status

__all__ = [
    "AVERAGE",
    "PARTS",
    "READERS",
    "DataSet",
    "DataSetError",
    "FeaturePart",
    "FeatureSet",
    "OverlapError",
    "Part",
    "Splits",
    "Status",
    "catalog",
    "check_disjoint",
    "check_rows",
    "find",
    "parse_entry",
    "read_feature_file",
    "shared_part",
    "with_parents",
]
