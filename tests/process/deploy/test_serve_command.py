"""`lpp serve` as a process: signals, complaints, and Schemathesis against its own description."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import httpx2
import pytest

from commands import LPP, complaint
from helpers import until
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from serving import served

pytest.importorskip("fastapi", reason="needs the extra serve")

TOKEN = "correct-horse-battery"
get = partial(httpx2.get, timeout=600)
"""On a busy machine any answer may take long."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawings")
    write_demo(folder, 3, seed=1)
    return sorted(folder.glob("*/*.jpg"))


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "shapes.lpp"
    ImageClassifier("drawings").fit(photos[0].parents[1]).save(path)
    return path


def files(photos):
    return [("images", (path.name, path.read_bytes())) for path in photos]


def test_it_answers_and_finishes_what_is_under_way_when_stopped(model, photos):
    with served("serve", model) as service:
        first = httpx2.post(f"{service.address}/predict", files=files(photos[:1]), timeout=600).json()
        assert first["predictions"][0]["top"][0]["label"] == photos[0].parent.name
        answers = []

        def ask():
            answers.append(httpx2.post(f"{service.address}/predict", files=files(photos[:60]), timeout=600))

        asking = threading.Thread(target=ask)
        asking.start()
        while "lpp_queue_images 0.0" in get(f"{service.address}/metrics").text and not answers:
            time.sleep(0.002)
        complaints = service.stop()
        asking.join()
        assert len(answers[0].json()["predictions"]) == 60
        assert service.process.returncode == 0
        assert "every request under way was answered" in complaints
        assert "Traceback" not in complaints


def test_slow_senders_are_given_up_and_ctrl_c_stops_it(model):
    with served("serve", model, "--timeout", "0.5", "--host", "0.0.0.0") as service:
        port = int(service.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=300) as slow:
            slow.sendall(
                b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
            assert b"408 Request Timeout" in slow.recv(1000)
        assert get(f"http://127.0.0.1:{port}/health").json()["status"] == "ok"
        complaints = service.stop(signal.SIGINT)
        assert "everybody who can reach" in complaints
        assert "Traceback" not in complaints
        assert service.process.returncode == 0


@contextlib.contextmanager
def connection(address, *sent):
    host, port = address.partition("//")[2].partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=300) as made:
        for part in sent:
            made.sendall(part)
        yield made


@pytest.mark.parametrize("command", ["serve", "label-studio", "app"])
@pytest.mark.parametrize("where", ["one header", "many headers", "the address"])
def test_headers_are_limited_before_anything_reads_them(model, tmp_path, command, where):
    """Also before the token and the password: who has neither may not fill the memory."""
    pytest.importorskip("nicegui") if command == "app" else None
    arguments = {
        "serve": [model], "label-studio": [tmp_path / "new.lpp", "-e", "drawings"], "app": [tmp_path / "p", "--no-open"]
    }  # fmt: skip
    line = {"one header": b"X: " + b"a" * 2**18, "many headers": b"X: a\r\n" * 2**16, "the address": b""}[where]
    path = b"/?" + b"a" * 2**18 if where == "the address" else b"/health"
    with served(command, *arguments[command], LPP_SERVE_TOKEN=TOKEN, LABEL_STUDIO_API_KEY=TOKEN) as service:
        with connection(service.address) as made, contextlib.suppress(ConnectionError):
            made.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + line)
            assert made.recv(100).split()[1] == b"400"
        assert get(f"{service.address.partition('/?')[0]}/health").status_code < 500
        assert "Traceback" not in service.stop()


def test_others_are_answered_between_the_small_chunks_of_a_client(model):
    """Each chunk takes time to parse, however small, and one read of the socket has 40 000 of one byte."""
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    with served("serve", model, "--timeout", "600") as service:
        body = b'{"embeddings": [' + b" " * 200_000 + b"[1]]}"
        sent = [head, b"\r\n\r\n", *(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n"]
        with connection(service.address) as made:
            flood = threading.Thread(target=made.sendall, args=[b"".join(sent)])
            flood.start()
            answered = 0
            while not select.select([made], [], [], 0)[0]:
                answered += get(f"{service.address}/health").status_code == 200
            flood.join()
            assert b"bad_embeddings" in made.recv(1000)  # All was read, in its order.
        assert answered > 4  # 56 on a busy machine; none in between where one read of the socket is parsed to its end.
        assert "Traceback" not in service.stop()


def test_a_client_that_leaves_is_no_mistake_of_the_service(model):
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nContent-Type: "
    part = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n\r\n' + b"x" * 5000
    bodies = [b"application/json\r\n\r\n{", b"multipart/form-data; boundary=b\r\n\r\n" + part]
    with served("serve", model) as service:
        for body in bodies:
            with connection(service.address, head + body):
                time.sleep(0.05)  # Whether it has read all by then or not makes no difference.
        while 'lpp_requests_total{path="/predict",status="499"} 2.0' not in (
            numbers := get(f"{service.address}/metrics").text
        ):
            assert 'status="500"' not in numbers
            time.sleep(0.01)
        assert "Traceback" not in service.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_in_place_of_a_classifier_is_not_waited_for(model, photos, tmp_path):
    path = tmp_path / "shapes.lpp"
    path.write_bytes(model.read_bytes())
    with served("serve", path) as service:
        path.unlink()
        os.mkfifo(path)
        health = until(lambda: (now := get(f"{service.address}/health").json())["status"] != "ok" and now)
        assert "shapes.lpp is a pipe or a device" in health["models"]["shapes"]["problem"]
        assert httpx2.post(f"{service.address}/predict", files=files(photos[:1]), timeout=600).status_code == 200
        service.stop()
        assert service.process.returncode == 0
    for command in (["predict", path, photos[0]], ["serve", path], ["inspect", path]):
        done = subprocess.run([*LPP, *map(str, command)], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 1
        assert "is a pipe or a device, not a classifier" in done.stderr


def test_complaints_are_one_line(model, tmp_path):
    assert "no such file" in complaint("serve", tmp_path / "none.lpp")
    assert "would both be called 'shapes'" in complaint("serve", model, model)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in complaint("serve", model, "--port", taken.getsockname()[1])
    assert "16 or more" in complaint("serve", model, LPP_SERVE_TOKEN="short")


def test_schemathesis_finds_nothing(model, tmp_path):
    """Its own description is what it does: right and wrong requests, the same ones each time."""
    program = shutil.which("schemathesis", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("needs the package schemathesis")
    # Too many images are refused with 413, which it does not take for a refusal by itself.
    (tmp_path / "schemathesis.toml").write_text(
        "checks.negative_data_rejection.expected-statuses = [400, 401, 404, 413, 415, 422]"
    )
    with served("serve", model, LPP_SERVE_TOKEN=TOKEN) as service:
        done = subprocess.run(
            [
                program, "run", f"{service.address}/openapi.json", "--max-examples", "15",
                "--generation-deterministic", "--no-color", "--header", f"Authorization: Bearer {TOKEN}",
                # No schema can say which bytes are an image, nor which length the embeddings of a model have.
                "--exclude-checks", "positive_data_acceptance",
            ],
            cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        assert get(f"{service.address}/health").json()["status"] == "ok"
