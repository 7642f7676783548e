"""A real browser, for tests that look at pages; they are skipped where there is none."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@contextlib.contextmanager
def chromium(*flags):
    """Chromium, through Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    file = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if file is None:
        pytest.skip("there is no Chromium here")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=file, args=[*FLAGS, *flags])
        yield browser
        browser.close()


def web_files(variable, package, *names):
    """Files of an npm package, in the folder that the variable names, or below node_modules."""
    folder = Path(os.environ.get(variable, f"node_modules/{package}"))
    files = [folder / name for name in names]
    if not all(file.is_file() for file in files):
        pytest.skip(f"{package} is not here: npm install {package.partition('/')[0]}, and set {variable} to {package}")
    return files
