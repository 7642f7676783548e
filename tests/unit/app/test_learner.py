"""The thread behind the page, with the real encoder: it follows the folder, measures and suggests; the newest wins."""

from threading import Event

import numpy as np
import pytest
from PIL import Image

from helpers import until
from lpplusplus.app.learner import Learner
from lpplusplus.app.project import Project
from lpplusplus.app.snapshot import answer, sure_of
from lpplusplus.images import ImageClassifier
from lpplusplus.images.store import FeatureStore

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200), "green": (30, 160, 30)}
PATIENCE = 600


def picture(colour, seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 25, (48, 48, 3))
    return Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8))


def fill(root, per_class=4, unsorted=3):
    for k, colour in enumerate(COLOURS):
        for i in range(per_class):
            path = root / f"{colour} square" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(colour, 100 * k + i).save(path)
        for i in range(unsorted):
            path = root / "unsorted" / f"{colour}{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(colour, 1000 + 100 * k + i).save(path)
    return root


@pytest.fixture
def project(tmp_path):
    with Project(tmp_path / "squares") as opened:
        yield opened


def ask(learner, photo):
    path = learner.project.incoming()
    photo.save(path, "PNG")
    return answer(learner.snapshot, learner.embed_file(path))


def settled(learner):
    learner.look()
    assert learner.wait(PATIENCE), learner.snapshot
    return learner.snapshot


def test_from_names_to_photos_to_measures(project):
    with Learner(project) as learner:
        assert settled(learner).model is None
        for colour in COLOURS:
            project.add_class(f"{colour} square")
        now = settled(learner)
        assert now.classifier is None
        assert now.labels == ("blue square", "green square", "red square")
        reply = ask(learner, picture("red", 1))
        assert "none_of_these" not in reply
        assert sum(one["probability"] for one in reply["top"]) == pytest.approx(1)
        fill(project.root)
        now = settled(learner)
        assert now.learned == 12
        assert now.insight.accuracy == 1
        assert now.measured is now.classifier
        assert [one.times for one in now.check.expected] == [1, 2, 4]
        assert now.curve[0][-1] == 3
        assert {one.path for one in now.suggested} == {f"unsorted/{c}{i}.png" for c in COLOURS for i in range(3)}
        assert all(one.guess.split()[0] in one.path for one in now.suggested)
        assert now.sure
        assert all(label.split()[0] in path for path, label in now.sure.items())
        assert now.sure == sure_of(now, learner.embeddings(now.listing.unsorted))
        reply = ask(learner, picture("blue", 5))
        assert reply["top"][0]["label"] == "blue square"
        assert reply["nearest"][0].startswith("blue square/")
        assert reply["none_of_these"] is False
        assert now.phase == "idle"
        assert now.problem is None


def test_the_classifier_is_the_one_that_the_command_trains(project, tmp_path):
    fill(project.root)
    with Learner(project) as learner:
        now = settled(learner)
    ours, theirs = ImageClassifier.load(project.classifier), ImageClassifier().fit(project.root)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert ours.names_ == theirs.names_
    new = [picture(colour, 77) for colour in COLOURS]
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-4)
    (home,) = (project.hidden / "features").iterdir()
    again = ImageClassifier().fit(home / "labelled")
    np.testing.assert_allclose(again.predict_proba(new), theirs.predict_proba(new), atol=1e-4)
    assert len(FeatureStore(home / "unsorted")) == 9
    assert [one.path for one in ours.suggest(home / "unsorted", 3)] == [one.path for one in now.suggested[:3]]
    assert ours.check().expected == now.check.expected


def test_moves_need_no_embedding_and_nothing_does_after_a_restart(project, monkeypatch):
    fill(project.root)
    with Learner(project) as learner:
        settled(learner)
        monkeypatch.setattr("lpplusplus.app.rows.embed", None)  # Would be called for any photo that is not known.
        project.move(["unsorted/red0.png"], "red square")
        project.rename("blue square", "azure square")
        now = settled(learner)
        assert now.learned == 13
        assert now.problem is None
        project.undo()
        project.undo()
        assert settled(learner).learned == 12
    project.close()
    with Project(project.root) as again, Learner(again) as learner:
        now = settled(learner)
        assert now.learned == 12
        assert now.problem is None


def test_changes_on_disk_are_noticed_without_being_told(project):
    fill(project.root, unsorted=0)
    with Learner(project) as learner:
        settled(learner)
        picture("red", 9).save(project.root / "red square" / "by hand.png")
        until(lambda: learner.snapshot.learned == 13)


def test_the_newest_state_wins(project):
    """Many changes while it works: in the end the classifier is that of the last one."""
    fill(project.root, unsorted=0)
    with Learner(project) as learner:
        learning = Event()
        learner.on_news = lambda: learner.snapshot.phase == "learning" and learning.set()
        for _ in range(6):
            project.move(["red square/0.png"], "blue square")
            learning.clear()
            learner.look()
            assert learning.wait(PATIENCE)
            project.undo()
            learner.look()
        project.move(["red square/0.png"], "blue square")
        now = settled(learner)
        assert "blue square/0-2.png" in now.classifier.support_.paths
        assert now.listing == project.listing()
        assert now.measured is now.classifier


def test_a_photo_that_is_moved_before_it_is_read_is_learned(project):
    fill(project.root, unsorted=0)
    moved = Event()

    def move():
        if learner.snapshot.phase == "embedding" and not moved.is_set():
            project.move(["red square/0.png"], "blue square")
            moved.set()

    learner = Learner(project)
    learner.on_news = move
    with learner:
        assert moved.wait(PATIENCE)
        now = settled(learner)
        assert not now.unreadable
        assert now.learned == 12
        assert "blue square/0-2.png" in now.classifier.support_.paths


def test_bad_photos_are_named_and_the_rest_is_learned(project):
    fill(project.root, unsorted=0)
    (project.root / "red square" / "bad.jpg").write_bytes(b"no photo")
    with Learner(project) as learner:
        now = settled(learner)
        assert now.learned == 12
        assert list(now.unreadable) == ["red square/bad.jpg"]
        picture("red", 4).save(project.root / "red square" / "bad.jpg")
        now = settled(learner)
        assert now.learned == 13
        assert not now.unreadable


def test_a_class_without_photos_is_known_by_its_name(project):
    fill(project.root, unsorted=0)
    project.add_class("yellow square")
    with Learner(project) as learner:
        now = settled(learner)
        assert now.labels[-1] == "yellow square"
        assert len(ask(learner, picture("red", 3))["top"]) == 4


def test_cancel_stops_and_a_change_goes_on(project):
    fill(project.root, per_class=40, unsorted=0)
    with Learner(project) as learner:
        until(lambda: learner.snapshot.phase == "embedding")
        learner.cancel()
        assert learner.wait(PATIENCE)
        assert learner.snapshot.phase == "idle"
        assert learner.snapshot.learned == 0
        assert learner.paused
        project.add_class("other")
        now = settled(learner)
        assert now.learned == 120
        assert not learner.paused


def test_another_encoder_embeds_again_and_back_is_there_at_once(project, monkeypatch):
    fill(project.root, unsorted=0)
    with Learner(project) as learner:
        first = settled(learner)
        learner.use("drawings")
        assert learner.wait(PATIENCE)
        now = learner.snapshot
        assert now.encoder == "drawings"
        assert now.classifier.origin_.dim != first.classifier.origin_.dim
        monkeypatch.setattr("lpplusplus.app.rows.embed", None)
        learner.use("embedded")
        assert learner.wait(PATIENCE)
        assert learner.snapshot.problem is None
        assert learner.snapshot.learned == 12


def test_a_folder_that_names_a_service_sends_nothing(project):
    """Settings may come from somebody else: an encoder of theirs that needs the network is refused."""
    fill(project.root, unsorted=0)
    project.keep(encoder="http://127.0.0.1:9/embed")
    with Learner(project) as learner:
        now = settled(learner)
    assert now.model is None
    assert "network" in now.problem


def test_names_that_cannot_be_told_apart_are_a_problem_not_an_end(project):
    fill(project.root, unsorted=0)
    (project.root / "red_square").mkdir()
    with Learner(project) as learner:
        assert "both called" in settled(learner).problem
        (project.root / "red_square").rmdir()
        assert settled(learner).problem is None


def test_an_unsorted_copy_of_a_labelled_photo_comes_last_and_does_come(project):
    fill(project.root, per_class=2, unsorted=1)
    copy = project.root / "unsorted" / "a copy.png"
    copy.write_bytes((project.root / "red square" / "0.png").read_bytes())
    with Learner(project) as learner:
        last = settled(learner).suggested[-1]
        assert len(learner.snapshot.suggested) == 4
        assert (last.path, last.guess) == ("unsorted/a copy.png", "red square")
        assert last.reason == "the same photo is in red square already"


def test_the_rows_of_the_classifier_are_kept_once_and_nothing_else_of_an_old_one(project):
    fill(project.root, per_class=3, unsorted=0)
    with Learner(project) as learner:
        first = settled(learner).classifier.support_.X
        rows = learner._rows._rows
        assert all(np.shares_memory(row, first) for row in rows.values())
        project.move(["red square/0.png"], "unsorted")
        second = settled(learner).classifier.support_.X
        assert len(second) == 8
        assert sum(np.shares_memory(row, second) for row in rows.values()) == 8
        assert not any(np.shares_memory(row, first) for row in rows.values())
        project.undo()
        np.testing.assert_array_equal(settled(learner).classifier.support_.X, first)
