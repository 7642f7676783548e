"""The pages of docs/: tutorials and how-to guides run from top to bottom, and links lead somewhere.

Blocks with `>>>` are doctests, which pytest collects by itself. Of the others a page's blocks are run in order, in an
empty folder: `title="file"` writes the file, `python` is executed, and in `sh` the lines that call `lpp`, `python` or
`curl`. A line that ends in " &" starts a service, which is stopped after the page; its port 8000 is any free one.
"""

import re
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from commands import lpp
from lpplusplus import encoders
from serving import in_background

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WALKS = [page for page in PAGES if page.parent.name in ("tutorials", "how-to") and page.name != "benchmark.md"]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def title(page):
    return page.relative_to(DOCS).with_suffix("").as_posix()


def run(line, folder, services):
    words = shlex.split(line, comments=True)
    if words[:1] == ["lpp"] and words[-1] == "&":
        services.enter_context(in_background(*words[1:-1], cwd=folder))
    elif words[:1] == ["lpp"]:
        lpp(*words[1:], cwd=folder)
    elif words[:1] == ["python"]:
        subprocess.run([sys.executable, *words[1:]], cwd=folder, check=True, capture_output=True)
    elif words[:1] == ["curl"] and shutil.which("curl"):
        subprocess.run(["curl", "--silent", *words[1:]], cwd=folder, check=True, capture_output=True)


def needs(page):
    torch = "import torch" in page.read_text(encoding="utf-8")
    return pytest.param(page, id=title(page), marks=pytest.mark.with_torch if torch else ())


@pytest.mark.parametrize("page", [needs(page) for page in WALKS])
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(encoders, "MODULES", dict(encoders.MODULES))  # A page adds one.
    before, names = set(sys.modules), {"__name__": "page"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with ExitStack() as services:
        for language, title, text in BLOCK.findall(page.read_text(encoding="utf-8").replace("8000", port)):
            if title:
                Path(tmp_path, title).write_text(text, encoding="utf-8")
            elif language == "python" and ">>>" not in text:
                exec(compile(text, str(page), "exec"), names)
            elif language == "sh":
                for line in text.splitlines():
                    run(line, tmp_path, services)
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and tmp_path in Path(sys.modules[module].__file__).parents:
            del sys.modules[module]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_menu():
    menu = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(menu) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_nothing_names_a_place_outside_of_the_repository():
    """Real features come from $LPP_DATA. One helper of the tests has a default for it."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *DOCS.rglob("*.toml")]
    files += [
        path
        for folder in ("benchmarks", "examples", "src", "studies", "tools")
        for path in (ROOT / folder).rglob("*.py")
    ]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert [name for name, text in texts.items() if "../shared" in text or '"shared" /' in text] == []
