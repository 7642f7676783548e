"""The architecture page, kept true: rooms import downwards only, and no module imports itself by a detour."""

import ast
import re
import sys
from graphlib import TopologicalSorter
from importlib.metadata import requires
from pathlib import Path

import pytest

from imports import NAMES, SOURCE, imported, room

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "_core": [],
    "probe": ["_core"],
    "encoders": ["_core"],
    "methods": ["probe", "encoders"],
    "images": ["methods"],
    "bench": ["images"],
    "deploy": ["images"],
    "app": ["deploy"],
    "cluster": ["bench"],
    "cli": ["images", "bench", "deploy", "app", "cluster"],
    "__main__": ["cli"],
    "solvers": ["probe"],
}
"""Each room may import from itself, the rooms named here, and what these may import. A new room is one line."""


def reachable(name):
    return {name}.union(*map(reachable, ROOMS[name]))


def test_rooms_import_downwards_only():
    assert {room(module) for module in NAMES if module} == set(ROOMS)
    for module in filter(None, NAMES):
        for target in imported(module):
            # The package itself has a version and nothing else that a room may use.
            assert target == "" or room(target) in reachable(room(module)), f"{module} imports {target}"


def test_no_module_imports_itself_by_a_detour():
    TopologicalSorter({module: set(imported(module)) - {module} for module in NAMES}).prepare()  # Raises CycleError.


def test_arrays_need_no_more_than_is_always_installed():
    """What files of the rooms for arrays import when they are imported themselves; extras are for the others."""
    others = {"scikit-learn": "sklearn"}
    named = (re.split(r"[^\w-]", line)[0] for line in requires("lpplusplus") if "extra ==" not in line)
    installed = {others.get(name, name.replace("-", "_")) for name in named}
    for module, file in NAMES.items():
        if room(module) not in ("_core", "probe", "methods"):
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            needed = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
            assert needed <= installed, f"{module} imports {needed - installed}"


def test_the_page_is_a_map_of_what_is_there():
    """Every room is in the drawing, and every file that the page names exists."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rooms = [f"{name}/" for name in ROOMS if (SOURCE / name).is_dir()]
    assert all(room in page.partition("```text")[2].partition("```")[0] for room in rooms)
    paths = {path for path in re.findall(r"`([\w./]+/[\w.]*)`", page) if path.startswith(tuple(rooms))}
    assert len(paths) > 40
    assert sorted(path for path in paths if not (SOURCE / path).exists()) == []


def paper_table():
    """Rows of docs/explanation/architecture.md's table: the paper's name, the file, the test."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The paper in the code")[2].partition("\n## ")[0]
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in section.splitlines() if "|" in line]
    return [(name, file, test) for name, _, file, test in rows[2:]]


@pytest.mark.parametrize(("name", "file", "test"), paper_table())
def test_the_paper_is_where_the_page_says(name, file, test):
    """The file's text and the test's docstring both name the equation."""
    assert name.lower() in (SOURCE / file).read_text(encoding="utf-8").lower()
    path, _, function = test.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert name.lower() in ast.get_docstring(found).lower()


def test_the_page_has_all_that_a_reader_of_the_paper_looks_for():
    names = {name for name, _, _ in paper_table()}
    assert names >= {"Eq. 3", "Eq. 4", "Eq. 12", "Prop. 1", "Prop. 2", "Lemma 2.1", "Theorem 2.2", "Algorithm 1"}
