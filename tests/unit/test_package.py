"""The package as it is installed: light to import, typed, and honest about its version."""

from importlib.metadata import version
from pathlib import Path

import pytest

import lpplusplus

ROOT = Path(__file__).resolve().parents[2]


def test_names_are_found_on_first_use():
    for name in lpplusplus.__all__:
        assert getattr(lpplusplus, name) is not None
        assert name in dir(lpplusplus)
    with pytest.raises(AttributeError, match="No lpplusplus attribute LP"):
        lpplusplus.LP  # noqa: B018


def test_version():
    assert version("lpplusplus") == lpplusplus.__version__
    assert f"## {lpplusplus.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_marked_as_typed():
    assert (Path(lpplusplus.__file__).parent / "py.typed").exists()
