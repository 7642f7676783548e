"""The backend for Label Studio: its protocol, what it learns, and which images it does not fetch."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lpplusplus.encoders.pixels.decoding import DEFAULT_LIMITS, ImageError
from lpplusplus.encoders.pixels.preprocessing import ElongatedError
from lpplusplus.images import ImageClassifier
from toy_encoder import ToyEncoder
from toy_images import encoded, toy_image

pytest.importorskip("fastapi", reason="needs the extra serve")
from starlette.testclient import TestClient

from lpplusplus.deploy.annotation_learner import AnnotationLearner
from lpplusplus.deploy.label_studio import LabelConfig, Photos, make_backend

CONFIG = (
    '<View><Image name="image" value="$photo"/><Choices name="bird" toName="image" choice="single">'
    '<Choice value="robin"/><Choice value="reed_warbler"/></Choices></View>'
)
TOKEN = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def label_studio(annotated=(), while_exporting=lambda: None, files=None):
    """As much of Label Studio as the backend asks: files, with a token, and a project's export."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            status, content = 200, json.dumps(list(annotated)).encode()
            if self.headers.get("Authorization") != f"Token {TOKEN}":
                status = 401
            elif files and self.path in files:
                content = files[self.path]
            elif self.path.startswith("/data/upload/"):
                content = encoded(toy_image(int(self.path.rpartition("/")[2].partition(".")[0])), "PNG")
            elif "/export" in self.path:
                while_exporting()
            elif self.path.startswith("/data/away"):
                status = 302
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def backend(url, output, folder=None, encoder=None, **options):
    learner = AnnotationLearner(
        encoder or ToyEncoder(), "a photo of a {}.", Photos(url, TOKEN, folder, DEFAULT_LIMITS), output, DEFAULT_LIMITS
    )
    with TestClient(
        make_backend(learner, **options), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as client:
        client.learner = learner
        yield client


def annotation(number, seed, label, action="ANNOTATION_CREATED", **more):
    result = [{"from_name": "bird", "to_name": "image", "type": "choices", "value": {"choices": [label]}}]
    return {
        "action": action,
        "project": {"id": 1, "label_config": CONFIG},
        "task": {"id": seed, "data": {"photo": f"/data/upload/1/{seed}.png"}},
        "annotation": {"id": number, "result": result, **more},
    }


def tasks(*seeds):
    listed = [{"id": seed, "data": {"photo": f"/data/upload/1/{seed}.png"}} for seed in seeds]
    return {"tasks": listed, "project": "1.1", "label_config": CONFIG}


def chosen(answer):
    return [one["result"][0]["value"]["choices"][0] if one["result"] else None for one in answer.json()["results"]]


def test_it_learns_from_every_annotation(tmp_path):
    output = tmp_path / "birds.lpp"
    with label_studio() as (url, asked), backend(url, output) as client:
        assert client.get("/health").json()["status"] == "UP"
        assert client.post("/setup", json={"project": "1.5", "schema": CONFIG, "hostname": "http://evil"}).json()
        first = client.post("/predict", json=tasks(0, 1)).json()
        assert [set(one) for one in first["results"]] == [{"result", "score", "model_version"}] * 2
        assert first["model_version"] == "names"
        for number, (seed, label) in enumerate([(0, "robin"), (1, "reed_warbler"), (2, "robin"), (3, "reed_warbler")]):
            assert client.post("/webhook", json=annotation(number, seed, label)).status_code == 201
            client.learner.wait()
            assert client.get("/health").json()["version"] == f"{number + 1} annotations"
        answer = client.post("/predict", json=tasks(0, 1, 2, 3))
        assert chosen(answer) == ["robin", "reed_warbler", "robin", "reed_warbler"]
        assert all(0.5 < one["score"] <= 1 for one in answer.json()["results"])

        client.post("/webhook", json=annotation(0, 0, "reed_warbler", "ANNOTATION_UPDATED"))
        client.post("/webhook", json={"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 3}]})
        client.learner.wait()
        assert client.get("/health").json()["version"] == "3 annotations"
        assert chosen(client.post("/predict", json=tasks(0))) == ["reed_warbler"]
        paths = [path for path, _ in asked]
        assert len([path for path in paths if "upload" in path]) == 4, "every image is fetched once"
    saved = ImageClassifier.load(output, encoder=ToyEncoder())
    assert saved.classes_.tolist() == ["robin", "reed_warbler"]
    assert saved.names_ == ("robin", "reed warbler")
    assert saved.predict([toy_image(1)]).tolist() == ["reed_warbler"]


def test_after_a_start_it_asks_for_what_was_annotated_before(tmp_path):
    earlier = [
        {"data": one["task"]["data"], "annotations": [one["annotation"]]}
        for one in (
            annotation(7, 1, "robin"),
            annotation(8, 2, "reed_warbler"),
            annotation(9, 3, "robin", was_cancelled=True),
        )
    ]
    with label_studio(earlier) as (url, asked), backend(url, tmp_path / "birds.lpp") as client:
        assert client.post("/setup", json={"project": "12.5", "schema": CONFIG}).status_code == 200
        client.learner.wait()
        assert client.get("/health").json()["version"] == "2 annotations"
        assert ("/api/projects/12/export?exportType=JSON", f"Token {TOKEN}") in asked


def test_what_is_annotated_during_a_slow_export_is_kept(tmp_path):
    """The export says what was there when it began; meanwhile one annotation came, one changed, and one was deleted."""
    earlier = [
        {"data": one["task"]["data"], "annotations": [one["annotation"]]}
        for one in (annotation(7, 1, "robin"), annotation(8, 2, "reed_warbler"), annotation(9, 3, "robin"))
    ]

    def meanwhile():
        for sent in (
            annotation(50, 4, "reed_warbler"),
            annotation(7, 1, "reed_warbler", "ANNOTATION_UPDATED"),
            {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 8}]},
        ):
            assert clients[0].post("/webhook", json=sent).status_code == 201

    with label_studio(earlier, meanwhile) as (url, _), backend(url, tmp_path / "birds.lpp") as client:
        clients = [client]
        assert client.post("/setup", json={"project": "12.5", "schema": CONFIG}).status_code == 200
        client.learner.wait()
        assert client.get("/health").json()["version"] == "3 annotations"
        assert chosen(client.post("/predict", json=tasks(1, 3, 4))) == ["reed_warbler", "robin", "reed_warbler"]


def test_images_with_an_annotation_stay_in_memory(tmp_path, monkeypatch):
    """Others are dropped for them, the oldest first, and fetched again when they are asked for."""
    monkeypatch.setattr("lpplusplus.deploy.annotation_learner.MOST_KEPT", 5)
    with label_studio() as (url, asked), backend(url, tmp_path / "birds.lpp") as client:
        for number in range(4):
            client.post("/webhook", json=annotation(number, number, "robin" if number % 2 else "reed_warbler"))
        client.learner.wait()
        client.post("/predict", json=tasks(*range(10, 20)))
        client.post("/webhook", json=annotation(4, 19, "robin"))
        client.learner.wait()
        assert client.get("/health").json()["version"] == "5 annotations"
        client.post("/predict", json=tasks(*range(10)))
        for again in (10, 11, 0, 1, 2, 3, 19):
            client.post("/predict", json=tasks(again))
        fetched = [int(path.rpartition("/")[2].partition(".")[0]) for path, _ in asked if "upload" in path]
    assert [fetched.count(number) for number in (0, 1, 2, 3, 19)] == [1] * 5
    assert fetched.count(10) == fetched.count(11) == 2


def test_images_come_from_where_the_user_said_and_from_nowhere_else(tmp_path):
    """What a task names is a wish: no other host, no redirect, no file outside of the folder, no token for others."""
    folder = tmp_path / "files"
    folder.mkdir()
    toy_image(1).save(folder / "a.png")
    (tmp_path / "secret.png").write_bytes(encoded(toy_image(2), "PNG"))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "loop.png").symlink_to("loop.png")
    with label_studio() as (url, asked), label_studio() as (other, asked_of_other):
        photos, there = Photos(url, TOKEN, folder, DEFAULT_LIMITS), other.partition("//")[2]
        assert photos.read("/data/upload/1/5.png") == photos.read(f"{url}/data/upload/1/5.png")
        assert photos.read("/data/local-files/?d=a.png") == (folder / "a.png").read_bytes()
        bad = [
            f"{other}/data/upload/1/5.png", f"//{there}/data/upload/1/5.png", "file:///etc/passwd",
            "s3://bucket/a.png", f"{url}@{there}/a.png", "/data/local-files/?d=../secret.png",
            "/data/local-files/?d=%2Fetc%2Fpasswd", "/data/local-files/?d=link.png", "/data/away", None, 5, "a.png",
            "/data/local-files/?d=%00", "/data/local-files/?d=loop.png",
        ]  # fmt: skip
        for where in bad:
            with pytest.raises(ImageError):
                photos.read(where)
        for trick in (f"/{other}/stolen", f"/\t//{there}/x", f"/\\{there}/x", f"/\n/{there}/x", f"/.//{there}/x"):
            with suppress(ImageError):  # Refused, or a path of the Label Studio that the user named.
                photos.read(trick)
        assert asked_of_other == []
        assert [path for path, _ in asked if "/data/upload/" in path] == ["/data/upload/1/5.png"] * 2
        photos.close()
        with backend(url, tmp_path / "birds.lpp", folder) as client:
            for where in (bad[0], *bad[-2:]):  # One bad task does not take their answers from the others.
                sent = {**tasks(1), "tasks": [{"data": {"photo": where}}, {"data": {"photo": "/data/upload/1/1.png"}}]}
                first, second = chosen(client.post("/predict", json=sent))
                assert first is None
                assert second is not None
    for address in ("localhost:8080", "ftp://localhost", "http://me:secret@localhost"):
        with pytest.raises(ValueError, match="is not the address of Label Studio"):
            Photos(address, None, None, DEFAULT_LIMITS)


def test_an_elongated_photo_stops_neither_suggestions_nor_learning(tmp_path):
    class Strict(ToyEncoder):
        def prepare(self, image, rng=None):
            if max(image.size) > 1000 * min(image.size):
                raise ElongatedError("<image>", "an image is too elongated. Crop it.")
            return super().prepare(image, rng)

    thin = encoded(toy_image(0).resize((1, 2000)), "PNG")
    with (
        label_studio(files={"/data/upload/1/9.png": thin}) as (url, _),
        backend(url, tmp_path / "birds.lpp", encoder=Strict()) as client,
    ):
        assert chosen(client.post("/predict", json=tasks(9, 1)))[0] is None
        assert chosen(client.post("/predict", json=tasks(9, 1)))[1] is not None
        for number, (seed, label) in enumerate([(0, "robin"), (9, "robin"), (2, "reed_warbler")]):
            assert client.post("/webhook", json=annotation(number, seed, label)).status_code == 201
        client.learner.wait()
        assert client.get("/health").json()["version"] == "2 annotations"
        assert client.get("/health").json()["problem"] is None


ODD = [None, 5, "x", [], [5], {"a": 1}, True, 1e999, [{"id": {}}]]


@pytest.mark.parametrize("name", ["tasks", "project", "task", "annotation", "annotations", "schema", "label_config"])
def test_requests_of_other_shapes_are_no_mistake_of_the_backend(tmp_path, name):
    with label_studio() as (url, _), backend(url, tmp_path / "birds.lpp") as client:
        client.post("/setup", json={"schema": CONFIG})
        inside = [{name: odd} for odd in ODD]
        inside += [{name: {key: odd}} for key in ("id", "data", "result", "label_config") for odd in ODD]
        inside += [{name: [{key: odd}]} for key in ("id", "data") for odd in ODD]
        inside += [{name: {"id": 1, "result": [{"from_name": "bird", "type": "choices", "value": odd}]}} for odd in ODD]
        for sent in inside:
            for path in ("/setup", "/predict", "/webhook"):
                for action in ("ANNOTATION_CREATED", "ANNOTATIONS_DELETED", "START_TRAINING", 5):
                    whole = {"action": action, "label_config": CONFIG, "project": {"id": 1}} | sent
                    text = json.dumps(whole).replace("Infinity", "1e999")
                    answer = client.post(path, content=text, headers={"Content-Type": "application/json"})
                    assert answer.status_code < 500, (path, text, answer.text)


def test_requests_are_bounded(tmp_path):
    with label_studio() as (url, _), backend(url, tmp_path / "birds.lpp") as client:
        for body in (b'{"tasks":[[0]' + b",[0]" * 600_000 + b"]}", b'{"0":1' + b',"1":1' * 2_000_000 + b"}"):
            answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413


def test_others_are_kept_out_and_nonsense_is_refused(tmp_path):
    with label_studio() as (url, _):
        with backend(url, tmp_path / "a.lpp", password="correct-horse-battery") as client:
            assert client.get("/health").status_code == 401
            assert client.get("/health", auth=("any", "wrong")).status_code == 401
            assert client.get("/health", auth=("any", "correct-horse-battery")).status_code == 200
        with backend(url, tmp_path / "a.lpp") as client:
            assert client.get("/health", headers={"Host": "evil.example"}).status_code == 400
            page = json.dumps(annotation(1, 1, "robin"))  # What a web page could send without being asked.
            assert client.post("/webhook", content=page, headers={"Content-Type": "text/plain"}).status_code == 415
            for path, sent in (
                ("/predict", []),
                ("/predict", tasks() | {"tasks": 5}),
                ("/setup", {"schema": "<View/>"}),
            ):
                assert client.post(path, json=sent).status_code == 422
            assert client.post("/webhook", json={"action": "PROJECT_CREATED"}).status_code == 201


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "missing"),
        ("<View>", "not XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><View/>', "document type"),
        (CONFIG.replace("single", "multiple"), "needs an Image and Choices"),
        (CONFIG.replace("$photo", "http://x"), "needs an Image and Choices"),
    ],
)
def test_configurations_that_are_not_about_one_choice(text, message):
    with pytest.raises(ValueError, match=message):
        LabelConfig.read(text)
