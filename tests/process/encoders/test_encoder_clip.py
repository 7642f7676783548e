"""CLIP in one word, from a hub on this machine: told, fetched, checked, kept."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import lpplusplus
from hub_server import hub
from lpplusplus.encoders import named_models, open_encoder
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.onnx_files import LAYOUTS, file_digest

HUB_ID, COMMIT = "someone/small-clip", "0123456789abcdef0123456789abcdef01234567"
EXACT = f"onnx:{HUB_ID}@{COMMIT}"
WEIGHTS = {
    f"{part}/model.onnx": file_digest(FOLDERS["drawings"] / part / "model.onnx") for part in ("visual", "textual")
}
PROGRAM = """
import sys
from lpplusplus.cli import main
from lpplusplus.encoders import named_models

named_models.PINNED["clip"], named_models.WEIGHTS["clip"] = {source!r}, {weights!r}
sys.exit(main())
"""


def lpp(home, *arguments, endpoint="http://127.0.0.1:9", status=0, weights=WEIGHTS):
    """A small model in place of CLIP, in a process of its own: the hub's client reads its settings when imported."""
    environment = os.environ | {"PYTHONPATH": str(Path(lpplusplus.__file__).parents[1]), "COLUMNS": "200"}
    environment |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    program = PROGRAM.format(source=f"{HUB_ID}@{COMMIT}", weights=weights)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def here(home):
    return {row["scheme"]: row["here"] for row in json.loads(lpp(home, "encoders", "--json")[0])}


@pytest.fixture(scope="module")
def pulled(tmp_path_factory):
    """A machine that has pulled clip: its cache, what was said, and what was asked of the hub."""
    home = tmp_path_factory.mktemp("home")
    with hub(HUB_ID, COMMIT, FOLDERS["drawings"]) as (address, _, fetched):
        said = lpp(home, "encoders", "pull", "clip", endpoint=address)
    return home, said, fetched


def test_one_commit_and_one_content_of_each():
    assert set(named_models.PINNED) == set(named_models.WEIGHTS)
    for name, weights in named_models.WEIGHTS.items():
        assert re.fullmatch(r"Xenova/clip-vit-[a-z0-9-]+@[0-9a-f]{40}", named_models.PINNED[name])
        assert set(weights) == {LAYOUTS["transformers"][tower] for tower in ("visual", "textual")}
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in weights.values())


def test_the_list_tells_what_is_here(tmp_path, pulled):
    assert here(tmp_path) == {
        "embedded": True, "clip": False, "clip-large": False, "drawings": True, "onnx:FOLDER-OR-HUB-ID": None,
        "open_clip:ARCH/PRETRAINED": None, "https://HOST/v1?model=NAME": None}  # fmt: skip
    assert here(pulled[0])["clip"] is True
    shown, _ = lpp(tmp_path, "encoders")
    assert "608 MB" in shown
    assert "yes, after a download" in shown


def test_a_download_tells_its_size_first(pulled):
    _, (out, err), fetched = pulled
    parts = ("visual", "textual")
    size = sum(file.stat().st_size for part in parts for file in (FOLDERS["drawings"] / part).iterdir())
    assert f"{HUB_ID} is downloaded once from the Hugging Face hub, {size / 1e6:.0f} MB" in err
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
    with hub(HUB_ID, COMMIT, FOLDERS["drawings"]) as (address, _, _):
        lpp(home, "encoders", "pull", "clip", endpoint=address)
    (weights,) = home.glob("hub/*/snapshots/*/visual/model.onnx")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.resolve().write_bytes(content)
    _, refused = lpp(home, "encoders", "pull", "clip", status=1)
    assert f"is damaged: remove {weights.resolve()}" in refused.replace("\n", "")


def test_weights_of_someone_else_are_refused(tmp_path):
    """The hub is at one with itself, and yet these are not the weights that were pinned."""
    others = WEIGHTS | {"visual/model.onnx": "0" * 64}
    with hub(HUB_ID, COMMIT, FOLDERS["drawings"]) as (address, _, _):
        _, refused = lpp(tmp_path, "encoders", "pull", "clip", endpoint=address, weights=others, status=1)
        assert f"model.onnx is not the file that {HUB_ID}@{COMMIT} has" in " ".join(refused.split())
        assert "could not" not in lpp(tmp_path, "encoders", "pull", "clip")[1], "with the right pin they are"


def test_an_interrupted_download_goes_on_where_it_stopped(tmp_path):
    """Of a killed download the part that was written stays; a part with other content is not kept."""
    weights = (FOLDERS["drawings"] / "visual" / "model.onnx").read_bytes()
    blobs = tmp_path / "hub" / f"models--{HUB_ID.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{WEIGHTS['visual/model.onnx']}.lpp-part").write_bytes(weights[:1_000_000])
    (blobs / f"{WEIGHTS['textual/model.onnx']}.lpp-part").write_bytes(bytes(1000))
    with hub(HUB_ID, COMMIT, FOLDERS["drawings"]) as (address, _, fetched):
        _, refused = lpp(tmp_path, "encoders", "pull", "clip", endpoint=address, status=1)
        assert "textual/model.onnx arrived damaged and was removed: try again" in " ".join(refused.split())
        lpp(tmp_path, "encoders", "pull", "clip", endpoint=address)
    assert "visual/model.onnx from 1000000" in fetched
    assert [name for name in fetched if name.startswith("textual/model.onnx")][1:] == ["textual/model.onnx"]
    assert not list(blobs.glob("*.lpp-part"))


def test_the_token_for_the_hub_stays_with_the_hub(tmp_path, monkeypatch):
    """Large files lie on another server, to which the hub redirects; it is not told who the user is."""
    asked = []

    class Store(SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            super().do_GET()

        def log_message(self, *args):
            pass

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    keys = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Store, directory=FOLDERS["drawings"])) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        store = f"http://127.0.0.1:{server.server_address[1]}"
        with hub(HUB_ID, COMMIT, FOLDERS["drawings"], store=store, keys=keys) as (address, _, _):
            lpp(tmp_path, "encoders", "pull", "clip", endpoint=address)
        server.shutdown()
    assert sorted(asked) == [("/textual/model.onnx", None), ("/visual/model.onnx", None)]
    assert set(keys) == {"Bearer hf_secret"}


def test_other_words_are_refused(tmp_path):
    for words in (("push", "clip"), ("pull",)):
        assert "lpp encoders pull NAME" in lpp(tmp_path, "encoders", *words, status=2)[1]
