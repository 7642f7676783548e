"""`lpp add`, `remove`, `rename`, `merge`: as commands, with what they write and what they leave alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import ask, complaint, lpp, run
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo

CLASSES = ["blue_star", "fish", "red_star"]
GOLDEN = Path(__file__).resolve().parents[2] / "data" / "format1.lpp"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Folders first/ and more/ of one set of drawings, and classifiers of first/ and of all."""
    root = tmp_path_factory.mktemp("grow")
    write_demo(root / "drawn", 6, size=96)
    for label in CLASSES:
        shutil.move(root / "drawn" / label, root / "all" / label)
    for label in CLASSES:
        for path in sorted((root / "all" / label).iterdir()):
            old = label != "fish" and path.stem < "0004"
            target = root / ("first" if old else "more") / label
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for name in ("all", "first"):
        lpp("train", root / name, "-o", root / f"{name}.lpp", "-e", "drawings")
    lpp("train", root / "first", "-o", root / "small.lpp", "-e", "drawings", "--no-support")
    return root


@pytest.fixture
def model(work, tmp_path):
    return shutil.copy(work / "first.lpp", tmp_path / "first.lpp")


def test_add_in_place_is_training_on_everything(work, model):
    told = ask("add", model, work / "more")
    assert (told["added"], told["repeated"], told["images"], told["classes"]) == (10, 0, 18, CLASSES)
    grown, whole = (ImageClassifier.load(path) for path in (model, work / "all.lpp"))
    np.testing.assert_allclose(grown.classifier_.coef_, whole.classifier_.coef_, atol=1e-3)
    assert grown.classifier_.metadata_["images"] == whole.classifier_.metadata_["images"]
    assert "0 photos added; 10 of those given were there already." in lpp("add", model, work / "more")
    assert "support" in lpp("inspect", model)


def test_add_to_another_file(work, model, tmp_path):
    before = model.read_bytes()
    assert "10 photos added" in lpp("add", model, work / "more", "-o", tmp_path / "new.lpp")
    assert model.read_bytes() == before
    assert ask("inspect", tmp_path / "new.lpp")["support"] == 18


def test_remove_rename_merge(work, tmp_path):
    model = shutil.copy(work / "all.lpp", tmp_path / "all.lpp")
    assert ask("remove", model, "fish")["classes"] == ["blue_star", "red_star"]
    told = ask("remove", model, "--photos", work / "more" / "red_star", "--photos", "blue_star/0005.jpg")
    assert (told["removed"], told["images"]) == (3, 9)
    told = ask("rename", model, "red_star", "crimson_star", "-o", tmp_path / "other.lpp")
    assert (told["classes"], told["names"]) == (["blue_star", "crimson_star"], ["blue star", "crimson star"])
    told = ask("merge", model, work / "all.lpp", "-o", tmp_path / "both.lpp")
    assert (told["classes"], told["images"], told["repeated"]) == (CLASSES, 18, 9)
    whole, both = (ImageClassifier.load(path) for path in (work / "all.lpp", tmp_path / "both.lpp"))
    np.testing.assert_allclose(both.classifier_.coef_, whole.classifier_.coef_, atol=1e-3)


def test_refused_and_left_alone(work, model, tmp_path):
    before = model.read_bytes()
    assert "--no-support" in complaint("add", work / "small.lpp", work / "more", "-o", tmp_path / "x.lpp")
    assert "use lpplusplus.load" in complaint("add", GOLDEN, work / "more", "-o", tmp_path / "x.lpp")
    assert "there is no class 'heron'" in complaint("remove", model, "heron")
    assert "not among the 8 photos" in complaint("remove", model, "--photos", work / "more" / "fish" / "0000.jpg")
    assert "there is no such file" in complaint("rename", tmp_path / "nowhere.lpp", "a", "b")
    assert "there is a class 'red_star' already" in complaint("rename", model, "blue_star", "red_star")
    assert "say what to remove" in lpp("remove", model, code=2)
    assert "is not a classifier" in lpp("add", model, work / "more", "-o", shutil.copy(
        work / "more" / "fish" / "0000.jpg", tmp_path / "picture.txt"), code=2)  # fmt: skip
    assert model.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.lpp", "picture.txt"]


def test_a_file_without_support_is_smaller_and_says_so(work, tmp_path):
    done = json.loads(lpp("inspect", work / "small.lpp", "--json"))
    assert done["support"] is None
    assert (work / "small.lpp").stat().st_size < (work / "first.lpp").stat().st_size
    told = run("train", work / "first", "-o", tmp_path / "a.lpp", "-e", "drawings", "--no-support")
    assert "lpp add, remove, rename, merge and check refuse it" in told.stderr


def test_unlabelled_photos(work, tmp_path):
    told = ask("train", work / "first", "-o", tmp_path / "a.lpp", "-e", "drawings", "--unlabelled", work / "more")
    assert told["unlabelled"] in range(11)
    assert "Unlabelled images: " in lpp(
        "train", work / "first", "-o", tmp_path / "b.lpp", "-e", "drawings", "--unlabelled", work / "more"
    )
    assert (tmp_path / "a.lpp").read_bytes() == (tmp_path / "b.lpp").read_bytes()
    kept = ImageClassifier.load(tmp_path / "a.lpp").classifier_.task_.unlabelled
    assert len(kept) == 10
    said = complaint(
        "train", work / "first", "-o", tmp_path / "c.lpp", "-e", "drawings", "--unlabelled", work / "more", "--shots", 1
    )
    assert "two examples per class" in said
    assert not (tmp_path / "c.lpp").exists()
