"""The package as it is installed: light to import, typed, and honest about its version."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lpplusplus

ROOT = Path(__file__).resolve().parents[2]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_loads_neither_torch_nor_pillow():
    heavy = ["torch", "PIL", "matplotlib", "onnxruntime", "starlette"]
    for statement in ("import lpplusplus", "from lpplusplus import *"):
        loaded = run(f"import sys\n{statement}\nprint([m for m in {heavy!r} if m in sys.modules])")
        assert loaded.strip() == "[]"
    assert run("import sys, lpplusplus; print('sklearn' in sys.modules)").strip() == "False"


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
