"""The package as it is installed: light to import, typed, and honest about its version."""

import re
from functools import reduce
from importlib import import_module
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


def found(name):
    """What a dotted name stands for, however much of it is modules."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[end:], thing)
    raise ModuleNotFoundError(name)


def test_the_reference_shows_what_is_there():
    pages = ROOT.joinpath("docs", "reference", "api").glob("*.md")
    names = [name for page in pages for name in re.findall(r"^::: ([\w.]+)", page.read_text("utf-8"), re.MULTILINE)]
    assert len(names) > 20
    missing = []
    for name in names:
        try:
            found(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    assert missing == []


def test_marked_as_typed():
    assert (Path(lpplusplus.__file__).parent / "py.typed").exists()
