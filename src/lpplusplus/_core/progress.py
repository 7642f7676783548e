"""How a long function reports its progress."""

from collections.abc import Callable

Progress = Callable[[int, int], object]
"""Called as `progress(done, total)`."""
