"""Two small programs that go with an exported classifier, written beside it; and how to tell our files from others."""

import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ..._core.files import atomic_write

ABOUT, TITLE = "/*about*/null", "<!--title-->"
"""Placeholders in the page, for its data and its title."""
_MARK = re.compile(rb"(?:# |<!-- )lpplusplus export, sha256 of what follows: ([0-9a-f]{64})(?: -->)?\n")
_ONNX = re.compile(rb"\x08[\x01-\x7f]\x12\x0alpplusplus\x1a", re.DOTALL)
"""How an exported model begins: its IR version and its producer's name."""


def is_export(path: Path) -> bool:
    """Whether a file was written by `lpp export`, and a program is still as it was written: nothing is lost with it."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if path.suffix.lower() == ".onnx":
            return _ONNX.match(file.read(64)) is not None
        mark = _MARK.fullmatch(file.readline(200))
        return mark is not None and hashlib.sha256(file.read()).hexdigest().encode() == mark[1]


def programs(model: Path, classes: Sequence[str]) -> dict[Path, bytes]:
    """Programs for the exported `model`, by their paths beside it: a Python program and a page."""
    here = files(__package__)
    page = (here / "photo.html").read_text(encoding="utf-8")
    about = json.dumps({"model": model.name, "classes": [*classes]})
    # Only "</" and "<!" could end a script element, and JSON has "<" inside strings only.
    page = page.replace(ABOUT, about.replace("<", "\\u003c")).replace(TITLE, html.escape(model.stem))
    program = (here / "photo.py").read_text(encoding="utf-8").replace("THIS_FILE", model.with_suffix(".py").name)
    return {
        model.with_suffix(".py"): _marked(program, "# {}\n"),
        model.with_suffix(".html"): _marked(page, "<!-- {} -->\n"),
    }


def _marked(program: str, comment: str) -> bytes:
    content = program.encode()
    mark = f"lpplusplus export, sha256 of what follows: {hashlib.sha256(content).hexdigest()}"
    return comment.format(mark).encode() + content


def write_programs(model: Path, classes: Sequence[str]) -> list[Path]:
    """Write the programs, each atomically."""
    made = programs(model, classes)
    for path, content in made.items():
        with atomic_write(path) as file:
            file.write(content)
    return [*made]
