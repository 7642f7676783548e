"""An embedding service, tested against a real server on this machine that misbehaves on demand."""

import base64
import email.utils
import hashlib
import io
import json
import pickle
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from lpplusplus.encoders import EncoderError, open_encoder
from lpplusplus.encoders._post import Post, _retry_after
from lpplusplus.encoders.http import HttpEncoder

DIM = 16


def embed(item, dim=DIM):
    """What the service answers: a function of the text, or of the pixels that arrive."""
    if isinstance(item, dict):
        item = item.get("text") or "data:image/png;base64," + item["image"]
    if item.startswith("data:image/png;base64,"):
        content = base64.b64decode(item.partition(",")[2], validate=True)
        item = repr((Image.open(io.BytesIO(content)).size, hashlib.sha256(content).hexdigest()))
    seed = int.from_bytes(hashlib.sha256(item.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


class Service(ThreadingHTTPServer):
    """Keeps what it was asked; `faults` are answers given instead of the right one, first come first served."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.faults, self.always = [], [], None
        self.alter = lambda answer: answer

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the tests."""

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        server = self.server
        server.requests.append({"path": self.path, "headers": dict(self.headers), "body": asked, "size": len(body)})
        fault = server.faults.pop(0) if server.faults else server.always
        if fault is not None and fault(self, asked) is not None:
            return
        items = asked["input"] if "input" in asked else [m["content"][0]["image_url"]["url"] for m in asked["messages"]]
        rows = [{"object": "embedding", "index": i, "embedding": embed(x).tolist()} for i, x in enumerate(items)]
        self.answer(200, server.alter({"object": "list", "data": rows[::-1], "model": asked.get("model")}))

    def answer(self, status, value, **headers):
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        headers = {name.replace("_", "-"): header for name, header in headers.items()}
        for name, header in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, header)
        self.end_headers()
        self.wfile.write(content)
        return True

    def log_message(self, *args):
        pass


def error(status, value=b"sorry", **headers):
    return lambda handler, asked: handler.answer(status, value, **headers)


@pytest.fixture
def service(monkeypatch):
    monkeypatch.delenv("LPP_API_KEY", raising=False)
    server = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def encoder(service):
    opened = HttpEncoder(f"{service.address}?model=clip", first_wait=0.01, timeout=5)
    service.requests.clear()
    return opened


def images(n=3, size=(40, 30)):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)) for _ in range(n)]


def test_texts_and_images_in_the_order_asked(service, encoder):
    texts = [f"text {i}" for i in range(70)]
    assert encoder.dim == DIM
    assert np.array_equal(encoder.encode_texts(texts), np.stack([embed(text) for text in texts]))
    assert [len(r["body"]["input"]) for r in service.requests] == [32, 32, 6]
    first = service.requests[0]
    assert first["path"] == "/v1/embeddings"
    assert first["body"]["model"] == "clip"
    assert first["body"]["encoding_format"] == "float"
    assert "modality" not in first["body"]
    assert "Authorization" not in first["headers"]
    pictures = images()
    expected = [embed("data:image/png;base64," + encoder.prepare(picture)) for picture in pictures]
    assert np.array_equal(encoder.encode_images(pictures), np.stack(expected))
    assert service.requests[-1]["body"]["modality"] == "image"
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, DIM)


def test_images_arrive_pixel_for_pixel_or_reduced(encoder):
    small, large = images(1)[0], images(1, (1500, 1024))[0]
    sent = [Image.open(io.BytesIO(base64.b64decode(encoder.prepare(one)))) for one in (small, large)]
    assert np.array_equal(np.asarray(sent[0]), np.asarray(small))
    assert sent[1].size == (750, 512)
    view = Image.open(io.BytesIO(base64.b64decode(encoder.prepare(small, np.random.default_rng(0)))))
    assert 0.45 < view.width * view.height / 1200 <= 1


@pytest.mark.parametrize("form", ["jina", "vllm"])
def test_other_forms_of_images(service, form):
    encoder = open_encoder(f"{service.address}?model=m&images={form}")
    pictures = images()
    expected = [embed("data:image/png;base64," + encoder.prepare(picture)) for picture in pictures]
    assert np.array_equal(encoder.encode_images(pictures), np.stack(expected))
    assert np.array_equal(encoder.encode_texts(["a cat"])[0], embed("a cat"))
    if form == "vllm":
        assert len(service.requests) == 1 + 3 + 1
        assert service.requests[1]["body"]["messages"][0]["content"][0]["type"] == "image_url"


def test_requests_stay_under_the_limits(service):
    encoder = HttpEncoder(f"{service.address}?model=some-model", batch_size=10, request_limit=25_000)
    service.requests.clear()
    pictures = images(7, (64, 40))
    assert len(encoder.encode_images(pictures)) == 7
    assert [len(r["body"]["input"]) for r in service.requests] == [2, 2, 2, 1]
    assert max(r["size"] for r in service.requests) <= 25_000
    encoder.encode_texts(["x"] * 5000)
    assert max(r["size"] for r in service.requests) <= 25_000
    with pytest.raises(EncoderError, match="more than the 25000 of a request"):
        encoder.encode_texts(["x" * 30_000])


def test_too_large_requests_are_halved(service, encoder):
    def refuse(handler, asked):
        return handler.answer(413, b"too big") if len(asked["input"]) > 3 else None

    service.always = refuse
    texts = [f"t{i}" for i in range(10)]
    assert np.array_equal(encoder.encode_texts(texts), np.stack([embed(text) for text in texts]))
    service.always = error(413, b"too big")
    with pytest.raises(EncoderError, match="413"):
        encoder.encode_texts(texts)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_faults_are_tried_again(service, encoder, status):
    service.faults = [error(status), error(status)]
    assert np.array_equal(encoder.encode_texts(["a"])[0], embed("a"))
    assert len(service.requests) == 3


def test_retry_after_is_honoured(service, encoder):
    service.faults = [error(429, Retry_After="1")]
    start = time.monotonic()
    encoder.encode_texts(["a"])
    assert 1 <= time.monotonic() - start < 4


def test_retry_after_is_bounded():
    assert _retry_after("7") == 7
    assert _retry_after("86400") == _retry_after("inf") == 60
    assert _retry_after("nonsense") == _retry_after(None) == _retry_after("-5") == _retry_after("nan") == 0
    assert 20 < _retry_after(email.utils.formatdate(time.time() + 30, usegmt=True)) <= 30


def test_lasting_faults_end(service):
    encoder = HttpEncoder(service.address, first_wait=0.01, attempts=3)
    service.requests.clear()
    service.always = error(500, b"broken inside")
    with pytest.raises(EncoderError, match=r"500 Internal Server Error: broken inside\. Gave up after 3 attempts"):
        encoder.encode_texts(["a"])
    assert len(service.requests) == 3


def test_a_dropped_connection_is_tried_again(service, encoder):
    def drop(handler, asked):
        handler.connection.close()
        return True

    def truncate(handler, asked):
        return handler.answer(200, b'{"data": [', Content_Length="5000")

    service.faults = [drop, truncate]
    assert np.array_equal(encoder.encode_texts(["a"])[0], embed("a"))
    assert len(service.requests) == 3


def test_client_errors_are_not_tried_again(service, encoder):
    service.always = error(400, b'{"error": "unknown model clip"}')
    with pytest.raises(EncoderError, match=r"400 Bad Request: .*unknown model clip"):
        encoder.encode_texts(["a"])
    assert len(service.requests) == 1
    service.always = error(401, b"who are you?")
    with pytest.raises(EncoderError, match="Set LPP_API_KEY"):
        encoder.encode_texts(["a"])


def test_a_silent_service_is_not_waited_for(service):
    encoder = HttpEncoder(service.address, first_wait=0.01, timeout=0.2, attempts=2)
    service.always = lambda handler, asked: time.sleep(1) or handler.close_connection or True
    start = time.monotonic()
    with pytest.raises(EncoderError, match=r"does not answer \(.*timed out"):
        encoder.encode_texts(["a"])
    assert time.monotonic() - start < 3


def test_a_service_that_dribbles_is_cut_off(service):
    def dribble(handler, asked):
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            pass
        return True

    encoder = HttpEncoder(service.address, timeout=1, total=0.5)
    service.always = dribble
    start = time.monotonic()
    with pytest.raises(EncoderError, match="still answering after"):
        encoder.encode_texts(["a"])
    assert time.monotonic() - start < 3


def test_nobody_there():
    with pytest.raises(EncoderError, match=r"127\.0\.0\.1:9/v1/embeddings does not answer .*refused"):
        HttpEncoder("http://127.0.0.1:9/v1", attempts=2, first_wait=0.01)


def test_an_answer_without_end_is_cut_off(service):
    encoder = HttpEncoder(service.address, response_limit=5000)
    service.always = error(200, b" " * 100_000)
    with pytest.raises(EncoderError, match="more than 5000 bytes"):
        encoder.encode_texts(["a"])


def rows(change):
    def alter(answer):
        change(answer["data"])
        return answer

    return alter


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (rows(lambda data: data.pop()), "1 embeddings for 2 inputs"),
        (rows(lambda data: data[0].update(index=0)), "indices"),
        (rows(lambda data: data[0].pop("index")), "indices"),
        (rows(lambda data: data[0]["embedding"].pop()), r"embeddings of \[15, 16\] dimensions"),
        (rows(lambda data: [row["embedding"].append(0) for row in data]), r"\[17\] dimensions instead of 16"),
        (rows(lambda data: data[0]["embedding"].__setitem__(3, float("nan"))), "not finite"),
        (rows(lambda data: data[0]["embedding"].__setitem__(3, 1e300)), "not finite"),
        (rows(lambda data: data[0]["embedding"].__setitem__(3, 10**400)), "not finite"),
        (rows(lambda data: data[0]["embedding"].__setitem__(3, "1")), "not a list of numbers"),
        (rows(lambda data: data[0].update(embedding="AAAA")), "not a list of numbers"),
        (rows(lambda data: data[0].pop("embedding")), 'expected {"data"'),
        (lambda answer: {"error": "?"}, 'expected {"data"'),
        (lambda answer: [1], 'expected {"data"'),
        (lambda answer: b"<html>", "not JSON: '<html>'"),
        (lambda answer: b"[" * 100_000, "not JSON"),
    ],
)
def test_wrong_answers_are_refused(service, encoder, alter, message):
    service.alter = alter
    with pytest.raises(EncoderError, match=message):
        encoder.encode_texts(["a", "b"])


def test_answers_without_indices_are_in_order(service, encoder):
    def strip(answer):
        return {"data": [{"embedding": row["embedding"]} for row in answer["data"][::-1]]}

    service.alter = strip
    assert np.array_equal(encoder.encode_texts(["a", "b"]), np.stack([embed("a"), embed("b")]))


def test_the_key_goes_to_the_service_and_nowhere_else(service, monkeypatch):
    monkeypatch.setenv("LPP_API_KEY", "secret-123")
    encoder = open_encoder(f"{service.address}#clip")
    assert service.requests[0]["headers"]["Authorization"] == "Bearer secret-123"
    assert service.requests[0]["body"]["model"] == "clip"
    assert "secret-123" not in repr(vars(encoder)) + encoder.spec + encoder.fingerprint
    service.always = error(400, b"bad key secret-123 here")
    with pytest.raises(EncoderError, match=r"bad key \*\*\* here"):
        encoder.encode_texts(["a"])
    for fill in (470, 495, 500):  # Also where the key is cut by what is shown of an answer.
        service.always = error(400, b"x" * fill + b"secret-123")
        with pytest.raises(EncoderError) as caught:
            encoder.encode_texts(["a"])
        assert "secret" not in str(caught.value)
    copied = pickle.dumps(encoder)
    assert b"secret-123" not in copied
    service.always = None
    pickle.loads(copied).encode_texts(["a"])
    assert service.requests[-1]["headers"]["Authorization"] == "Bearer secret-123"
    with pytest.raises(EncoderError, match="not encrypted"):
        HttpEncoder("http://service.example/v1")
    monkeypatch.setenv("LPP_API_KEY", "two\nlines")
    with pytest.raises(EncoderError, match="line ends") as caught:
        open_encoder(service.address)
    assert "two" not in str(caught.value)


def test_redirects_are_not_followed(service, monkeypatch):
    monkeypatch.setenv("LPP_API_KEY", "secret-123")
    encoder = open_encoder(service.address)
    service.requests.clear()
    for status in (301, 302, 303, 307, 308):
        service.always = error(status, Location=f"http://localhost:{service.server_address[1]}/elsewhere")
        with pytest.raises(EncoderError, match=r"redirects to http://localhost:\d+/elsewhere"):
            encoder.encode_texts(["a"])
    assert {request["path"] for request in service.requests} == {"/v1/embeddings"}
    assert len(service.requests) == 5


def test_fingerprint_tells_services_apart_but_not_their_last_digits(service):
    first = HttpEncoder(f"{service.address}?model=one").fingerprint
    assert HttpEncoder(f"{service.address}/embeddings?model=one").fingerprint == first
    assert HttpEncoder(f"{service.address}?model=two").fingerprint != first
    noise = np.random.default_rng(0)

    def blur(data):
        for row in data:
            row["embedding"] = [value + 1e-4 * noise.standard_normal() for value in row["embedding"]]

    service.alter = rows(blur)
    assert HttpEncoder(f"{service.address}?model=one").fingerprint == first
    service.alter = rows(lambda data: [row.update(embedding=row["embedding"][::-1]) for row in data])
    assert HttpEncoder(f"{service.address}?model=one").fingerprint != first, "another model behind the same name"
    service.alter = rows(lambda data: [row.update(embedding=[*row["embedding"], 0.0]) for row in data])
    assert HttpEncoder(f"{service.address}?model=one").fingerprint != first


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://user:pass@host/v1", "must not hold a password"),
        ("https://host/v1?api_key=hidden", r"not \['api_key'\]"),
        ("https://host/v1?images=gif", "images=gif is not known"),
        ("https:///v1", "has no host"),
        ("http://localhost:port/v1", "is not an address"),
        ("http://localhost/v 1", "is not an address"),
    ],
)
def test_addresses_are_checked(monkeypatch, address, message):
    monkeypatch.delenv("LPP_API_KEY", raising=False)
    with pytest.raises(EncoderError, match=message) as caught:
        open_encoder(address)
    assert "hidden" not in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_the_key_is_not_shown():
    assert "secret" not in repr(Post("https://host/v1/embeddings", "secret"))
