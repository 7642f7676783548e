"""Two small programs that go with an exported classifier, written beside it; and how to tell our files from others."""

import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ..._core.files import atomic_write, seal, sealed

ABOUT, TITLE = "/*about*/null", "<!--title-->"
"""Placeholders in the page, for its data and its title."""
EARLIER = frozenset(
    {
        "d0dcebd40203083cd00d2c0fb09b447f914a100b981a335e5da3ddda568add5c",
        "a3da26e954a8f688ef8c38548d843067a9a3429600b040c313f1b274918c9cd1",
    }
)
"""SHA-256 of the programs that were written before they were sealed, with placeholders."""
LARGEST = 2**20
"""Bytes of a program that are read."""
_ONNX = re.compile(rb"\x08[\x01-\x7f]\x12\x0alpplusplus\x1a", re.DOTALL)
"""How an exported model begins: its IR version and its producer's name."""


def is_export(path: Path) -> bool:
    """Whether a file was written by `lpp export`, and a program is still as it was written: nothing is lost with it."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if path.suffix.lower() == ".onnx":
            return _ONNX.match(file.read(64)) is not None
        content = file.read(LARGEST)
    return sealed(content, "export") or _template_digest(content) in EARLIER


def _template_digest(content: bytes) -> str:
    """Digest of a program with the placeholders in their places, as the template has them."""
    content = re.sub(rb"\A(\"\"\".* `python )[^\n]*( photo\.jpg)", rb"\1THIS_FILE\2", content)
    content = re.sub(rb"(?m)^(<title>|<h1>)[^\n]*(</title>|</h1>)$", rb"\1" + TITLE.encode() + rb"\2", content)
    content = re.sub(rb"(?m)^const about = [^\n]*;$", b"const about = " + ABOUT.encode() + b";", content)
    return hashlib.sha256(content).hexdigest()


def program_paths(model: Path) -> tuple[Path, Path]:
    """Paths of the programs of `birds.onnx`: `birds.py`, and `birds.onnx.html`, since a report may be `birds.html`."""
    return model.with_suffix(".py"), model.with_name(f"{model.name}.html")


def programs(model: Path, classes: Sequence[str]) -> dict[Path, bytes]:
    """Programs for the exported `model`, by their paths beside it: a Python program and a page."""
    here = files(__package__)
    page = (here / "photo.html").read_text(encoding="utf-8")
    about = json.dumps({"model": model.name, "classes": [*classes]})
    # Only "</" and "<!" could end a script element, and JSON has "<" inside strings only.
    page = page.replace(ABOUT, about.replace("<", "\\u003c")).replace(TITLE, html.escape(model.stem))
    program = (here / "photo.py").read_text(encoding="utf-8").replace("THIS_FILE", model.with_suffix(".py").name)
    made = seal(program, "export", "# {}").encode(), seal(page, "export").encode()
    return dict(zip(program_paths(model), made, strict=True))


def write_programs(model: Path, classes: Sequence[str]) -> list[Path]:
    """Write the programs, each atomically."""
    made = programs(model, classes)
    for path, content in made.items():
        with atomic_write(path) as file:
            file.write(content)
    return [*made]
