"""What can be wrong with images and labels, and with a feature store; and how messages show what was found."""

import reprlib

from .._core.errors import BriefError

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100
shown = _short.repr
"""A value as a message shows it: Python's `repr`, cut to about a line. Never more of the input than that."""


class SourceError(BriefError, ValueError):
    """Images or labels cannot be found, or do not fit together; the message says where and what to do."""


class StoreError(BriefError, ValueError):
    """A folder is not a feature store, is damaged, incomplete, in use or of a newer format; the message says which."""


class DamagedShardError(StoreError):
    """A shard is not as it was written. Embedding again rebuilds it."""


class ForeignStoreError(StoreError):
    """A store that a newer version made: never written over."""
