"""From image files to the arrays that an image encoder wants: decoding and preprocessing. Knows nothing of models."""

RAW_SUFFIXES = frozenset((
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".iiq", ".kdc", ".mrw", ".nef", ".nrw", ".orf", ".pef",
    ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"))  # fmt: skip
"""Endings of RAW photos. Many are TIFF files inside, with a thumbnail that would be taken for the photo."""
RAW_ADVICE = "Export them as JPEG first, with the camera's program, darktable or RawTherapee."
