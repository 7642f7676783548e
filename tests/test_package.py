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
    with pytest.raises(AttributeError, match="no attribute 'LP'"):
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


def test_layers_import_downwards_only():
    """docs/architecture.md's drawing, kept true: each layer imports only from those below it."""
    layers = [
        {"_arrays", "pixels"},
        {"encoders", "sources"},
        {"_threads", "_parameters", "_spectrum", "_random"},
        {"objective", "starts"},
        {"curvature"},
        {"solvers"},
        {"selection", "cross_validation", "recipes", "_checks", "journal"},
        {"training", "persistence"},
        {"base", "store", "scenes"},
        {"probe", "methods", "prompts", "embedding"},
        {"many"},
        {"gathering"},
        {"insight", "evaluation", "learning_curve"},
        {"images", "plots"},
        {"bench"},
        {"cli"},
    ]
    level = {name: depth for depth, layer in enumerate(layers) for name in layer}
    source = Path(lpplusplus.__file__).parent
    seen = set()
    for file in source.rglob("*.py"):
        module = file.relative_to(source).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        seen.add(module)
        for target in _imports(file, source):
            same_room = target == module or level[target] == level[module]
            assert same_room or level[target] < level[module], f"{file.name} imports {target}"
    assert seen == set(level)


def _imports(file, source):
    """Top-level modules of the package that `file` imports when it is loaded."""
    import ast

    depth = len(file.relative_to(source).parts)
    for node in ast.parse(file.read_text()).body:  # Not those inside functions or under TYPE_CHECKING.
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            if node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names if alias.name != "__version__")
