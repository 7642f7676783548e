"""The service's routes, in this process: answers, limits, several models, newer files."""

import base64
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from helpers import until
from lpplusplus import LPPlusPlus, ZeroShot, encoders
from lpplusplus.encoders import EncoderError
from lpplusplus.images import ImageClassifier
from toy_encoder import ToyEncoder
from toy_images import encoded, make_folder, toy_image

pytest.importorskip("fastapi", reason="needs the extra serve")
from starlette.testclient import TestClient

from lpplusplus.deploy import service
from lpplusplus.deploy.service import make_app
from lpplusplus.deploy.service import models as served
from lpplusplus.deploy.service.models import ModelRegistry
from lpplusplus.deploy.service.server import Settings, read_token

IMAGES = [toy_image(seed) for seed in range(6)]
FILES = [encoded(image, "PNG") for image in IMAGES]
TOKEN = "correct-horse-battery"


class Stubborn(ToyEncoder):
    """Works only while it is allowed to, and fails on demand."""

    def __init__(self, seed=0):
        super().__init__(seed=seed)
        self.allowed, self.asked, self.error = threading.Event(), threading.Event(), None
        self.allowed.set()

    def encode_prepared(self, batch):
        self.asked.set()
        self.allowed.wait(300)
        if self.error is not None:
            raise self.error
        return super().encode_prepared(batch)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier in a file, and the photos it was trained on."""
    folder = tmp_path_factory.mktemp("models")
    clf = ImageClassifier(ToyEncoder()).fit(make_folder(folder / "photos", {"robin": 4, "wren": 4, "owl": 4}))
    clf.save(folder / "birds.lpp")
    return folder / "birds.lpp", clf


@pytest.fixture
def encoder(monkeypatch):
    """The encoder that the saved classifier names, "toy:0"."""
    made = Stubborn()
    kind = encoders.EncoderKind("toy:SEED", "for tests", "images", ("PIL",), lambda spec, access: made)
    module = type("module", (), {"KIND": kind})
    monkeypatch.setitem(encoders.MODULES, "toy", "toy")
    monkeypatch.setattr(encoders, "import_module", lambda name, package, real=encoders.import_module: (
        module if name == "toy" else real(name, package)))  # fmt: skip
    return made


@contextmanager
def client_of(*paths, **settings):
    models = ModelRegistry(paths)
    with TestClient(
        make_app(models, Settings(**settings)), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as c:
        c.registry = models
        yield c


@pytest.fixture
def client(saved, encoder):
    with client_of(saved[0]) as made:
        yield made


def form(*contents):
    return [("images", (f"{number}.png", content)) for number, content in enumerate(contents)]


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    return answer.json()["error"]["message"]


def as_array(answer, labels):
    """(n, K) of an answer that has all classes."""
    rows = [{guess["label"]: guess["probability"] for guess in one["top"]} for one in answer.json()["predictions"]]
    return np.array([[row[label] for label in labels] for row in rows])


def test_all_three_ways_to_ask_give_the_classifiers_answer(client, saved):
    clf = saved[1]
    expected = clf.predict_proba(IMAGES)
    labels = clf.classes_.tolist()
    plain = [base64.b64encode(content).decode() for content in FILES]
    plain[1] = "data:image/png;base64," + plain[1]
    rows = clf.embed(IMAGES).rows.tolist()
    for sent in ({"files": form(*FILES)}, {"json": {"images": plain}}, {"json": {"embeddings": rows}}):
        answer = client.post("/predict", **sent)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "birds"
        np.testing.assert_allclose(as_array(answer, labels), expected, atol=1e-5)
    names = [one["image"] for one in client.post("/predict", files=form(*FILES)).json()["predictions"]]
    assert names == [f"{number}.png" for number in range(6)]


def test_the_likeliest_come_first_and_as_many_as_asked_for(client):
    (one,) = client.post("/predict?top=2", files=form(FILES[0])).json()["predictions"]
    chances = [guess["probability"] for guess in one["top"]]
    assert len(chances) == 2
    assert chances == sorted(chances, reverse=True)


def test_sets_and_none_of_these_are_the_classifiers(client, saved):
    clf = saved[1]
    (one, *_) = client.post("/predict", files=form(*FILES)).json()["predictions"]
    assert (one["set"], one["none_of_these"]) == (None, None)
    asked = {"coverage": 0.8, "false_alarms": 0.2}
    answers = client.post("/predict", files=form(*FILES), params=asked).json()["predictions"]
    labels, sets, order = clf.classes_.tolist(), clf.predict_set(IMAGES, 0.8), -clf.predict_proba(IMAGES)
    expected = [[labels[k] for k in np.argsort(chances) if row[k]] for chances, row in zip(order, sets, strict=True)]
    assert [one["set"] for one in answers] == expected, "the likeliest first, as `lpp predict` tells them"
    assert [one["none_of_these"] for one in answers] == clf.none_of_these(IMAGES, 0.2).tolist()
    refused(client.post("/predict?coverage=1.5", files=form(FILES[0])), 422, "invalid")


def test_classes_health_and_metrics(client, saved):
    about = client.get("/classes").json()
    assert [one["label"] for one in about["classes"]] == saved[1].classes_.tolist()
    assert about["encoder"] == {"name": "toy:0", "fingerprint": "toy-0-24", "dimensions": 24}
    assert client.get("/health").json()["models"]["birds"]["problem"] is None
    client.post("/predict", files=form(*FILES))
    client.get("/nowhere")
    numbers = client.get("/metrics").text
    assert 'lpp_images_total{kind="image",model="birds"} 6.0' in numbers
    assert 'lpp_requests_total{path="other",status="404"} 1.0' in numbers
    assert "lpp_queue_images 0.0" in numbers


def test_openapi_has_examples_that_work(client):
    body = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    example = body["application/json"]["examples"]["images"]["value"]
    assert client.post("/predict", json=example).status_code == 200
    assert client.get("/docs").status_code == 404  # It would load scripts from elsewhere.


JSON = {"content-type": "application/json"}
BAD = {
    "nothing": ({"content": b"hello"}, 415, "unknown_content_type"),
    "not multipart": ({"content": b"hello", "headers": {"content-type": "multipart/form-data"}}, 400, "malformed"),
    "no parts": ({"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=a"}}, 400, "malformed"),
    "not JSON": ({"content": b"{", "headers": JSON}, 400, "malformed"),
    "a list": ({"json": [1]}, 422, "invalid"),
    "both": ({"json": {"images": ["AAAA"], "embeddings": [[1.0]]}}, 422, "invalid"),
    "none": ({"json": {"images": []}}, 422, "invalid"),
    "no file": ({"data": {"images": "text"}, "files": [("other", b"x")]}, 422, "invalid"),
    "another field": ({"files": [("photo", FILES[0])]}, 422, "invalid"),
    "not base64": ({"json": {"images": ["%%%%"]}}, 422, "bad_image"),
    "no image": ({"files": form(FILES[0], b"hello")}, 422, "bad_image"),
    "cut off": ({"files": form(FILES[0][:200])}, 422, "bad_image"),
    "ragged": ({"json": {"embeddings": [[1.0], [1.0, 2.0]]}}, 422, "bad_embeddings"),
    "short": ({"json": {"embeddings": [[1.0, 2.0]]}}, 422, "bad_embeddings"),
    "zeros": ({"json": {"embeddings": [[0.0] * 24]}}, 422, "bad_embeddings"),
    "huge": ({"json": {"embeddings": [[1e300] * 24]}}, 422, "bad_embeddings"),
    "not a number": ({"content": b'{"embeddings": [[NaN]]}', "headers": JSON}, 400, "malformed"),
    "top": ({"files": form(FILES[0]), "params": {"top": 0}}, 422, "invalid"),
    "another model": ({"files": form(FILES[0]), "params": {"model": "cars"}}, 404, "no_such_model"),
    "too many": ({"files": form(*FILES[:1] * 65)}, 413, "too_many_images"),
    "too many rows": ({"json": {"embeddings": [[1.0] * 24] * 65}}, 413, "too_many_images"),
}  # fmt: skip


SMALL_VALUES = {
    "rows of one number": (b'{"embeddings":[[0]' + b",[0]" * 400_000 + b"]}", 413),
    "names of one letter": (b'{"0":1' + b',"1":1' * 300_000 + b"}", 413),
    "empty lists": (b'{"images":[[]' + b",[]" * 500_000 + b"]}", 413),
    "lists in lists": (b'{"embeddings":' + b"[" * 1_500_000, 413),
    "one long name": (b'{"' + b"x" * 1_500_000 + b'":1}', 422),
    "one long number": (b'{"embeddings":[[' + b"1" * 1_500_000 + b"]]}", 400),
}


@pytest.mark.parametrize("name", SMALL_VALUES)
def test_what_json_takes_is_in_proportion_to_what_was_sent(client, name):
    """Millions of small values took a hundred times the memory of the text, and seconds in which nobody else ran."""
    body, status = SMALL_VALUES[name]
    tracemalloc.start()
    try:
        answer = client.post("/predict", content=body, headers=JSON)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == status
    assert len(answer.text) < 1000
    assert peak < 10 * len(body)


def test_as_many_embeddings_as_are_allowed_fit(saved, encoder):
    rows = np.random.default_rng(0).standard_normal((64, 24)).astype(np.float32).astype(float).tolist()
    with client_of(saved[0]) as client:
        assert len(client.post("/predict", json={"embeddings": rows}).json()["predictions"]) == 64
        images = ["data:image/png;base64," + base64.b64encode(content).decode() for content in FILES * 10]
        assert len(client.post("/predict", json={"images": images}).json()["predictions"]) == 60


def test_a_form_that_ends_early_is_refused(client):
    """Cut in the second image, or before the last boundary, which is what a broken connection leaves."""
    whole = client.build_request("POST", "/predict", files=form(*FILES[:2]))
    body, headers = whole.read(), {"content-type": whole.headers["content-type"]}
    assert client.post("/predict", content=body, headers=headers).status_code == 200
    boundary = headers["content-type"].partition("boundary=")[2].encode()
    for end in (len(body) - 300, body.rindex(b"--" + boundary), len(body) - 6, body.index(FILES[1]), 10):
        refused(client.post("/predict", content=body[:end], headers=headers), 400, "malformed")


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_a_clear_refusal(client, name):
    sent, status, code = BAD[name]
    answer = client.post("/predict", **sent)
    message = refused(answer, status, code)
    assert message.endswith(".")
    assert len(message) < 400


def test_a_bad_image_is_named(client):
    assert "1.png: is not a JPEG" in refused(client.post("/predict", files=form(FILES[0], b"x")), 422, "bad_image")


def test_sizes_are_limited(saved, encoder):
    big = encoded(toy_image(0, 400, 400), "BMP")
    limits = {"max_image": 20_000, "max_request": 100_000, "max_pixels": 10_000, "max_images": 4, "queue": 4}
    with client_of(saved[0], **limits) as client:
        refused(client.post("/predict", files=form(big[:30_000])), 413, "image_too_large")
        text = base64.b64encode(big[:30_000]).decode()
        refused(client.post("/predict", json={"images": [text]}), 413, "image_too_large")
        refused(client.post("/predict", files=form(big)), 413, "request_too_large")
        chunks = (big[a : a + 1000] for a in range(0, len(big), 1000))  # No Content-Length tells beforehand.
        refused(
            client.post("/predict", content=chunks, headers={"content-type": "application/json"}),
            413,
            "request_too_large",
        )
        flat = encoded(toy_image(0).resize((200, 200)), "JPEG")
        assert "more than the 10,000 allowed" in refused(client.post("/predict", files=form(flat)), 422, "bad_image")
        assert client.post("/predict", files=form(*FILES[:4])).status_code == 200


def test_requests_share_batches(saved, encoder):
    """While one image is encoded, five wait: the next batch has as many as the encoder takes."""
    with client_of(saved[0]) as client, ThreadPoolExecutor(8) as pool:
        encoder.asked.clear()
        encoder.allowed.clear()
        waiting = [pool.submit(client.post, "/predict", files=form(FILES[0]))]
        assert encoder.asked.wait(300)
        waiting += [pool.submit(client.post, "/predict", files=form(content)) for content in FILES[1:]]
        until(lambda: len(client.app.state.batcher._ready) >= 5)
        encoder.batches.clear()
        encoder.allowed.set()
        assert all(one.result().status_code == 200 for one in waiting)
    assert encoder.batches == [1, encoder.batch_size, 1]


def test_a_full_queue_refuses_and_recovers(saved, encoder):
    encoder.allowed.clear()
    with client_of(saved[0], max_images=4, queue=4) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/predict", files=form(*FILES[:4]))
        until(lambda: "lpp_queue_images 4.0" in client.get("/metrics").text)
        answer = client.post("/predict", files=form(FILES[0]))
        refused(answer, 429, "queue_full")
        assert answer.headers["retry-after"] == "1"
        encoder.allowed.set()
        assert waiting.result().status_code == 200
        assert client.post("/predict", files=form(FILES[0])).status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(saved, encoder):
    encoder.allowed.clear()
    with client_of(saved[0], timeout=0.3) as client:
        refused(client.post("/predict", files=form(*FILES)), 504, "timeout")
        encoder.allowed.set()
        assert client.post("/predict", files=form(*FILES)).status_code == 200
        assert "lpp_queue_images 0.0" in client.get("/metrics").text


def test_an_encoder_that_fails_is_told_apart_from_a_bad_image(client, encoder):
    encoder.error = EncoderError("the service is away.")
    assert "away" in refused(client.post("/predict", files=form(FILES[0])), 503, "encoder_failed")
    encoder.error = RuntimeError("a secret")
    assert "secret" not in refused(client.post("/predict", files=form(FILES[0])), 500, "internal")
    encoder.error = None
    assert client.post("/predict", files=form(FILES[0])).status_code == 200


def test_a_token_keeps_others_out(saved, encoder):
    with client_of(saved[0], token=TOKEN) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            for method, path in (("POST", "/predict"), ("GET", "/classes"), ("GET", "/metrics")):
                answer = client.request(method, path, headers=headers)
                refused(answer, 401, "unauthorised")
                assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/health").json() == {"status": "ok", "version": None, "models": None}
        mine = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/predict", files=form(FILES[0]), headers=mine).status_code == 200
        assert "birds" in client.get("/health", headers=mine).json()["models"]
    assert TOKEN not in repr(Settings(token=TOKEN))


def test_a_web_page_cannot_reach_it_by_a_name_of_its_own(saved, encoder):
    elsewhere = {"Host": "evil.example"}
    with client_of(saved[0]) as client:
        assert client.get("/classes", headers=elsewhere).status_code == 400
    with client_of(saved[0], local=False) as client:
        assert client.get("/classes", headers=elsewhere).status_code == 200


def test_tokens_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("LPP_SERVE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("LPP_SERVE_TOKEN", f" {TOKEN}\n")
    assert read_token(None) == TOKEN
    (tmp_path / "token").write_text("short")
    with pytest.raises(ValueError, match="16 or more"):
        read_token(tmp_path / "token")


def test_several_models_share_an_encoder(saved, encoder, tmp_path):
    numbers = LPPlusPlus().fit(np.eye(4), [0, 0, 1, 1])
    numbers.save(tmp_path / "numbers.lpp")
    ZeroShot().fit(text=np.eye(4), classes=list("abcd")).save(tmp_path / "zero.lpp")
    other = tmp_path / "more.lpp"
    other.write_bytes(saved[0].read_bytes())
    with client_of(saved[0], other, tmp_path / "numbers.lpp", tmp_path / "zero.lpp") as client:
        first, second, third, _ = client.registry.models
        assert first.encoder is second.encoder
        assert third.encoder is None
        assert client.post("/predict?model=more", files=form(FILES[0])).json()["model"] == "more"
        answer = client.post("/predict?model=numbers", json={"embeddings": [[1, 0, 0, 0]]})
        assert answer.json()["predictions"][0]["top"][0]["label"] == "0"
        assert client.get("/classes?model=numbers").json()["encoder"] is None
        refused(client.post("/predict?model=numbers", files=form(FILES[0])), 422, "embeddings_only")
        asked = {"json": {"embeddings": [[1, 0, 0, 0]]}, "params": {"model": "zero", "coverage": 0.9}}
        refused(client.post("/predict", **asked), 422, "cannot_doubt")
    with pytest.raises(ValueError, match="both be called 'birds'"):
        ModelRegistry([saved[0], saved[0]])


def test_a_replaced_file_is_used_and_a_broken_one_is_not(saved, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(service, "SECONDS_BETWEEN_LOOKS", 0.02)
    path = tmp_path / "birds.lpp"
    path.write_bytes(saved[0].read_bytes())
    two = ImageClassifier(ToyEncoder()).fit(make_folder(tmp_path / "photos", {"cat": 3, "dog": 3}))

    def health(client, status):
        return until(lambda: (now := client.get("/health").json())["status"] == status and now)

    with client_of(path) as client:
        before = client.get("/health").json()["models"]["birds"]
        path.write_bytes(b"broken")
        assert "truncated" in health(client, "stale")["models"]["birds"]["problem"]
        assert len(client.get("/classes").json()["classes"]) == 3
        assert client.post("/predict", files=form(FILES[0])).status_code == 200
        two.save(path)
        health(client, "ok")
        assert [one["label"] for one in client.get("/classes").json()["classes"]] == ["cat", "dog"]
        path.unlink()
        assert "no such file" in health(client, "stale")["models"]["birds"]["problem"]
        assert client.post("/predict", files=form(FILES[0])).status_code == 200
        numbers = client.get("/metrics").text
    assert before["problem"] is None
    assert 'lpp_reloads_total{model="birds",result="success"} 1.0' in numbers
    assert 'lpp_reloads_total{model="birds",result="failure"} 2.0' in numbers


def test_no_answer_names_a_path(saved, encoder, tmp_path, monkeypatch):
    """Why a newer file is not used is said without folders; another folder in the reason is left to the log."""
    monkeypatch.setattr(service, "SECONDS_BETWEEN_LOOKS", 0.02)
    path = tmp_path / "birds.lpp"
    path.write_bytes(saved[0].read_bytes())

    def stale(client):
        return until(lambda: (health := client.get("/health")).json()["status"] == "stale" and health)

    with client_of(path) as client:
        path.write_bytes(b"broken")
        health = stale(client)
        assert "birds.lpp is not a whole safetensors file" in health.json()["models"]["birds"]["problem"]
        assert str(tmp_path) not in health.text

        def elsewhere(path):
            raise OSError(2, "there is no such file", f"{tmp_path}/encoder/model.onnx")

        path.write_bytes(saved[0].read_bytes())
        until(lambda: client.get("/health").json()["status"] == "ok")
        monkeypatch.setattr(served, "load", elsewhere)
        path.write_bytes(saved[0].read_bytes() + b" ")
        health = stale(client)
        assert "birds.lpp cannot be used: the log says why." in health.json()["models"]["birds"]["problem"]
        assert str(tmp_path) not in health.text
        encoder.spec = f"onnx:{tmp_path}/clip"
        (model,) = client.registry.models
        model.classifier.origin_ = replace(model.origin, spec=encoder.spec)
        assert client.get("/classes").json()["encoder"]["name"] == "onnx:clip"


def test_labels_and_weights_are_of_one_file(saved, encoder, tmp_path, monkeypatch):
    """Also if the file is replaced between two looks at it."""
    path = tmp_path / "birds.lpp"
    saved[1].save(path)
    two = ImageClassifier(ToyEncoder()).fit(make_folder(tmp_path / "photos", {"cat": 3, "dog": 3}))

    def load_and_replace(path, real=served.load):
        found = real(path)
        two.save(path)
        return found

    monkeypatch.setattr(served, "load", load_and_replace)
    (model,) = ModelRegistry([path]).models
    assert list(model.names) == model.classifier.classes_.tolist()
    assert list(model.names.values()) == ["cat", "dog"]


def test_no_answer_mixes_two_models_while_files_are_replaced(saved, encoder, tmp_path, monkeypatch):
    """Every answer has the classes of one file, whatever happens meanwhile."""
    monkeypatch.setattr(service, "SECONDS_BETWEEN_LOOKS", 0.01)
    path = tmp_path / "birds.lpp"
    two = ImageClassifier(ToyEncoder()).fit(make_folder(tmp_path / "photos", {"cat": 3, "dog": 3}))
    saved[1].save(path)
    seen = set()
    with client_of(path) as client:
        for turn in range(60):
            if turn % 5 == 0:
                (two if turn % 2 else saved[1]).save(path)
            answer = client.post("/predict", files=form(FILES[0])).json()
            seen.add(frozenset(guess["label"] for guess in answer["predictions"][0]["top"]))
    assert seen == {frozenset({"cat", "dog"}), frozenset({"robin", "wren", "owl"})}


def test_limits_must_fit_together():
    with pytest.raises(ValueError, match="no room for a request of 64"):
        Settings(queue=10)
