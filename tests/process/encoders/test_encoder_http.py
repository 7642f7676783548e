"""An embedding service, tested against a real server on this machine that misbehaves on demand."""

import asyncio
import base64
import email.utils
import gc
import io
import pickle
import shutil
import ssl
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

from embedding_service import DIM, HANGS, embed, embedding_service, nothing, raw_server
from lpplusplus.encoders import EncoderError, http_post, open_encoder
from lpplusplus.encoders.http import HttpEncoder
from lpplusplus.encoders.http_post import _retry_after


def error(status, value=b"sorry", **headers):
    return lambda handler, asked: handler.answer(status, value, **headers)


@pytest.fixture
def service(monkeypatch):
    monkeypatch.delenv("LPP_API_KEY", raising=False)
    with embedding_service() as server:
        yield server


@pytest.fixture
def encoder(service):
    opened = HttpEncoder(f"{service.address}?model=clip", first_wait=0.01, timeout=300)
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
    sent = images()
    expected = [embed("data:image/png;base64," + encoder.prepare(image)) for image in sent]
    assert np.array_equal(encoder.encode_images(sent), np.stack(expected))
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
    sent = images()
    expected = [embed("data:image/png;base64," + encoder.prepare(image)) for image in sent]
    assert np.array_equal(encoder.encode_images(sent), np.stack(expected))
    assert np.array_equal(encoder.encode_texts(["a cat"])[0], embed("a cat"))
    if form == "vllm":
        assert len(service.requests) == 1 + 3 + 1
        assert service.requests[1]["body"]["messages"][0]["content"][0]["type"] == "image_url"


def test_requests_stay_under_the_limits(service):
    encoder = HttpEncoder(f"{service.address}?model=some-model", batch_size=10, request_limit=25_000)
    service.requests.clear()
    sent = images(7, (64, 40))
    assert len(encoder.encode_images(sent)) == 7
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


def test_retry_after_is_honoured(service, encoder, monkeypatch):
    service.faults = [error(429, Retry_After="1")]
    waits = []
    monkeypatch.setattr(http_post.time, "sleep", waits.append)
    encoder.encode_texts(["a"])
    assert waits == [1]


def test_retry_after_is_bounded():
    assert _retry_after("7") == 7
    assert _retry_after("86400") == _retry_after("inf") == 60
    assert _retry_after("nonsense") == _retry_after("") == _retry_after("-5") == _retry_after("nan") == 0
    assert 0 < _retry_after(email.utils.formatdate(time.time() + 50, usegmt=True)) <= 50


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


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # httpx2 leaves a socket of half-made TLS to Python.
@pytest.mark.parametrize("behaviour", HANGS.values(), ids=HANGS)
def test_a_request_over_tls_ends_whatever_the_server_does(monkeypatch, behaviour):
    """The server goes on for ever; reliability/services.py does so without TLS."""
    monkeypatch.delenv("LPP_API_KEY", raising=False)
    with raw_server(behaviour) as address, pytest.raises(EncoderError):
        HttpEncoder(f"https://{address}", timeout=10, total=0.5, first_wait=0.1)
    gc.collect()


def test_a_server_that_does_not_read_is_cut_off(service):
    encoder = HttpEncoder(service.address)
    with raw_server(nothing) as address:
        encoder._post = http_post.Post(f"http://{address}", timeout=10, total=1)
        with pytest.raises(EncoderError, match="has not answered in full after 1 s"):
            encoder.encode_texts(["x" * (7 << 20)])


def test_half_an_answer_that_was_cut_off_is_called_late(service):
    encoder = HttpEncoder(service.address)
    with raw_server(HANGS["drips the body"]) as address:
        encoder._post = http_post.Post(f"http://{address}", timeout=10, total=0.5)
        with pytest.raises(EncoderError, match=r"has not answered in full after 0\.5 s"):
            encoder.encode_texts(["a"])


def test_many_requests_on_one_connection(service, monkeypatch):
    monkeypatch.setattr(service.RequestHandlerClass, "protocol_version", "HTTP/1.1")
    encoder = HttpEncoder(service.address, batch_size=1)
    encoder.encode_texts(list("abcdefghi"))
    assert (len(service.requests), service.connections) == (11, 1)


def test_a_request_can_be_made_inside_an_event_loop(service):
    """As in a notebook."""

    async def cell():
        return HttpEncoder(service.address).encode_texts(["a"])

    assert np.array_equal(asyncio.run(cell())[0], embed("a"))


def test_nobody_there():
    with pytest.raises(EncoderError, match=r"127\.0\.0\.1:9/v1/embeddings does not answer .*refused"):
        HttpEncoder("http://127.0.0.1:9/v1", attempts=2, first_wait=0.01)


def rows(change):
    def alter(answer):
        change(answer["data"])
        return answer

    return alter


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


def test_a_service_cannot_write_to_the_terminal(encoder, service):
    service.always = error(400, b"\x1b[2J\x07gone\nfar")
    with pytest.raises(EncoderError, match=r"400 Bad Request: \[2J gone far$"):
        encoder.encode_texts(["a"])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_service_must_prove_who_it_is(service, tmp_path, monkeypatch):
    monkeypatch.setenv("LPP_API_KEY", "secret-123")
    files = [str(tmp_path / name) for name in ("key.pem", "certificate.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", files[0], "-out", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    service.socket = context.wrap_socket(service.socket, server_side=True)
    address = f"https://localhost:{service.server_address[1]}/v1"
    with pytest.raises(EncoderError, match=r"cannot prove who it is: self.signed certificate"):
        HttpEncoder(address)
    assert service.requests == []
    monkeypatch.setenv("SSL_CERT_FILE", files[1])
    http_post._certificates.cache_clear()
    try:
        assert HttpEncoder(address).dim == DIM
    finally:
        http_post._certificates.cache_clear()
    assert service.requests[0]["headers"]["Authorization"] == "Bearer secret-123"


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
