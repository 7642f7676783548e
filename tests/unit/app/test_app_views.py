"""What the page shows at every stage, and that names are text wherever they come from."""

import re

import numpy as np
import pytest
from PIL import Image

from helpers import until
from lpplusplus.app import jobs
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.app.state import TABS, AppState, ViewState
from lpplusplus.app.views import render

EVIL = "<img src=x onerror=alert(1)>&\"'"


def paint(path, colour, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).normal(0, 20, (40, 40, 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """Two classes with names that nobody would type, found on disk."""
    root = tmp_path_factory.mktemp("views") / "project"
    for k, name in enumerate((EVIL.replace("/", ""), "b & b")):
        for i in range(4):
            paint(root / name / f"{i} {EVIL[:10]}.png", (200 * k, 30, 200 - 200 * k), 10 * k + i)
    paint(root / "unsorted" / f"u {EVIL[:10]}.png", (200, 30, 0), 99)
    paint(root / "b & b" / "odd.png", (0, 30, 200), 77)
    with Project(root) as project, Learner(project) as learner:
        learner.look()
        assert learner.wait(600)
        made = AppState(project, learner)
        yield made
        made.close()


@pytest.mark.parametrize("tab", TABS)
def test_names_are_text(state, tab):
    now = state.learner.snapshot
    view = ViewState(
        tab, photo=now.listing.unsorted[0].path, cell=(now.labels[0], now.labels[0]), renaming=now.labels[0]
    )
    shown = "".join(render(part, state, now, view) for part in (tab, "status", "dialog"))
    assert "&lt;img src=x" in shown
    assert "<img src=x" not in shown
    for value in re.findall(r'"([^"]*)"', shown):
        assert "<" not in value


def test_every_part_has_something_to_show(state):
    now = state.learner.snapshot
    shown = {tab: render(tab, state, now, ViewState(tab)) for tab in TABS}
    assert shown["classes"].count('class="photo"') == 10
    assert "odd.png" in shown["review"]
    assert 'data-keys="suggest"' in shown["suggest"]
    assert shown["understand"].count("<circle") == 10
    assert "lpp train" in shown["export"]


def test_an_empty_project_says_what_to_do(tmp_path):
    with Project(tmp_path / "new") as project:
        state = AppState(project, Learner(project))
        for part in (*TABS, "tabs", "status"):
            assert re.sub("<[^>]*>", "", render(part, state, state.learner.snapshot, ViewState(part))).strip()


@pytest.mark.parametrize(
    "address", ["", "tab=nothing", "tab=review&at=../../x", "%ff%00&&==", "truth=a", "x" * 10_000, "tab=try&tried=zz"]
)
def test_any_address_is_a_view(state, address):
    view = ViewState.read(address)
    assert view.tab in TABS
    for part in (*TABS, "tabs", "status", "dialog"):
        render(part, state, state.learner.snapshot, view)
    assert ViewState.read(view.address()) == view


def test_an_encoder_that_cannot_be_fetched_is_a_problem_and_the_old_one_stays(state, monkeypatch, tmp_path):
    """`lpp encoders pull clip` in a process of its own, with a hub that is not there."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    jobs.switch(state, "clip")
    job = "encoder clip"
    until(lambda: state.jobs[job].over)
    assert "could not be downloaded" in state.jobs[job].problem
    assert state.project.settings["encoder"] == "embedded"
    assert state.jobs[job].total > 500


def test_a_fetch_can_be_cancelled(state, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(jobs, "PULL", ("-c", "import time; time.sleep(600)"))
    jobs.switch(state, "clip-large")
    assert state.busy("encoder clip-large")
    state.cancel("encoder clip-large")
    until(lambda: not state.busy("encoder clip-large"))
    assert state.jobs["encoder clip-large"].over
    assert state.jobs["encoder clip-large"].problem is None
    assert state.project.settings["encoder"] == "embedded"


def test_unsorted_photos_that_cannot_be_read_are_not_waited_for(tmp_path):
    for name in ("a", "b"):
        paint(tmp_path / "new" / name / "0.png", (200, 30, 0), 1 + (name == "b"))
    (tmp_path / "new" / "unsorted").mkdir()
    (tmp_path / "new" / "unsorted" / "broken.jpg").write_bytes(b"no photo")
    with Project(tmp_path / "new") as project, Learner(project) as learner:
        learner.look()
        assert learner.wait(600)
        assert "None of the unsorted photos can be read" in render(
            "suggest", AppState(project, learner), learner.snapshot, ViewState("suggest")
        )
