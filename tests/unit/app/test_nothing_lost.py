"""What people made stays: links, by-hand changes, full disks, damaged journals, long names, taken places."""

import errno
import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from lpplusplus.app.project import FolderError, Project
from toy_images import encoded, toy_image
from toy_project import photos_of

OLD = Path(__file__).parents[2] / "data" / "page_project.zip"


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    return file.getvalue()


def give(project, to, name, content):
    """As the page does it with an upload."""
    path = project.incoming()
    path.write_bytes(content)
    return project.add(to, [(name, path)])


@pytest.fixture
def root(tmp_path):
    for number, name in enumerate(("cat/0.png", "cat/1.png", "dog/0.png")):
        path = tmp_path / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png((number, 0, 0)))
    return tmp_path / "pets"


def again(root):
    """Start it and end it."""
    with Project(root) as project:
        return sorted(project.listing().where())


def everything(root):
    """Contents of all photos, in the folder and in `.lpp/removed`."""
    return sorted(
        path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and (".lpp" not in path.parts or "removed" in path.parts)
    )


# Links


@pytest.mark.parametrize(
    "link",
    ["features/embedded/labelled", "features/embedded", "features/embedded/labelled/replaced", "exports/report.html",
     "thumbnails/ab/x.jpg", "incoming/x", "files.json", ".lock", "removed/x"],
)  # fmt: skip
def test_a_link_anywhere_in_the_pages_own_files_is_refused(root, tmp_path, link):
    """`features/embedded/labelled -> another store` replaced that store."""
    (tmp_path / "elsewhere").mkdir()
    path = root / ".lpp" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match="link"):
        Project(root)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_that_comes_later_is_not_written_through(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with Project(root) as project:
        for name in ("incoming", "exports", "tried", "thumbnails"):
            shutil.rmtree(project.hidden / name, ignore_errors=True)
            (project.hidden / name).symlink_to(tmp_path / "elsewhere")
            with pytest.raises(FolderError, match="link"):
                project.own(name, "x")
            (project.hidden / name).unlink()
        project.remove(["cat/0.png"])
        shutil.move(project.hidden / "removed", tmp_path / "elsewhere" / "removed")
        (project.hidden / "removed").symlink_to(tmp_path / "elsewhere" / "removed")
        with pytest.raises(FolderError, match="link"):
            project.undo()
        (project.hidden / "journal.jsonl").unlink()
        (project.hidden / "journal.jsonl").symlink_to(tmp_path / "elsewhere" / "journal")
        with pytest.raises(OSError, match="link"):
            project.move(["cat/1.png"], "dog")
    assert not (tmp_path / "elsewhere" / "journal").exists()


def test_a_class_with_a_link_can_be_removed_and_comes_back(root, tmp_path):
    (root / "cat" / "mine").symlink_to(tmp_path)
    with Project(root) as project:
        project.remove_class("cat")
    with Project(root) as project:
        project.undo()
        assert (root / "cat" / "mine").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_does_not_freeze_it(root):
    (root / ".lpp").mkdir()
    os.mkfifo(root / ".lpp" / "settings.json")
    with pytest.raises(FolderError, match="no regular file"):
        Project(root)


# Starting again


def test_a_start_does_not_repeat_the_last_change(root):
    with Project(root) as project:
        (moved,) = project.move(["cat/0.png"], "dog")
    (root / moved).rename(root / "cat" / "0.png")  # By hand.
    assert again(root) == ["cat/0.png", "cat/1.png", "dog/0.png"]
    with Project(root) as project:
        project.rename("cat", "lion")
    (root / "lion").rename(root / "cat")
    assert again(root) == ["cat/0.png", "cat/1.png", "dog/0.png"]
    with Project(root) as project:
        project.undo()
    (root / "cat").rename(root / "lion")
    assert again(root) == ["dog/0.png", "lion/0.png", "lion/1.png"]


@pytest.mark.parametrize("damaged", [False, True])
def test_undone_uploads_wait(root, damaged):
    with Project(root) as project:
        give(project, "cat", "new.png", png("blue"))
        project.undo()
        assert png("blue") in everything(root)
        project.move(["cat/0.png"], "dog")
    if damaged:
        (root / ".lpp" / "journal.jsonl").write_bytes(b"nonsense\n")
    again(root)
    assert everything(root).count(png("blue")) == 1


def test_what_somebody_put_into_a_new_class_waits_when_it_is_undone(root):
    with Project(root) as project:
        project.add_class("owl")
        (root / "owl" / "x.png").write_bytes(png("blue"))
        project.undo()
    assert png("blue") in everything(root)


# A full disk


class Failing:
    """Calls of the operating system that write, of which the n-th fails."""

    NAMES = ("write", "fsync", "rename", "mkdir", "replace", "truncate")

    def __init__(self, patch, at, names=NAMES, for_ever=False):
        self.at, self.count, self.for_ever = at, 0, for_ever
        for name in names:
            patch.setattr(os, name, self.wrapped(getattr(os, name)))

    def wrapped(self, real):
        def call(*arguments, **options):
            self.count += 1
            if self.count == self.at or (self.for_ever and self.count > self.at):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **options)

        return call


def test_settings_that_cannot_be_kept_do_not_change(root, monkeypatch):
    with Project(root) as project:
        with monkeypatch.context() as patch:
            Failing(patch, 1, ["replace"])
            with pytest.raises(OSError, match="space"):
                project.keep(encoder="clip")
        assert project.settings["encoder"] == "embedded"


# Undo, when somebody was there


def test_what_was_removed_comes_back_beside_what_has_its_place(root):
    old = (root / "cat" / "0.png").read_bytes()
    with Project(root) as project:
        project.remove(["cat/0.png"])
        (root / "cat" / "0.png").write_bytes(png("green"))
        change = project.undo()
        assert change.left == 0
        assert (root / "cat" / "0-2.png").read_bytes() == old
        project.redo()
        assert (root / "cat" / "0.png").read_bytes() == png("green")
        assert not (root / "cat" / "0-2.png").exists()
    with Project(root) as project:
        project.undo()
        assert (root / "cat" / "0-2.png").read_bytes() == old


def test_a_class_that_was_removed_comes_back_into_a_new_one_of_its_name(root):
    with Project(root) as project:
        before = everything(root)
        project.remove_class("cat")
        (root / "cat").mkdir()
        (root / "cat" / "1.png").write_bytes(png("green"))
        project.undo()
        assert photos_of(project, "cat") == ["cat/0.png", "cat/1-2.png", "cat/1.png"]
        project.redo()
        assert photos_of(project, "cat") == ["cat/1.png"]
        assert everything(root) == sorted([*before, png("green")])


def test_what_undo_leaves_alone_is_said(root):
    with Project(root) as project:
        project.move(["cat/0.png", "cat/1.png"], "dog")
        (root / "cat" / "1.png").write_bytes(png("green"))
        assert project.undo().left == 1
        assert sorted(project.listing().where()) == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
        assert project.redo().left == 0
        assert sorted(project.listing().where()) == ["cat/1.png", "dog/0-2.png", "dog/0.png", "dog/1.png"]


# Names


def test_names_may_have_many_bytes(root):
    with Project(root) as project:
        names = ["\N{SNOWMAN}" * 100 + ".png", "\N{CAT FACE}" * 200 + ".png", "\N{CAT FACE}" * 200 + ".png"]
        for name in names:
            (added,) = give(project, "cat", name, png("blue"))
            assert 100 < len(os.fsencode(added.rpartition("/")[2])) <= 255
        with pytest.raises(FolderError, match="too long"):
            project.add_class("\N{CAT FACE}" * 100)
        with pytest.raises(FolderError, match="too long"):
            project.rename("dog", "\N{SNOWMAN}" * 99)
        assert project.classes() == ["cat", "dog"]
        name = project.add_class("\N{SNOWMAN}" * 80)
        project.remove_class(name)
        project.undo()
        assert name in project.classes()


# What came before


def test_a_project_of_the_version_before(tmp_path):
    """Made by b5f837b: seven changes, two of them undone; its uploads wait in `incoming`."""
    root = tmp_path / "birds"
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(root)
    here = ["Wren/1-2.png", "Wren/1.png", "Wren/a.png", "owl/x.png", "owl/y.png", "robin/2.png"]
    for _ in range(2):
        with Project(root) as project:
            assert sorted(project.listing().where()) == here
            assert project.journal.last.about["what"] == "rename"
            assert project.redo().about["what"] == "remove"
            assert project.redo().about["what"] == "add"
            assert photos_of(project, "Wren")[-1] == "Wren/late.png"
            project.undo()
            project.undo()
    with Project(root) as project:
        while project.undo():
            pass
        assert sorted(project.listing().where()) == ["robin/1.png", "robin/2.png", "unsorted/a.png", "wren/1.png"]
    with Project(root) as project:
        while project.redo():
            pass
        assert sorted(project.listing().where()) == [*here[:3], "Wren/late.png", "owl/x.png", "owl/y.png"]
        project.undo()
        project.move(["owl/x.png"], "Wren")
    again(root)
    assert len(everything(root)) == 7  # Also the upload that nothing can redo any more.


def test_a_change_of_the_version_before_is_not_repeated(tmp_path):
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(tmp_path)
    lines = (tmp_path / ".lpp" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / ".lpp" / "journal.jsonl").write_bytes(b"".join(lines[:5]))
    os.rename(tmp_path / "Wren", tmp_path / "wren")
    with Project(tmp_path) as project:
        assert "wren" in project.classes()


# Routes


@pytest.fixture
def client(root):
    pytest.importorskip("fastapi", reason="needs the extra app")
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    from lpplusplus.app import photos

    with (
        Project(root) as project,
        TestClient(Starlette(routes=photos.routes(project), exception_handlers=photos.FAILURES)) as made,
    ):
        made.project = project
        yield made


def upload(client, *names, to="cat"):
    return client.post(
        f"/upload/{to}", files=[("f", (name, encoded(toy_image(), "PNG"), "image/png")) for name in names]
    )


def test_one_long_name_does_not_discard_an_upload(client):
    answer = upload(client, "good.png", "\N{CAT FACE}" * 100 + ".png")
    assert answer.status_code == 200
    assert len(answer.json()["added"]) == 2


def test_an_upload_that_fails_says_why(client, monkeypatch):
    """Every problem was "there is no class"."""
    with monkeypatch.context() as patch:
        Failing(patch, 3, ["rename"], for_ever=True)
        answer = upload(client, "a.png", "b.png")
    assert answer.status_code == 507
    assert "No space left" in answer.json()["error"]["message"]
    assert os.listdir(client.project.hidden / "incoming") == []


# What a beginner reads


def test_two_classes_and_photos_of_one(root):
    """It said "100 % right", and "y has 1 class … classes=[…] and text="."""
    pytest.importorskip("markupsafe", reason="needs the extra app")
    from lpplusplus.app.learner import Learner
    from lpplusplus.app.state import AppState, ViewState
    from lpplusplus.app.views import render

    shutil.rmtree(root)
    for number in range(8):
        path = root / "rose" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        toy_image(number).save(path)
    (root / "lily").mkdir()
    with Project(root) as project, Learner(project) as learner:
        learner.look()
        assert learner.wait(300)
        now = learner.snapshot
        assert now.problem is None
        said = render("status", AppState(project, learner), now, ViewState())
        assert "%" not in said
        assert "Learned 8 photos of rose. Add photos of lily" in said
