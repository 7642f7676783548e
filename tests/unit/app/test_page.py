"""One tab of the page, over its websocket: what it is sent, when, and how much of it."""

import json
import logging
import time

import pytest

pytest.importorskip("websockets", reason="needs the extra app")
from starlette.testclient import TestClient

from lpplusplus.app import project as projects
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.app.serve import make_app
from lpplusplus.app.state import AppState
from toy_images import encoded, make_folder, toy_image


@pytest.fixture
def state(tmp_path):
    """A learner without threads: nothing changes by itself."""
    root = make_folder(tmp_path / "birds", {"robin": 2, "wren": 2})
    with Project(root) as project:
        made = AppState(project, Learner(project))
        yield made
        made.close()


class Browser:
    """A tab, as the script of the page sees it."""

    def __init__(self, socket, address=""):
        self.socket, self.shown, self.told = socket, {}, []
        socket.send_json(address)

    def next(self):
        message = self.socket.receive_json()
        self.shown |= message["slots"]
        self.told += message["told"]
        return message

    def ask(self, what, **about):
        self.socket.send_json({"do": what, **about})

    def until(self, condition):
        """The messages until then."""
        found = []
        while not condition():
            found.append(self.next())
        return found


@pytest.fixture
def client(state):
    with TestClient(make_app(state)) as made:
        yield made


def test_progress_of_a_job_draws_nothing_else(client, state):
    """A zip of 10 000 photos drew all of them again at each one."""
    with client.websocket_connect("/tab") as socket:
        browser = Browser(socket, "tab=export")
        browser.until(lambda: "view" in browser.shown)
        go_on = []

        def work(progress):
            for done in range(1, 301):
                progress(done, 300)
                time.sleep(0.002)
            while not go_on:
                time.sleep(0.01)
            return "photos.zip"

        state.start("photos", work)
        seen = browser.until(lambda: "Working: 300 of 300" in browser.shown.get("job-photos", ""))
        assert sum("view" in message["slots"] for message in seen) == 1, "only its start changes the view"
        assert len(json.dumps(seen[-1])) < 1000
        go_on.append(True)
        browser.until(lambda: "Download" in browser.shown["view"])


def test_a_photo_is_pushed_after_one_look_at_the_folder(client, state, monkeypatch):
    """The browser had to ask for it, and the folder was read twice."""
    looks, read = [], projects.read_listing
    with client.websocket_connect("/tab") as socket:
        browser = Browser(socket)
        browser.until(lambda: "view" in browser.shown)
        monkeypatch.setattr(projects, "read_listing", lambda root: (looks.append(root), read(root))[1])
        answer = client.post("/upload/wren", files={"files": ("new.png", encoded(toy_image(9), "PNG"), "image/png")})
        assert answer.json()["added"] == ["wren/new.png"]
        browser.until(lambda: "wren/new.png" in browser.shown["view"])
        assert len(looks) == 1


def test_all_that_it_is_sure_of_is_accepted_by_one_click_and_undone_by_one(client, state):
    """Not what has been sorted meanwhile, nor what is of a class that is gone."""
    root = state.project.root
    for number in range(4):
        toy_image(20 + number).save(root / "unsorted" / f"{number}.png")
    there = state.project.listing()
    state.learner._publish(listing=there, sure={"unsorted/0.png": "robin", "unsorted/1.png": "wren", "gone.png": "wren",
                                                "unsorted/2.png": "owl"})  # fmt: skip
    with client.websocket_connect("/tab") as socket:
        browser = Browser(socket, "tab=suggest")
        browser.until(lambda: "view" in browser.shown)
        browser.ask("accept")
        browser.until(lambda: (root / "robin" / "0.png").exists())
        assert (root / "wren" / "1.png").exists()
        assert sorted(path.name for path in (root / "unsorted").iterdir()) == ["2.png", "3.png"]
        browser.ask("undo")
        browser.until(lambda: any("2 photos sorted" in told for told in browser.told))
        assert len([*(root / "unsorted").iterdir()]) == 4


def test_what_is_refused_is_said_and_a_mistake_is_logged_as_one(client, caplog):
    """A KeyError was shown to people as the name of the key, and logged as information."""
    with client.websocket_connect("/tab") as socket, caplog.at_level(logging.INFO):
        browser = Browser(socket)
        browser.ask("add_class", name="robin")
        browser.until(lambda: browser.told)
        assert browser.told == ["there is a class 'robin' already."]
        assert {record.levelname for record in caplog.records if "lpplusplus" in record.name} <= {"INFO"}
        for wrong in ({"do": "rename"}, {"do": "move", "photo": 5, "to": "wren"}, {"do": "tab", "to": 3, "more": 4}):
            browser.told.clear()
            socket.send_json(wrong)
            browser.until(lambda: browser.told)
            assert "mistake of the program" in browser.told[0]
            assert caplog.records[-1].levelname == "ERROR"
            assert caplog.records[-1].exc_info
        socket.send_json([1])
        socket.send_json({"do": "__init__"})
        browser.ask("tab", to="review")
        browser.until(lambda: 'data-to="review" data-key="review" aria-selected="true"' in browser.shown["tabs"])


def test_the_place_of_a_tab_is_its_own(client):
    with client.websocket_connect("/tab") as one, client.websocket_connect("/tab") as other:
        first, second = Browser(one, "tab=review"), Browser(other, "tab=understand")
        assert first.next()["tab"] == "review"
        assert second.next()["tab"] == "understand"
        first.ask("add_class", name="owl")
        second.ask("tab", to="classes")
        second.until(lambda: "owl" in second.shown["view"])
        assert first.next()["tab"] == "review"


@pytest.mark.parametrize("first", ["[1, 2]", "{}", "null", "no json", '"tab=nothing&at=../../x"'])
def test_any_first_word(client, first):
    with client.websocket_connect("/tab") as socket:
        socket.send_text(first)
    with client.websocket_connect("/tab") as socket:
        assert Browser(socket).next()["slots"].keys() >= {"status", "tabs", "view"}
