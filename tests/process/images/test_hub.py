"""Classifiers on the hub: pushed to, and pulled from, a server that speaks its protocol."""

import copy
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from commands import LPP, environment
from hub_server import hub
from lpplusplus import load
from lpplusplus.images import ImageClassifier, SourceError
from lpplusplus.images.drawings import write_demo
from lpplusplus.images.hub import model_card, write_repository
from lpplusplus.images.saving import description

COMMIT = "c" * 40
TOKEN = "hf_secret"
IMPORT = "from lpplusplus.images import ImageClassifier\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_demo(folder / "drawings", 3, seed=1)
    (folder / "drawings" / "boat" / "0.jpg").unlink(missing_ok=True)
    clf = ImageClassifier("drawings").fit(folder / "drawings")
    clf.look_into()
    clf.save(folder / "shapes.lpp")
    return folder / "shapes.lpp", clf


def run(*command, address, home, code=0, **extra):
    """A command in a process of its own, since the hub's client reads its settings when it is imported."""
    extra = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1", **extra}
    variables = {k: v for k, v in environment(**extra).items() if k not in ("HF_HUB_OFFLINE", "HF_TOKEN") or k in extra}
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_there_and_back(trained, tmp_path):
    """Pushed by the command, pulled by the command and in Python; only safetensors, no path of this machine."""
    path, clf = trained
    repository, here = tmp_path / "repository", {"home": tmp_path / "home"}
    repository.mkdir()
    with hub("me/shapes", COMMIT, repository, TOKEN) as (address, _, fetched):
        here["address"] = address
        told = json.loads(run(*LPP, "push", path, "me/shapes", "--json", HF_TOKEN=TOKEN, **here))
        assert told["commit"] == f"{address}/me/shapes/commit/{COMMIT}"
        assert sorted(os.listdir(repository)) == ["README.md", "config.json", "model.safetensors"]
        assert all(str(path.parent).encode() not in file.read_bytes() for file in repository.iterdir())
        run(*LPP, "pull", "me/shapes", "-o", tmp_path / "back.lpp", **here)
        assert fetched == ["config.json", "model.safetensors"]
        photos = str(path.parent / "drawings")
        code = f"{IMPORT}clf = ImageClassifier.from_pretrained('me/shapes')\nprint(len(clf.predict({photos!r})))"
        assert int(run(sys.executable, "-c", code, **here)) == len(clf.support_)
    back = load(tmp_path / "back.lpp")
    np.testing.assert_array_equal(back.coef_, clf.classifier_.coef_)
    assert back.metadata_["insight"]["accuracy"] == clf.insight_.accuracy
    assert "photos" not in back.metadata_["images"]
    card = (repository / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    assert "pipeline_tag: image-classification" in card
    assert "lpp pull me/shapes" in card


def test_pushed_from_python_and_the_card_can_stay(trained, tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "README.md").write_text("mine")
    with hub("me/shapes", COMMIT, repository, TOKEN) as (address, _, _):
        code = f"{IMPORT}clf = ImageClassifier.load({str(trained[0])!r})\n"
        code += f"print(clf.push_to_hub('me/shapes', card=False, token='{TOKEN}'))"
        assert COMMIT in run(sys.executable, "-c", code, address=address, home=tmp_path / "home")
    assert (repository / "README.md").read_text() == "mine"
    assert load(repository / "model.safetensors").metadata_["insight"]["measured"] == "4-fold cross-validation"


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("onnx:/home/me/secret-project/model", "onnx:model"),
        ("onnx:~/secret-project/model", "onnx:model"),
        ("onnx:../secret-project/model/", "onnx:model"),
        ("onnx:C:\\secret-project\\model", "onnx:model"),
        ("onnx:me/model@0123", "onnx:me/model@0123"),
        ("open_clip:ViT-B-32/../secret-project/mine.safetensors", "open_clip:ViT-B-32/mine.safetensors"),
        ("open_clip:local-dir:/home/me/secret-project/model", "open_clip:local-dir:model"),
        ("open_clip:hf-hub:me/model", "open_clip:hf-hub:me/model"),
        ("open_clip:RN50/openai", "open_clip:RN50/openai"),
        ("drawings", "drawings"),
    ],
)
def test_nothing_that_is_uploaded_names_a_path(trained, tmp_path, spec, shown):
    """Neither the file nor the card, also where the encoder's files are no longer there."""
    clf = ImageClassifier.load(trained[0])
    clf.origin_ = replace(clf.origin_, spec=spec)
    model = copy.copy(clf.classifier_)
    model.metadata_ = description(clf)
    write_repository(model, tmp_path, "me/shapes")
    card = (tmp_path / "README.md").read_text()
    assert load(tmp_path / "model.safetensors").metadata_["images"]["encoder"]["spec"] == shown
    assert f"`{shown}`, 130 dimensions" in card
    assert "secret-project" not in card
    assert all(b"secret-project" not in file.read_bytes() for file in tmp_path.iterdir())


def test_complaints(trained, tmp_path):
    repository, out = tmp_path / "repository", tmp_path / "out.lpp"
    repository.mkdir()
    (repository / "notes.txt").write_text("no classifier")
    with hub("me/shapes", COMMIT, repository, TOKEN) as (address, _, _):
        here = {"address": address, "home": tmp_path / "home", "code": 1}
        assert "hf auth login" in run(*LPP, "push", trained[0], "me/shapes", HF_TOKEN="hf_wrong", **here)
        assert "has no file model.safetensors" in run(*LPP, "pull", "me/shapes", "-o", out, **here)
        assert "no such revision" in run(*LPP, "pull", "me/shapes", "-o", out, "--revision", "v9", **here)
        (repository / "model.safetensors").write_text("damaged")
    with hub("me/shapes", COMMIT, repository) as (address, _, _):
        here["address"] = address
        assert "safetensors file" in run(*LPP, "pull", "me/shapes", "-o", out, **here)
    assert not out.exists()
    with pytest.raises(SourceError, match="not the name of a repository"):
        ImageClassifier.from_pretrained("a/b/c")


def test_a_repository_decides_neither_about_the_network_nor_about_the_encoder(trained, tmp_path):
    """Its config.json names parameters of the classifier: they are dropped. Its file's encoder needs to be allowed."""
    shutil.copy(trained[0], tmp_path / "model.safetensors")
    stranger = {
        "allow_network": True,
        "encoder": "http://127.0.0.1:9/v1?model=m",
        "classifier": "x",
        "on_error": "skip",
    }
    (tmp_path / "config.json").write_text(json.dumps(stranger))
    clf = ImageClassifier.from_pretrained(tmp_path)
    assert (clf.allow_network, clf.encoder, clf.on_error) == (False, "drawings", "stop")


def test_a_loaded_classifier_keeps_what_was_found_out_when_it_is_saved_again(trained, tmp_path):
    ImageClassifier.load(trained[0]).save(tmp_path / "again.lpp")
    assert (tmp_path / "again.lpp").read_bytes() == trained[0].read_bytes()


def test_the_card_says_what_training_found(trained):
    model = load(trained[0])
    insight = model.metadata_["insight"]
    card = model_card(model, "me/shapes")
    assert "Sorts images into 24 classes" in card
    assert f"{100 * insight['accuracy']:.1f} % ({100 * insight['interval'][0]:.1f} %" in card
    assert "Accuracy by 4-fold cross-validation" in card
    assert model.metadata_["images"]["encoder"]["fingerprint"] in card
    assert "also for one that shows none of them" in card
    model.metadata_ = {"images": {}, "insight": None}
    assert "Not measured." in model_card(model, "me/shapes")
    assert "trained on arrays" in model_card(model, "me/shapes")
