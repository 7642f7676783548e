"""A project on disk: changes, undo after a kill, names that cannot leave the folder; and what commands make of it."""

import json
import os
import random
import threading
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from lpplusplus.app.project import FolderError, Project, about_change, safe_name
from lpplusplus.images import SourceError
from lpplusplus.images.sources import from_folder
from toy_project import photos_of


def photo(path, colour="red"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path)
    return path


@pytest.fixture
def project(tmp_path):
    for name in ("robin/1.png", "robin/2.png", "wren/1.png", "unsorted/a.png", "unsorted/b.png"):
        photo(tmp_path / "birds" / name)
    with Project(tmp_path / "birds") as opened:
        yield opened


def content(root):
    """Every file and folder that a person sees."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*"))
    return sorted(path for path in found if not path.startswith(".lpp"))


def arrive(project, name, colour="blue"):
    path = project.incoming()
    Image.new("RGB", (8, 8), colour).save(path, "PNG")
    return name, path


def test_a_new_project_is_a_folder(tmp_path):
    with Project(tmp_path / "new") as project:
        assert content(project.root) == ["unsorted"]
        assert project.classes() == []
        assert project.undo() is None
        assert project.redo() is None


def test_every_change_and_its_way_back(project):
    states = [content(project.root)]

    def then(change):
        change()
        states.append(content(project.root))

    then(lambda: project.add_class("  house   sparrow "))
    assert "house sparrow" in project.classes()
    then(lambda: project.move(["robin/1.png", "unsorted/a.png"], "wren"))
    assert photos_of(project, "wren") == ["wren/1-2.png", "wren/1.png", "wren/a.png"]
    then(lambda: project.sort({"robin/2.png": "wren", "unsorted/b.png": "house sparrow", "wren/a.png": "wren"}))
    assert photos_of(project, "house sparrow") == ["house sparrow/b.png"]
    assert about_change(project.journal.last) == "2 photos sorted"
    project.undo()
    states.pop()
    then(lambda: project.add("house sparrow", [arrive(project, "x.png"), arrive(project, "x.png")]))
    assert photos_of(project, "house sparrow") == ["house sparrow/x-2.png", "house sparrow/x.png"]
    then(lambda: project.rename("wren", "Wren"))
    then(lambda: project.rename("Wren", "troglodyte"))
    then(lambda: project.remove(["robin/2.png", "unsorted/b.png"]))
    then(lambda: project.remove_class("troglodyte"))
    assert project.classes() == ["house sparrow", "robin"]
    for before in reversed(states[:-1]):
        assert project.undo() is not None
        assert content(project.root) == before
    assert project.undo() is None
    for after in states[1:]:
        assert project.redo() is not None
        assert content(project.root) == after
    assert project.redo() is None
    assert project.journal.last.about == {"what": "remove_class", "name": "troglodyte"}


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[]",
        b'{"undo": 7}',
        b'{"change": 1, "about": {}, "moves": [["robin/1.png", "../stolen.png"]]}',
        b'{"change": 1, "about": {}, "moves": [["/etc/hostname", "robin/x.png"]]}',
        b'{"change": 1, "about": {}, "moves": [["robin/1.png"]]}',
    ],
)
def test_a_journal_that_somebody_sent_moves_nothing_outside(project, line):
    before = content(project.root)
    project.close()
    (project.hidden / "journal.jsonl").write_bytes(line + b"\n")
    with Project(project.root) as again:
        assert content(again.root) == before
        assert not (again.root.parent / "stolen.png").exists()
        assert again.undo() is None
        again.add_class("owl")
        again.undo()


@pytest.mark.parametrize(
    "path",
    ["../x", "robin/../../x", "/etc/passwd", "robin//1.png", "", ".", "robin/.", "C:/x", "robin\\1.png", "a\0b"],
)
def test_paths_cannot_leave_the_folder(project, path):
    for attempt in (
        lambda: project.path_of(path),
        lambda: project.move([path], "wren"),
        lambda: project.remove([path]),
        lambda: project.move(["robin/1.png"], path),
        lambda: project.remove_class(path),
        lambda: project.rename(path, "x"),
    ):
        with pytest.raises(FolderError):
            attempt()
    assert photos_of(project, "robin") == ["robin/1.png", "robin/2.png"]


@pytest.mark.parametrize("path", [".lpp", ".lpp/journal.jsonl", "robin/.x.png"])
def test_hidden_files_are_not_shown(project, path):
    with pytest.raises(FolderError):
        project.path_of(path)


def test_links_are_not_followed(project, tmp_path):
    photo(tmp_path / "secret" / "s.png")
    (project.root / "owl").symlink_to(tmp_path / "secret")
    (project.root / "robin" / "link.png").symlink_to(tmp_path / "secret" / "s.png")
    assert project.classes() == ["robin", "wren"]
    assert photos_of(project, "robin") == ["robin/1.png", "robin/2.png"]
    for path in ("owl/s.png", "robin/link.png"):
        with pytest.raises(FolderError, match="link"):
            project.path_of(path)
    with pytest.raises(FolderError, match="file"):
        project.add_class("owl")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "a/b",
        "..",
        ".hidden",
        "dot.",
        "a\\b",
        "CON",
        "x" * 101,
        "unsorted",
        "Unsorted",
        "ROBIN",
        "a:b",
        "a\x07b",
    ],
)
def test_names_that_are_refused(project, name):
    with pytest.raises(FolderError):
        project.add_class(name)
    with pytest.raises(FolderError):
        project.rename("wren", name)
    assert project.undo() is None


def test_two_classes_that_a_prompt_could_not_tell_apart_are_refused(project):
    project.add_class("house sparrow")
    with pytest.raises(SourceError, match="both called"):
        project.add_class("house_sparrow")


def test_names_in_any_script(project):
    for name in ("Rotkehlchen", "コマドリ", "raudrist (lind)", "Ørn", "emoji 🐦"):
        assert project.add_class(name) == unicodedata.normalize("NFC", name)
    assert project.add_class(unicodedata.normalize("NFD", "Gelbspötter")) == "Gelbspötter"


def test_file_names_from_anywhere(project):
    names = ["../../x.png", ".png", "con.png", "a" * 300 + ".png", "x.exe", "ü\n.png", "", "a/b\\c.png"]
    added = project.add("robin", [arrive(project, name) for name in names])
    assert len(set(added)) == len(names)
    for path in added:
        assert project.path_of(path).is_file()
        assert path.startswith("robin/")
    assert set(added) <= set(photos_of(project, "robin"))
    assert safe_name("x.exe") == "x.exe.jpg"


def test_only_photos_move_and_only_into_classes(project):
    (project.root / "classifier.lpp").write_bytes(b"x")
    for attempt in (
        lambda: project.move(["robin"], "wren"),
        lambda: project.remove(["classifier.lpp"]),
        lambda: project.move(["robin/1.png"], "wren/1.png"),
        lambda: project.move(["robin/1.png"], "robin/sub"),
        lambda: project.remove_class("unsorted"),
        lambda: project.rename("unsorted", "x"),
        lambda: project.add("owl", [arrive(project, "x.png")]),
    ):
        with pytest.raises(FolderError, match="there is no"):
            attempt()
    assert project.undo() is None


def test_one_page_per_folder(project):
    with pytest.raises(FolderError, match="another page"):
        Project(project.root)


def test_a_file_is_no_project(tmp_path):
    path = photo(tmp_path / "x.png")
    with pytest.raises(FolderError, match="file"):
        Project(path)


def test_changes_on_disk_are_noticed(project):
    before = project.listing()
    assert project.listing() == before
    photo(project.root / "owl" / "deep" / "o.png")
    os.replace(project.root / "robin" / "1.png", project.root / "wren" / "r.png")
    photo(project.root / "loose.png")
    after = project.listing()
    assert after != before
    assert [one.path for one in after.classes["owl"]] == ["owl/deep/o.png"]
    assert after.where()["wren/r.png"].key == before.where()["robin/1.png"].key
    assert [one.path for one in after.unsorted] == ["loose.png", "unsorted/a.png", "unsorted/b.png"]
    project.move(["loose.png", "owl/deep/o.png"], "robin")
    assert photos_of(project, "robin") == ["robin/2.png", "robin/loose.png", "robin/o.png"]


def test_names_that_are_no_text_are_left_out(project):
    os.mkdir(os.fsencode(project.root) + b"/\xff")
    photo(project.root / "robin" / "3.png").rename(os.fsdecode(os.fsencode(project.root) + b"/robin/\xfe.png"))
    assert project.classes() == ["robin", "wren"]
    assert len(photos_of(project, "robin")) == 2


def test_commands_see_the_same_photos_in_the_same_order(project):
    photo(project.root / "robin" / "sub" / "z.png")
    photo(project.root / "loose.png")
    found, listing = from_folder(project.root), project.listing()
    expected = [str(project.root / one.path) for photos in listing.classes.values() for one in photos]
    assert [str(item) for item in found.items] == expected
    assert list(found.classes) == list(listing.classes)
    shutil_free = Path(project.root) / "unsorted"
    assert not any(shutil_free in Path(item).parents for item in found.items)


def test_unsorted_is_an_ordinary_class_elsewhere(tmp_path):
    for name in ("robin/1.png", "unsorted/a.png"):
        photo(tmp_path / name)
    assert from_folder(tmp_path).classes == ("robin", "unsorted")


def test_settings_stay_and_damage_is_no_harm(project):
    project.keep(encoder="clip")
    project.close()
    with Project(project.root) as again:
        assert again.settings["encoder"] == "clip"
    for damaged in (b"", b"[]", b'{"encoder": 3}', b"\xff"):
        (project.hidden / "settings.json").write_bytes(damaged)
        with Project(project.root) as again:
            assert again.settings == {"encoder": "embedded", "kept": []}


def test_what_was_on_its_way_when_killed_is_cleared_and_undone_photos_are_not(project):
    left = arrive(project, "x.png")[1]
    project.add("robin", [arrive(project, "y.png")])
    project.undo()
    project.close()
    with Project(project.root) as again:
        assert not left.exists()
        again.redo()
        assert "robin/y.png" in photos_of(again, "robin")


def test_changes_from_several_threads(project):
    """Two tabs at once: every photo is somewhere, once, and everything can be undone."""
    before = content(project.root)

    def shuffle(seed):
        rng = random.Random(seed)
        for _ in range(20):
            listing = project.listing()
            paths = list(listing.where())
            with suppress(FolderError):  # The other one was faster.
                project.move(rng.sample(paths, 2), rng.choice(["robin", "wren", "unsorted"]))

    threads = [threading.Thread(target=shuffle, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(project.listing().where()) == 5
    while project.undo():
        pass
    assert content(project.root) == before
    lines = (project.hidden / "journal.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("place", ["cat", ".lpp"])
def test_folders_may_be_deeper_than_python_calls_itself(tmp_path, place):
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "a.png")
    (tmp_path / place).mkdir(exist_ok=True)
    made = [f"{tmp_path / place}{'/d' * depth}" for depth in range(1, 1200)]
    for folder in made:
        os.mkdir(folder)
    with Project(tmp_path) as project:
        assert photos_of(project, "cat") == ["cat/a.png"]
    for folder in reversed(made):  # pytest could not remove them.
        os.rmdir(folder)
