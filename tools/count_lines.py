"""Lines of code by room: without docstrings, comments and blank lines. `python tools/count_lines.py [FOLDER]`."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """How many lines hold code.

    >>> code_lines('"About."\\n\\nx = 1  # one\\n# two\\ny = (\\n    2\\n)\\n')
    4
    """
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):  # A string that is a statement of its own is a docstring.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main(folder: Path) -> None:
    """Print a row for each room, and the sum."""
    lines, files = Counter[str](), Counter[str]()
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).parts[0] if path.parent != folder else "."
        lines[room] += code_lines(path.read_text(encoding="utf-8"))
        files[room] += 1
    for room in sorted(lines, key=lambda name: -lines[name]):
        print(f"{room:12}{lines[room]:8}{files[room]:6}")
    print(f"{'sum':12}{lines.total():8}{files.total():6}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/lpplusplus"))
