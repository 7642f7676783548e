"""What a model file or a feature store may make us send and fetch: nothing, unless the user says so."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lpplusplus
from commands import complaint, lpp
from embedding_service import embedding_service
from hub_server import hub
from lpplusplus.encoders import EncoderError, NetworkNeededError, open_encoder
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.images import ImageClassifier
from toy_images import make_folder

KEY = "secret-123"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def service():
    """A service that a file names. The key is not meant for it."""
    with embedding_service() as server:
        yield server


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"robin": 2, "wren": 2})


@pytest.fixture
def model(service, photos, tmp_path, monkeypatch):
    """A classifier whose file names the service; it has not been asked yet by whoever got the file."""
    monkeypatch.delenv("LPP_API_KEY", raising=False)
    monkeypatch.delenv("LPP_API_HOST", raising=False)
    ImageClassifier(f"{service.address}?model=clip").fit(photos).save(tmp_path / "model.lpp")
    monkeypatch.setenv("LPP_API_KEY", KEY)
    service.requests.clear()
    service.connections = 0
    return tmp_path / "model.lpp"


def keys(service):
    """The keys that came with requests."""
    assert service.requests
    return {request["headers"].get("Authorization") for request in service.requests}


def test_a_model_file_alone_sends_nothing(model, photos, service, monkeypatch):
    host = service.address.split("/")[2]
    for named in ("", "elsewhere.example", "127.0.0.1:9"):
        monkeypatch.setenv("LPP_API_HOST", named)
        loaded = ImageClassifier.load(model)
        for use in (loaded.predict, loaded.evaluate, loaded.fit):
            with pytest.raises(EncoderError, match=rf"model\.lpp names .* sends .* to {host}.*--allow-network"):
                use(photos)
    assert service.connections == 0


def test_a_network_that_is_allowed_is_announced_and_gets_no_key(model, photos, service, caplog):
    loaded = ImageClassifier.load(model, allow_network=True)
    assert service.connections == 0
    with caplog.at_level(logging.WARNING):
        assert len(loaded.predict(photos)) == 4
    assert f"{model} names the encoder" in caplog.text
    assert keys(service) == {None}
    service.always = lambda handler, asked: handler.answer(401, b"who are you?")
    with pytest.raises(EncoderError, match="No key was sent, since a file named this service"):
        loaded.predict(photos)
    assert keys(service) == {None}


def test_the_key_goes_to_a_host_that_the_user_names(model, photos, service, monkeypatch):
    ImageClassifier.load(model, encoder=f"{service.address}?model=clip").predict(photos)
    assert keys(service) == {f"Bearer {KEY}"}
    for host in ("127.0.0.1", service.address.split("/")[2]):
        service.requests.clear()
        monkeypatch.setenv("LPP_API_HOST", host)
        ImageClassifier.load(model).predict(photos)
        assert keys(service) == {f"Bearer {KEY}"}


def test_a_feature_store_alone_sends_nothing(photos, service, tmp_path, monkeypatch):
    monkeypatch.setenv("LPP_API_KEY", KEY)
    ImageClassifier(service.address).fit(photos, store=tmp_path / "store")
    service.requests.clear()
    service.connections = 0
    with pytest.raises(EncoderError, match="store names the encoder"):
        ImageClassifier().fit(tmp_path / "store")
    assert service.connections == 0
    ImageClassifier(allow_network=True).fit(tmp_path / "store")
    assert keys(service) == {None}


def test_commands(model, photos, service, tmp_path):
    environment = {"LPP_API_KEY": KEY}
    ImageClassifier(service.address).fit(photos, store=tmp_path / "store")
    service.connections = 0
    commands = [
        ["predict", model, photos],
        ["evaluate", model, photos],
        ["train", tmp_path / "store", "-o", tmp_path / "again.lpp"],
    ]
    for command in commands:
        assert " names the encoder 'http://127.0.0.1" in complaint(*command, **environment)
        assert service.connections == 0
    for command in commands[::2]:
        service.requests.clear()
        lpp(*command, "--allow-network", **environment)
        assert keys(service) == {None}
    service.requests.clear()
    lpp(*commands[0], "--encoder", f"{service.address}?model=clip", **environment)
    assert keys(service) == {f"Bearer {KEY}"}


def test_a_folder_on_this_machine_is_opened_but_no_share():
    assert open_encoder(f"onnx:{FOLDERS['drawings']}", named_by="model.lpp").dim == 130
    assert open_encoder("drawings", named_by="model.lpp").dim == 130
    for share in (r"\\server\share\clip", "//server/share/clip", r"/\server\share\clip", r"\/server\share\clip"):
        with pytest.raises(EncoderError, match=r"model\.lpp names .*network share"):
            open_encoder(f"onnx:{share}", named_by="model.lpp")


OPEN = """
import logging, sys
from lpplusplus.encoders import *
try:
    print(open_encoder(sys.argv[1], named_by="model.lpp", allow_network="allow" in sys.argv).spec)
except EncoderError as error:
    print(error)
"""


def opened(spec, *arguments, **environment):
    """In a process of its own, since the hub's client reads its settings when imported."""
    environment = os.environ | {"PYTHONPATH": str(Path(lpplusplus.__file__).parents[1])} | environment
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", OPEN, spec, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_hub_model_is_fetched_only_if_allowed(tmp_path):
    spec = f"onnx:someone/tiny@{COMMIT}"
    with hub("someone/tiny", COMMIT, FOLDERS["drawings"]) as (address, asked, fetched):
        settings = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
        assert "not on this machine and is fetched from the Hugging Face hub" in opened(spec, **settings)[0]
        assert asked == []
        said, announced = opened(spec, "allow", **settings)
        assert said == spec
        assert f"model.lpp names the encoder '{spec}'" in announced
        assert fetched
        asked.clear()
        assert opened(spec, **settings) == (spec, ""), "what is here is opened without asking the hub"
        assert asked == []
        assert "is fetched" in opened("onnx:someone/tiny@other", **settings)[0]
        assert asked == []


def test_open_clip_models_are_opened_from_the_cache(tmp_path, monkeypatch, open_clip):
    import huggingface_hub

    import exports
    from lpplusplus.encoders.base import Access
    from lpplusplus.encoders.open_clip import KIND

    _, weights = exports.write_checkpoint("lpp-tiny-vit", tmp_path)
    tag = {"hf_hub": "someone/tiny/", "mean": (0.1, 0.2, 0.3), "interpolation": "bilinear", "resize_mode": "squash"}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "lpp-tiny-vit", {"mine": tag})
    monkeypatch.setattr("socket.socket.connect", None)  # Whoever tries to reach another machine fails.
    for spec in ("lpp-tiny-vit/mine", "hf-hub:someone/tiny", "local-dir:folder", "ViT-B-16-SigLIP/webli"):
        with pytest.raises(NetworkNeededError):
            KIND.open(f"open_clip:{spec}", Access.LOCAL)
    assert KIND.open(f"open_clip:lpp-tiny-vit/{weights}", Access.LOCAL).dim == 32
    cache = {"open_clip_model.safetensors": str(weights)}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: cache.get(name))
    here = KIND.open("open_clip:lpp-tiny-vit/mine", Access.LOCAL)
    monkeypatch.setattr(open_clip.factory, "download_pretrained", lambda *args, **options: str(weights))
    fetched = KIND.open("open_clip:lpp-tiny-vit/mine", Access.KEY)
    for attribute in ("spec", "fingerprint", "preprocessing"):
        assert getattr(here, attribute) == getattr(fetched, attribute)
    assert "squash" in here.preprocessing
    image = [np.zeros((3, 64, 64), np.float32)]
    assert np.array_equal(here.encode_prepared(image), fetched.encode_prepared(image))
