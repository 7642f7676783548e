"""The switch to CLIP, in a real browser: from a hub on this machine, with progress, cancelled once, learned again.

A small model takes CLIP's place, under a pin of its own: its commit and the SHA-256 of its weights are checked as
CLIP's are.
"""

import json
import sys
import threading

import pytest

from browsing import browser, page, running
from commands import ask
from hub_server import hub
from lpplusplus.encoders import open_encoder
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.onnx_files import file_digest
from toy_images import make_folder

pytest.importorskip("starlette", reason="needs the extra app")
HUB_ID, COMMIT = "someone/small-clip", "0123456789abcdef0123456789abcdef01234567"
PARTS = ("visual", "textual")
WEIGHTS = {f"{part}/model.onnx": file_digest(FOLDERS["drawings"] / part / "model.onnx") for part in PARTS}
PROGRAM = """
import dataclasses
import sys
from lpplusplus.app import jobs
from lpplusplus.cli import main
from lpplusplus.encoders import named_models

named_models.PINNED["clip"], named_models.WEIGHTS["clip"] = {source!r}, {weights!r}
named_models.KINDS["clip"] = dataclasses.replace(named_models.KINDS["clip"], size=2_840_000)
jobs.PULL = ("-c", sys.orig_argv[2], "encoders", "pull")
sys.exit(main())
"""


def program(weights):
    return sys.executable, "-c", PROGRAM.format(source=f"{HUB_ID}@{COMMIT}", weights=weights)


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "birds", {"robin": 4, "wren": 4, "unsorted": 2})


def test_fetched_with_progress_cancelled_and_learned_again(folder, tmp_path):
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    go_on = threading.Event()

    def slowly(name):
        if name == "textual/model.onnx":
            go_on.wait(300)

    with (
        hub(HUB_ID, COMMIT, FOLDERS["drawings"], before=slowly) as (endpoint, _, fetched),
        running(folder, program=program(WEIGHTS), HF_ENDPOINT=endpoint, **home) as (address, _),
        browser() as chromium,
        page(chromium, address) as tab,
    ):
        tab.wait_for_selector(".accuracy")
        tab.click("#tab-export")
        card = tab.locator("li[data-key=clip]")
        card.locator("text=Download clip (3 MB) and use it").click()
        card.locator("text=Downloading clip: 2 of 3 MB").wait_for()
        card.locator("text=Cancel").click()
        card.locator("text=Download clip").click()  # Again: the file that has arrived is not fetched twice.
        card.locator("text=/Downloading clip: .* MB/").wait_for()
        tab.click("#tab-try")  # Nobody has to wait for it.
        tab.set_input_files("input[data-upload=try]", next((folder / "robin").iterdir()))
        tab.wait_for_selector(".bars")
        tab.click("#tab-export")
        go_on.set()
        card.locator("text=in use").wait_for()
        tab.wait_for_function("() => !document.querySelector('#status .progress')")
        assert tab.locator("li[data-key=embedded] >> text=Use embedded").count() == 1
        assert tab.said == []
    assert fetched.count("visual/model.onnx") == 1, fetched
    assert ask("inspect", folder / "classifier.lpp")["dim"] == open_encoder("drawings").dim
    about = json.loads((folder / ".lpp" / "settings.json").read_text())
    assert about["encoder"] == "clip"
    # Started again, without a hub: all is here.
    with (
        running(folder, program=program(WEIGHTS), HF_ENDPOINT="http://127.0.0.1:9", **home) as (address, _),
        browser() as chromium,
        page(chromium, address) as tab,
    ):
        tab.wait_for_selector(".accuracy")
        tab.click("#tab-export")
        tab.locator("li[data-key=clip] >> text=in use").wait_for()


def test_other_weights_are_refused_and_the_old_encoder_stays(folder, tmp_path):
    others = WEIGHTS | {"visual/model.onnx": "0" * 64}
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    with (
        hub(HUB_ID, COMMIT, FOLDERS["drawings"]) as (endpoint, _, _),
        running(folder, program=program(others), HF_ENDPOINT=endpoint, **home) as (address, _),
        browser() as chromium,
        page(chromium, address) as tab,
    ):
        tab.wait_for_selector(".accuracy")
        tab.click("#tab-export")
        tab.locator("li[data-key=clip] >> text=Download clip").click()
        tab.locator("li[data-key=clip] .problem >> text=is not the file").wait_for()
        tab.locator("li[data-key=embedded] >> text=in use").wait_for()
