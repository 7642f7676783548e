"""What can be wrong with a cluster."""

from .._core.text import BriefError


class ClusterError(BriefError, ValueError):
    """A cluster cannot be reached, or cannot do what is asked of it; the message says what to do."""
