"""Which module of the package imports which, by its files: for the architecture test and the picture of the house."""

import ast
from pathlib import Path

import lpplusplus

SOURCE = Path(lpplusplus.__file__).parent


def modules():
    """Every module of the package by its dotted name, with its file."""
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


NAMES = dict(modules())


def only_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def imported(module):
    """Modules of the package that `module` imports anywhere, in functions too; not those for type checkers only."""
    file = NAMES[module]
    package = file.relative_to(SOURCE).parent.parts
    waiting = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if not only_for_types(node):
            waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("lpplusplus") for alias in node.names), f"{module}: import relatively"
        if isinstance(node, ast.ImportFrom) and node.level:
            home = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{home}.{alias.name}".lstrip(".")
                yield inner if inner in NAMES else home


def room(module):
    return module.partition(".")[0]
