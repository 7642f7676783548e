"""The commands, for a person with photos: reports, plain words, folders as they are, a demonstration on their own."""

import json
import re
import shutil

import pytest

from commands import ask, complaint, lpp, run, usage
from lpplusplus.cli import console
from lpplusplus.cli.lpp import app
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from toy_images import contents

LABELS = {"fish": "001.Fish", "red_star": "002.Red_star", "blue_star": "003.Blue_star"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Five drawings to learn from and three to test on, of three classes with names as data sets have them."""
    root = tmp_path_factory.mktemp("photos")
    write_demo(root / "all", 8, size=64)
    for folder, label in LABELS.items():
        for path in sorted((root / "all" / folder).iterdir()):
            target = root / "set" / ("train" if path.stem < "0005" else "test") / label
            target.mkdir(parents=True, exist_ok=True)
            path.rename(target / path.name)
    shutil.rmtree(root / "all")
    return root / "set"


@pytest.fixture(scope="module")
def model(photos):
    lpp("train", photos / "train", "-o", photos.parent / "m.lpp")
    return photos.parent / "m.lpp"


def test_train_with_a_report(photos, tmp_path):
    done = run("train", photos, "-o", tmp_path / "m.lpp", "--report", tmp_path / "m.html")
    assert done.returncode == 0, done.stderr
    assert f"train/ is used, {photos / 'test'} left aside. To test afterwards: lpp evaluate MODEL" in done.stderr
    said = done.stdout
    assert said.index("001.Fish → fish, 002.Red_star → red star") < said.index("3 classes from 15 images")
    for part in (
        "class names alone",
        "images alone",
        "this classifier",
        "of 100 new images like these",
        "95 % confidence",
    ):
        assert part in said
    assert "open it in a browser" in said
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "001.Fish" in page
    assert "Would more photos help?" in page
    told = ask("train", photos / "train", "-o", tmp_path / "m.lpp", "--report", tmp_path / "m.html")
    assert told["names"] == ["fish", "red star", "blue star"]
    assert told["report"] == str(tmp_path / "m.html")
    low, high = told["interval"]
    assert low < told["accuracy"] <= high
    for name in ("examples_alone_accuracy", "over_names", "over_examples", "confused", "mislabelled"):
        assert name in told
        assert ask("inspect", tmp_path / "m.lpp")[name] == told[name]


def test_interrupted_in_the_report(photos, tmp_path, monkeypatch, capsys):
    """The model is there and its report is not: it says so."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ImageClassifier, "report", interrupt)
    model, page = tmp_path / "m.lpp", tmp_path / "m.html"
    with pytest.raises(SystemExit) as stopped:
        app(["train", str(photos / "train"), "-o", str(model), "--report", str(page)])
    assert stopped.value.code == 130
    said = capsys.readouterr().err
    assert f"m.lpp is written, without its report: lpp check {model} --report {page} makes one." in said
    assert model.exists()
    assert not page.exists()
    monkeypatch.undo()
    lpp("check", model, "--report", page)
    assert page.exists()


def test_a_class_folder_without_images(model, photos, tmp_path):
    """Training asks what is meant; a class without test images is no obstacle."""
    shutil.copytree(photos, tmp_path / "set")
    for part in ("train", "test"):
        (tmp_path / "set" / part / "004.Cloud").mkdir()
    train, page = tmp_path / "set" / "train", tmp_path / "m.html"
    assert "lpp train --allow-empty" in complaint("train", train, "-o", tmp_path / "m.lpp")
    told = ask("train", train, "-o", tmp_path / "m.lpp", "--allow-empty", "--report", page)
    assert told["classes"] == [*sorted(LABELS.values()), "004.Cloud"]
    assert "Would more photos help?" in page.read_text(encoding="utf-8")
    for known in (model, tmp_path / "m.lpp"):
        assert ask("evaluate", known, tmp_path / "set" / "test")["images"] == 9


def test_evaluate_with_a_report(model, photos, tmp_path):
    done = run("evaluate", model, photos, "--report", tmp_path / "e.html", "--json")
    assert "test/ is used" in done.stderr
    result = json.loads(done.stdout)
    assert (result["images"], result["trained_on"], result["report"]) == (9, 0, str(tmp_path / "e.html"))
    assert "Careful" not in (tmp_path / "e.html").read_text(encoding="utf-8")


def test_a_report_never_takes_the_place_of_something_else(model, photos, tmp_path):
    (tmp_path / "mine.html").write_text("<p>my page")
    for option, said in (
        (tmp_path / "mine.html", "is not a report"),
        (tmp_path / "x.txt", "does not end in .html"),
        (tmp_path / "no" / "x.html", "does not exist"),
    ):
        assert said in usage("evaluate", model, photos / "test", "--report", option)
        assert said in usage("train", photos / "train", "-o", tmp_path / "x.lpp", "--report", option)
    same = tmp_path / "x.html"
    assert "also the file for the classifier" in usage("train", photos / "train", "-o", same, "--report", same)
    assert (tmp_path / "mine.html").read_text() == "<p>my page"
    assert not (tmp_path / "x.lpp").exists()


def test_embed_wants_to_know_which_part(photos, tmp_path):
    said = complaint("embed", photos, "-o", tmp_path / "f")
    assert "has test/ and train/, not a folder for each class: name one of them" in said


def test_demo_with_photos(photos, tmp_path):
    before = contents(photos)
    result = ask("demo", "--photos", photos / "train", "--keep", tmp_path / "kept")
    assert (result["train_images"], result["test_images"]) == (9, 6)
    assert result["classes"] == list(LABELS.values())
    assert {tuple(row) for row in result["by_shots"].values()} == {("1", "2", "3")}
    both = result["by_shots"]["both (LP++)"]
    assert both["3"] == pytest.approx(result["accuracy"])
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "confusion.png", "photos.lpp", "reliability.png", "report.html"]  # fmt: skip
    said = lpp("demo", "--photos", photos / "test")
    assert "Took 6 images of 3 classes to learn from and 3 others to test on. Nothing was written to" in said
    assert contents(photos) == before
    assert "is in the folder of the photos" in usage("demo", "--photos", photos, "--keep", photos / "k")
    assert "goes with --photos" in usage("demo", "-e", "embedded")
    shutil.copytree(photos / "test", tmp_path / "few")
    for path in sorted((tmp_path / "few" / "001.Fish").iterdir())[1:]:
        path.unlink()
    assert "has a single image of '001.Fish'" in complaint("demo", "--photos", tmp_path / "few")


def test_time_left_where_there_is_no_terminal(monkeypatch, capsys):
    now = iter([0.0, 5.0, 30.0, 30.0, 31.0, 90.0, 90.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(now))
    told = console._lines("Embedding")
    for done in (1, 30, 31, 45):
        told(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines] == [
        "lpp: Embedding: 30 of 100, about 1 min left",
        "lpp: Embedding: 45 of 100, about 2 min left",
    ]
