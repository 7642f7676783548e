"""`lpp serve` as a process: signals, complaints, and Schemathesis against its own description."""

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest

from commands import complaint
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from serving import served

pytest.importorskip("fastapi", reason="needs the extra serve")

TOKEN = "correct-horse-battery"


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
        first = httpx2.post(f"{service.address}/predict", files=files(photos[:1]), timeout=30).json()
        assert first["predictions"][0]["top"][0]["label"] == photos[0].parent.name
        answers = []

        def ask():
            answers.append(httpx2.post(f"{service.address}/predict", files=files(photos[:60]), timeout=60))

        asking = threading.Thread(target=ask)
        asking.start()
        while "lpp_queue_images 0.0" in httpx2.get(f"{service.address}/metrics").text and not answers:
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
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            slow.sendall(
                b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
            assert b"408 Request Timeout" in slow.recv(1000)
        assert httpx2.get(f"http://127.0.0.1:{port}/health").json()["status"] == "ok"
        complaints = service.stop(signal.SIGINT)
        assert "everybody who can reach" in complaints
        assert "Traceback" not in complaints
        assert service.process.returncode == 0


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
        assert httpx2.get(f"{service.address}/health").json()["status"] == "ok"
