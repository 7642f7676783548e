"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], object]
"""Called as `progress(done, total)`."""
