"""`lpp app` and clients that do not behave: endless headers, those who leave, photos that no encoder takes."""

import io
import json
import socket
import time
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx2
import pytest
from PIL import Image

from serving import served
from toy_images import encoded, make_folder, toy_image

pytest.importorskip("websockets", reason="needs the extra app")
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


@pytest.fixture
def service(tmp_path):
    make_folder(tmp_path / "birds", {"robin": 2, "wren": 2})
    with served("app", tmp_path / "birds", "--no-open") as running:
        running.port = urlsplit(running.address).port
        yield running


@contextmanager
def known(service):
    """A client with the cookie."""
    origin = f"http://127.0.0.1:{service.port}"
    with httpx2.Client(base_url=origin, trust_env=False, headers={"Origin": origin}, timeout=600) as client:
        assert client.get(service.address).status_code == 200
        yield client


def test_a_photo_of_one_by_five_thousand_is_refused_and_no_mistake(service):
    with known(service) as client:
        for _ in range(600):  # Until the encoder is open, there is nothing to ask.
            answer = client.post("/try", files={"files": ("line.png", encoded(Image.new("RGB", (1, 5000)), "PNG"))})
            assert answer.status_code == 200
            if answer.json()["refused"]:
                break
            time.sleep(0.1)
        assert answer.json()["refused"][0]["name"] == "'line.png'"
        assert answer.json()["key"] is None
    assert "Traceback" not in service.stop()


def test_a_client_that_leaves_during_an_upload_is_no_traceback(service):
    with known(service) as client:
        ((name, value),) = client.cookies.items()
    head = [
        "POST {} HTTP/1.1", f"Host: 127.0.0.1:{service.port}", f"Origin: http://127.0.0.1:{service.port}",
        f"Cookie: {name}={value}", "Content-Type: multipart/form-data; boundary=x", "Content-Length: 100000", "", "",
    ]  # fmt: skip
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    for path in ("/upload/robin", "/try"):
        with socket.create_connection(("127.0.0.1", service.port), timeout=300) as connection:
            connection.sendall("\r\n".join(head).format(path).encode() + part + encoded(toy_image(), "PNG"))
    time.sleep(0.5)
    with known(service) as client:
        assert client.get("/").status_code == 200
    assert "Traceback" not in service.stop()


def test_a_form_that_ends_too_early_is_refused(service):
    """The second photo was cut: the first was taken, and nobody was told."""
    file = io.BytesIO()
    toy_image().save(file, "PNG")
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n' + file.getvalue() + b"\r\n"
    with known(service) as client:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        for body in (part + part[:-90], part):
            assert client.post("/upload/robin", content=body, headers=headers).status_code == 400
        assert client.post("/upload/robin", content=part + b"--x--\r\n", headers=headers).json()["added"]


def test_tabs_that_are_torn_off_are_no_traceback(service):
    """While the program is about to send them something, with and without a goodbye."""
    origin = f"http://127.0.0.1:{service.port}"
    with known(service) as client:
        ((name, value),) = client.cookies.items()
        options = {"origin": origin, "open_timeout": 300, "additional_headers": {"Cookie": f"{name}={value}"}}
        for turn in range(12):
            with (
                suppress(ConnectionError, ConnectionClosed),
                connect(f"{origin}/tab".replace("http", "ws"), **options) as tab,
            ):
                tab.send('"tab=understand"' if turn % 3 else "no json")
                tab.send(json.dumps({"do": "add_class", "name": f"kind {turn}"}))
                if turn % 2:
                    tab.socket.shutdown(socket.SHUT_RDWR)
        time.sleep(1)
        assert client.get("/").status_code == 200
    said = service.stop()
    assert "Traceback" not in said, said[-3000:]
