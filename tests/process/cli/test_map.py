"""`lpp map`, and what else the page has a button for."""

import json

import pytest

from commands import ask, complaint, lpp, usage
from lpplusplus.images.projection import has_umap
from toy_images import make_folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """As `lpp app` leaves them."""
    root = make_folder(tmp_path_factory.mktemp("map") / "birds", {"robin": 4, "<b>wren": 4, "unsorted": 3})
    (root / ".lpp").mkdir()
    return root


def test_a_page_that_needs_nothing_else(photos, tmp_path):
    said = lpp("map", photos, "--unlabelled", photos / "unsorted", "-o", tmp_path / "map.html")
    assert "11 of 11 photos, by PCA" in said
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg") == page.count('class="point') == 11
    assert page.count("background:grey") == 3 + 1
    assert "&lt;b&gt;wren" in page
    assert "<b>" not in page
    assert "<script" not in page
    lpp("map", photos, "-o", tmp_path / "map.html")  # A page of ours is written anew.
    assert (tmp_path / "map.html").read_text(encoding="utf-8").count('class="point') == 8


def test_places_as_json(photos):
    told = ask("map", photos, "--most", 4)
    assert (told["kind"], told["images"], len(told["points"]), told["output"]) == ("PCA", 8, 4, None)
    assert {point["label"] for point in told["points"]} == {"robin", "<b>wren"}
    again = ask("map", photos, "--most", 4)
    assert told == again
    every = ask("map", photos, "--unlabelled", photos / "unsorted")
    assert [point["label"] for point in every["points"]].count(None) == 3


def test_of_a_feature_store(photos, tmp_path):
    lpp("embed", photos, "-o", tmp_path / "features")
    stored, fresh = (ask("map", source)["points"] for source in (tmp_path / "features", photos))
    assert [(point["x"], point["y"]) for point in stored] == [(point["x"], point["y"]) for point in fresh]


def test_refusals(photos, tmp_path):
    assert "name a page to write" in usage("map", photos)
    assert "does not end in .html" in usage("map", photos, "-o", tmp_path / "map.png")
    (tmp_path / "mine.html").write_text("my own page")
    assert "name another file" in usage("map", photos, "-o", tmp_path / "mine.html")
    few = make_folder(tmp_path / "few", {"a": 1, "b": 1})
    assert "a map needs 3" in complaint("map", few, "--json")
    if not has_umap():
        assert "pip install umap-learn" in usage("map", photos, "--umap", "--json")


@pytest.fixture(scope="module")
def model(photos):
    lpp("train", photos, "-o", photos.parent / "m.lpp")
    return photos.parent / "m.lpp"


def test_the_nearest_photos_are_the_reason(photos, model):
    (told,) = ask("predict", model, photos / "robin" / "001.png", "--nearest", 3)["predictions"]
    assert len(told["nearest"]) == 3
    assert told["nearest"][0].endswith("robin/001.png"), "nothing is more like it than itself"
    assert "robin/001.png" in lpp("predict", model, photos / "robin" / "001.png", "--nearest", 1).replace("\n", "")
    row = lpp("predict", model, photos / "robin" / "001.png", "--nearest", 2, "--csv").splitlines()
    assert row[0] == "path,rank,label,probability,nearest"
    assert row[1].count("|") == 1


def test_undo_redo_and_keep(tmp_path):
    pytest.importorskip("starlette", reason="needs the extra app")
    from lpplusplus.app.project import Project

    folder = make_folder(tmp_path / "birds", {"robin": 2, "wren": 1})
    assert "nothing to redo" in lpp("app", folder, "--redo")
    with Project(folder) as project:
        project.move(["robin/000.png"], "wren")
    assert ask("app", folder, "--undo") == {"undone": "1 photo moved to wren"}
    assert (folder / "robin" / "000.png").exists()
    assert ask("app", folder, "--redo") == {"done_again": "1 photo moved to wren"}
    assert not (folder / "robin" / "000.png").exists()
    assert "choose one of" in usage("app", folder, "--undo", "--redo")
    assert ask("app", folder, "--keep", "robin/001.png") == {"kept": "robin/001.png"}
    lpp("app", folder, "--keep", "robin/001.png")
    (note,) = json.loads((folder / ".lpp" / "settings.json").read_text())["kept"]
    assert note.endswith(":robin")
    assert "there is no photo" in complaint("app", folder, "--keep", "robin/none.png")
    assert "is not a path in this project" in complaint("app", folder, "--keep", "../birds/robin/001.png")
