"""As in the folders beside."""

from beside_other_tests import not_behind_other_tests  # noqa: F401
