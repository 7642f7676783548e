"""The package as it is installed: light to import, typed, and honest about its version."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lpplusplus

ROOT = Path(__file__).resolve().parents[1]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_loads_neither_torch_nor_pillow():
    heavy = ["torch", "PIL", "matplotlib", "onnxruntime"]
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


def test_fitting_numpy_arrays_does_not_load_torch():
    code = (
        "import sys, numpy as np, lpplusplus\n"
        "F = np.random.default_rng(0).standard_normal((12, 5))\n"
        "lpplusplus.LPPlusPlus().fit(F, np.arange(12) % 3, text=F[:3]).predict(F)\n"
        "print('torch' in sys.modules)"
    )
    assert run(code).strip() == "False"


def test_version():
    assert version("lpplusplus") == lpplusplus.__version__
    assert f"## {lpplusplus.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_marked_as_typed():
    assert (Path(lpplusplus.__file__).parent / "py.typed").exists()
