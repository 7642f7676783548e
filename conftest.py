"""The parts of the suite, told apart by folder; `pytest` alone runs the first, and says what it left out.

Each process runs its tests on one thread; a run of whole parts takes up to four processes, one file at a time each.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # Torch reads it when it is imported.

import pytest
from threadpoolctl import threadpool_limits

PARTS = {  # A file is of the part whose folder it is in; tests elsewhere that ask for `torch` are of the second.
    "unit": ("units in this process: no torch, no other process, no browser", ["tests/unit", "README.md"]),
    "with_torch": ("what takes tensors, trains or is exported with torch", ["tests/with_torch", "tests"]),
    "process": ("commands and services as other processes, files, sockets, signals", ["tests/process"]),
    "browser": ("pages in a real browser", ["tests/browser"]),
    "docs": ("pages, examples and doctests", ["tests/docs", "src", "docs", "benchmarks", "studies"]),
    "reliability": ("mutated files, failing disks, kills, floods", ["tests/reliability"]),
}
NO_TORCH = 'torch is not installed: pip install ".[torch]"'
HAS_TORCH = find_spec("torch") is not None
OF_TOOLS = ["tests/unit/images/test_drawings.py", "tests/process/encoders/test_drawings_model.py",
            "tests/with_torch/methods/test_prompt_learning.py"]  # fmt: skip
"""What an sdist cannot run: it has no program that made the model of drawings."""
HAS_TOOLS = Path(__file__).with_name("tools").joinpath("drawings").exists()
collect_ignore = ["tests/reliability/audit_hook", *([] if HAS_TOOLS else OF_TOOLS)]


def part_of(path, root):
    """The part that a file belongs to: the longest folder decides."""
    places = [(place, name) for name, (_, places) in PARTS.items() for place in places]
    inside = [(place, name) for place, name in places if Path(path).is_relative_to(root / place)]
    return max(inside, default=("", "unit"))[1]


def chosen(config):
    """The parts that this run is about: the first, those that `-m` names, or all."""
    named = [name for name in PARTS if re.search(rf"\b{name}\b", config.option.markexpr)]
    if config.option.all or re.search(r"\b(slow|not)\b", config.option.markexpr):
        return list(PARTS)
    return named or list(PARTS)[:1]


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run all parts of the suite, not only the first")


def pytest_configure(config):
    for name, (meaning, _) in PARTS.items():
        config.addinivalue_line("markers", f"{name}: {meaning} (set by folder)")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args = [str(config.rootpath / place) for name in chosen(config) for place in PARTS[name][1]]


def pytest_xdist_auto_num_workers(config):
    """Processes for `-n auto`, which pyproject.toml sets; `pytest -n 0` runs all tests in one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return min(cores, 4) if whole and cores > 1 else 0


class NeedsTorch(pytest.Directory):
    """The folder of tests that need torch, where there is none."""

    def collect(self):
        pytest.skip(NO_TORCH)


def pytest_collect_directory(path, parent):
    if not HAS_TORCH and path == parent.config.rootpath / "tests/with_torch":
        return NeedsTorch.from_parent(parent, path=path)
    return None


def pytest_ignore_collect(collection_path, config):
    """Without torch, a module that imports it at its top has no doctests to run."""
    if HAS_TORCH or collection_path.suffix != ".py" or part_of(collection_path, config.rootpath) != "docs":
        return None
    return True if re.search(r"^(import|from) torch\b", collection_path.read_text("utf-8"), re.MULTILINE) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Without torch, a doctest that needs it is left out; no other test may need it outside of its folder."""
    report = yield
    if not HAS_TORCH and call.excinfo and isinstance(item, pytest.DoctestItem) and "torch" in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {NO_TORCH}")
    return report


def pytest_collection_modifyitems(config, items):
    parts = chosen(config) if config.args_source is pytest.Config.ArgsSource.TESTPATHS else PARTS
    kept, left = [], []
    for item in items:
        if "torch" in getattr(item, "fixturenames", ()) or item.get_closest_marker("with_torch"):
            part = "with_torch"
            item.add_marker(pytest.mark.skipif(not HAS_TORCH, reason=NO_TORCH))
        else:
            part = part_of(item.path, config.rootpath)
        item.add_marker(part)
        slow = item.get_closest_marker("slow") and not re.search(r"\bslow\b", config.option.markexpr)
        (left if slow or part not in parts else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    result = yield
    config = session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.args_source is not pytest.Config.ArgsSource.ARGS:
        ran = chosen(config)
        left = [name for name in PARTS if name not in ran]
        if "with_torch" in ran and not HAS_TORCH:
            left.insert(0, f"with_torch ({NO_TORCH})")
        left = ", ".join(left) or "nothing"
        terminal.write_line(f"Left out: {left}. All parts: pytest --all (what takes hours: pytest -m slow).")
    return result


@pytest.fixture(scope="session")
def torch():
    """Torch; a test that asks for it is of the part `with_torch`."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def open_clip(torch):
    """open_clip, likewise."""
    return pytest.importorskip("open_clip")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    with threadpool_limits(1, user_api="blas"):
        yield
