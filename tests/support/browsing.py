"""A real `lpp app` in a process of its own, and a real browser; tests are skipped where there is none."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)  # fmt: skip


def need_browser():
    """Skip, saying why, where no browser can be driven."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")


def web_files(variable, package, *names):
    """Files of an npm package, in the folder that the variable names, or below node_modules."""
    folder = Path(os.environ.get(variable, f"node_modules/{package}"))
    files = [folder / name for name in names]
    if not all(file.is_file() for file in files):
        pytest.skip(f"{package} is not here: npm install {package.partition('/')[0]}, and set {variable} to {package}")
    return files


@contextmanager
def running(folder, *options, **environment):
    """`lpp app` on a folder; gives the address with its token, and the process."""
    pytest.importorskip("websockets", reason="needs the extra app")
    with served("app", folder, "--no-open", *options, **environment) as service:
        yield service.address, service.process


@contextmanager
def browser():
    """Chromium."""
    need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=list(ARGUMENTS))
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def page(chromium, address, **options):
    """A tab in a browser profile of its own; every message of its console and every request is noted."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
    tab = context.new_page()
    tab.requested, tab.said = [], []
    tab.on("request", lambda request: tab.requested.append(request.url))
    tab.on("console", lambda message: tab.said.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.set_default_timeout(180_000)
    tab.goto(address)
    try:
        yield tab
    finally:
        context.close()
