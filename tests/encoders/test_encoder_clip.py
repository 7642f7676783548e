"""CLIP in one word, from a hub on this machine: told, fetched, checked, kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lpplusplus
from hub_server import hub
from lpplusplus.encoders import open_encoder
from lpplusplus.encoders.clip import MODELS
from lpplusplus.encoders.packaged import FOLDERS

COMMIT = "0123456789abcdef0123456789abcdef01234567"
EXACT = f"onnx:{MODELS['clip']}@{COMMIT}"


def lpp(home, *arguments, endpoint="http://127.0.0.1:9", status=0):
    """In a process of its own, since the hub's client reads its settings when imported."""
    environment = os.environ | {"PYTHONPATH": str(Path(lpplusplus.__file__).parents[1]), "COLUMNS": "200"}
    environment |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "lpplusplus", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def here(home):
    return {row["scheme"]: row["here"] for row in json.loads(lpp(home, "encoders", "--json")[0])}


@pytest.fixture(scope="module")
def pulled(tmp_path_factory):
    """A machine that has pulled clip: its cache, what was said, and what was asked of the hub."""
    home = tmp_path_factory.mktemp("home")
    with hub(MODELS["clip"], COMMIT, FOLDERS["drawings"]) as (address, _, fetched):
        said = lpp(home, "encoders", "pull", "clip", endpoint=address)
    return home, said, fetched


def test_the_list_tells_what_is_here(tmp_path, pulled):
    assert here(tmp_path) == {
        "embedded": True, "clip": False, "clip-large": False, "drawings": True, "onnx:FOLDER-OR-HUB-ID": None,
        "open_clip:ARCH/PRETRAINED": None, "https://HOST/v1?model=NAME": None}  # fmt: skip
    assert here(pulled[0])["clip"] is True
    shown, _ = lpp(tmp_path, "encoders")
    assert "606 MB" in shown
    assert "yes, after a download" in shown


def test_a_download_tells_its_size_first(pulled):
    _, (out, err), fetched = pulled
    parts = ("visual", "textual")
    size = sum(file.stat().st_size for part in parts for file in (FOLDERS["drawings"] / part).iterdir())
    assert f"{MODELS['clip']} is downloaded once from the Hugging Face hub, {size / 1e6:.0f} MB" in err
    assert sorted({name.split("/")[0] for name in fetched}) == sorted(parts), "and no README"
    assert f"needs no network from now on. Its exact name: {EXACT}" in " ".join((out + err).split())


def test_what_was_pulled_opens_without_the_hub(pulled, tmp_path):
    home = pulled[0]
    out, err = lpp(home, "encoders", "pull", "clip", "--json")
    assert json.loads(out)["encoder"] == EXACT
    assert json.loads(out)["fingerprint"] == open_encoder("drawings").fingerprint
    assert "downloaded" not in err
    _, refused = lpp(home, "encoders", "pull", "clip-large", status=1)
    assert "could not be downloaded" in refused


def test_a_damaged_download_is_refused(pulled, tmp_path):
    home = tmp_path / "home"
    with hub(MODELS["clip"], COMMIT, FOLDERS["drawings"]) as (address, _, _):
        lpp(home, "encoders", "pull", "clip", endpoint=address)
    (weights,) = home.glob("hub/*/snapshots/*/visual/model.onnx")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.resolve().write_bytes(content)
    _, refused = lpp(home, "encoders", "pull", "clip", status=1)
    assert f"is damaged: remove {weights.resolve()}" in refused.replace("\n", "")


def test_other_words_are_refused(tmp_path):
    for words in (("push", "clip"), ("pull",)):
        assert "lpp encoders pull NAME" in lpp(tmp_path, "encoders", *words, status=2)[1]
