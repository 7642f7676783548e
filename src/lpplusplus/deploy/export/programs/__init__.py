"""Two small programs that go with an exported classifier, written beside it."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ...._core.files import atomic_write

ABOUT, TITLE = "/*about*/null", "<!--title-->"
"""Placeholders in the page, for its data and its title."""


def programs(model: Path, classes: Sequence[str]) -> dict[Path, bytes]:
    """Programs for the exported `model`, by their paths beside it: a Python program and a page."""
    here = files(__package__)
    page = (here / "photo.html").read_text(encoding="utf-8")
    about = json.dumps({"model": model.name, "classes": [*classes]})
    # Only "</" and "<!" could end a script element, and JSON has "<" inside strings only.
    page = page.replace(ABOUT, about.replace("<", "\\u003c")).replace(TITLE, html.escape(model.stem))
    program = (here / "photo.py").read_text(encoding="utf-8").replace("THIS_FILE", model.with_suffix(".py").name)
    return {model.with_suffix(".py"): program.encode(), model.with_suffix(".html"): page.encode()}


def write_programs(model: Path, classes: Sequence[str]) -> list[Path]:
    """Write the programs, each atomically."""
    made = programs(model, classes)
    for path, content in made.items():
        with atomic_write(path) as file:
            file.write(content)
    return [*made]
