"""Embedding services that misbehave, and what the HTTP encoder makes of each: `python -m reliability.services`.

A server below HTTP answers well until the encoder is made, and badly from then on. Whatever it does, a request must end
in time, with an `EncoderError` or with the right embeddings. The key goes to this server, since the user named it, and
to no other: a second server, to which some answers point, must never hear of anybody.
"""

import argparse
import gzip
import json
import os
import socket
import struct
import sys
import time
from contextlib import suppress

import numpy as np

from embedding_service import HANGS, embed, nothing, raw_server
from lpplusplus.encoders import EncoderError
from lpplusplus.encoders.http import HttpEncoder
from lpplusplus.encoders.http_post import Post

KEY = "key-that-is-secret"
TOTAL = 1.0
"""Seconds for a request with all its repetitions."""
SLACK = 300.0
"""Seconds beyond, for any machine: servers that hang do so for ever."""
LIMIT = 1 << 20
ENDLESS = 1 << 28
"""Bytes that a server would send if nobody stopped it."""


def head(status="200 OK", **headers):
    """The beginning of an answer."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(content, status="200 OK", **headers):
    """A complete answer."""
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return head(status, **{"Content_Length": len(content)} | headers) + content


def says(*parts):
    """Send these bytes, each of which may be a function of the right answer, and close."""

    def behave(connection, right, elsewhere):
        for part in parts:
            connection.sendall(part(right, elsewhere) if callable(part) else part)

    return behave


def altered(change, **headers):
    """The right answer, changed."""

    def make(right, elsewhere):
        answer = json.loads(json.dumps(right))
        other = change(answer)
        return whole(answer if other is None else other, **headers)

    return says(make)


def repeats(first, piece):
    """`first`, then `piece` again and again."""

    def behave(connection, right, elsewhere):
        connection.sendall(first)
        for _ in range(ENDLESS // len(piece)):
            connection.sendall(piece)

    return behave


def resets(connection, right, elsewhere):
    """Hang up without a goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def points(status, place):
    """Send the client to the other server."""
    return says(lambda right, elsewhere: whole(b"", status, Location=place.format(elsewhere), Connection="close"))


def first_row(change):
    return altered(lambda answer: change(answer["data"][0]))


CHUNKED = head(Transfer_Encoding="chunked")
BUSY = {"Connection": "close"}
MISBEHAVIOURS = {
    **{name: None if behaviour is None else (lambda connection, right, elsewhere, b=behaviour: b(connection))
       for name, behaviour in HANGS.items()},
    "closes at once": says(),
    "closes in the status line": says(b"HTTP/1."),
    "closes in the header": says(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "closes in the body": says(head(Content_Length=5000), b'{"data": ['),
    "closes in a chunk": says(CHUNKED, b"ff\r\nabc"),
    "resets the connection": resets,
    "states too small a length": says(lambda right, elsewhere: head(Content_Length=10) + json.dumps(right).encode()),
    "states two lengths": says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
    "states a negative length": says(head(Content_Length=-1), b"{}"),
    "states a huge length": says(head(Content_Length=10**18), b"{}"),
    "states a length and chunks": says(head(Content_Length=2, Transfer_Encoding="chunked"), b"{}"),
    "sends chunks of no size": says(CHUNKED, b"xyz\r\n{}\r\n0\r\n\r\n"),
    "sends garbage as chunks": says(CHUNKED, os.urandom(500)),
    "greets like a mail server": says(b"220 mail.example ESMTP\r\n"),
    "answers in TLS": says(b"\x15\x03\x03\x00\x02\x02\x28"),
    "answers without a header": says(b"{}"),
    "answers with status 999": says(whole(b"{}", "999 Odd")),
    "answers with status abc": says(whole(b"{}", "abc Odd")),
    "sends a header of 16 MB": says(b"HTTP/1.1 200 OK\r\nX: ", b"x" * (1 << 24), b"\r\n\r\n"),
    "sends a million headers": repeats(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "sends control characters": says(b"HTTP/1.1 200 OK\r\nX: \x00\x1b[2J\r\nContent-Length: 2\r\n\r\n{}"),
    "sends a body without end": repeats(head(), b" " * 65536),
    "sends chunks without end": repeats(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "sends a bomb of gzip": says(whole(gzip.compress(b" " * (1 << 26)), Content_Encoding="gzip")),
    "sends nothing at all": says(whole(b"")),
    "sends no content": says(whole(b"", "204 No Content")),
    "sends a web page": says(whole(b"<html>")),
    "sends JSON of another kind": altered(lambda answer: [1, 2]),
    "sends JSON nested too deep": says(whole(b"[" * 100_000)),
    "sends bytes that are no text": says(whole(b"\xff\xfe\x00{")),
    "sends something after the answer": says(lambda right, elsewhere: whole(json.dumps(right).encode() + b"\n\n{}")),
    "sends NaN": first_row(lambda row: row["embedding"].__setitem__(0, float("nan"))),
    "sends infinity": first_row(lambda row: row["embedding"].__setitem__(0, 1e999)),
    "sends a number of 5000 digits": says(lambda right, elsewhere: whole(
        json.dumps(right).encode().replace(b'"embedding": [', b'"embedding": [' + b"9" * 5000 + b", ", 1))),
    "sends words for numbers": first_row(lambda row: row["embedding"].__setitem__(0, "1")),
    "sends null": first_row(lambda row: row.update(embedding=None)),
    "sends too few embeddings": altered(lambda answer: answer["data"].pop() and None),
    "sends too many embeddings": altered(lambda answer: answer["data"].append(answer["data"][0])),
    "sends an embedding twice": first_row(lambda row: row.update(index=1)),
    "sends embeddings of two lengths": first_row(lambda row: row["embedding"].append(0.0)),
    "changes the dimension": altered(lambda answer: [row["embedding"].append(0.0) for row in answer["data"]] and None),
    "asks to wait for a day": says(whole(b"", "429 Too Many Requests", Retry_After=86400, **BUSY)),
    "fails every time": says(whole(b"broken", "500 Internal Server Error", **BUSY)),
    "finds everything too large": says(whole(b"", "413 Too Large", **BUSY)),
    "repeats the key in an error": says(whole(f"no {KEY}".encode(), "401 Unauthorized", **BUSY)),
    "asks for a proxy's password": says(whole(b"", "407 Proxy Authentication Required", **BUSY)),
    "redirects to another host": points("307 Temporary Redirect", "http://{}/v1/embeddings"),
    "redirects for good": points("308 Permanent Redirect", "http://{}/v1/embeddings"),
    "redirects to a file": points("302 Found", "file:///etc/passwd"),
    "names another host in a header": says(lambda right, elsewhere: whole(
        right, Alt_Svc=f'http/1.1="{elsewhere}"', Refresh=f"0;url=http://{elsewhere}", Link=f"<http://{elsewhere}>")),
    "speaks http where https is asked": says(whole(b"{}")),
}  # fmt: skip
"""What the server does with a request, by name; None is a server whose queue is full."""


HARMLESS = ("names another host in a header",)
"""Answers that are right all the same."""


class Rude:
    """The server's side: it answers well until `rude`, and keeps what it received."""

    def __init__(self, behaviour, elsewhere):
        self.behaviour, self.elsewhere = behaviour, elsewhere
        self.rude, self.received = False, []

    def __call__(self, connection):
        if self.rude and self.behaviour in SPEAK_FIRST:
            self.behaviour(connection, None, self.elsewhere)
            return
        request = _request(connection)
        self.received.append(request)
        with suppress(ValueError):
            items = json.loads(request.partition(b"\r\n\r\n")[2])["input"]
            rows = [{"index": i, "embedding": embed(item).tolist()} for i, item in enumerate(items)]
            right = {"object": "list", "data": rows}
            if self.rude:
                self.behaviour(connection, right, self.elsewhere)
            else:
                connection.sendall(whole(right, Connection="close"))
        connection.shutdown(socket.SHUT_RDWR) if self.behaviour is not resets else connection.close()


SPEAK_FIRST = {MISBEHAVIOURS[name] for name in HANGS if name != "never accepts"}
"""These read the request themselves, or do not."""


def _request(connection):
    content = b""
    while b"\r\n\r\n" not in content:
        part = connection.recv(65536)
        if not part:
            return content
        content += part
        if content[:1] == b"\x16":  # TLS: the beginning is enough.
            return content
    start, _, body = content.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in start.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return start + b"\r\n\r\n" + body


def meet(name):
    """Let the encoder meet a server; what came of it. Raises AssertionError for what must not be."""
    behaviour = MISBEHAVIOURS[name]
    heard = []
    with raw_server(lambda connection: heard.append(connection.recv(65536))) as elsewhere:
        server = Rude(behaviour or nothing, elsewhere.partition("/")[0])
        with raw_server(server) as address, raw_server(None) as full:
            limits = {"timeout": 5, "first_wait": 0.05, "response_limit": LIMIT}
            encoder = HttpEncoder(f"http://{address}", total=60, **limits)
            server.rude = True
            scheme = "https" if name.endswith("https is asked") else "http"
            url = f"{scheme}://{full if behaviour is None else address}/embeddings"
            encoder._post = Post(url, total=SLACK if name in HARMLESS else TOTAL, **limits)
            begun, answer, said = time.monotonic(), None, ""
            try:
                answer = encoder.encode_texts(["a", "b"])
            except EncoderError as error:
                said = str(error)
            seconds = time.monotonic() - begun
    assert seconds < TOTAL + SLACK, f"it took {seconds:.1f} s"
    if answer is not None:
        assert np.array_equal(answer, np.stack([embed("a"), embed("b")])), "wrong embeddings were accepted"
    assert not heard, f"another host received {heard[0]!r}"
    assert KEY not in said, "the key is in the message"
    assert len(said) < 2000, f"a message of {len(said)} characters"
    asked = [request for request in server.received if request]
    assert f"Authorization: Bearer {KEY}".encode().lower() in asked[0].lower(), "the named host did not get the key"
    assert all(request.startswith((b"POST /v1/embeddings HTTP/1.1\r\n", b"\x16")) for request in asked)
    if name.endswith("https is asked"):
        assert all(KEY.encode() not in request for request in asked[1:]), "the key in the clear"
    return {"server": name, "seconds": round(seconds, 2), "requests": len(asked) - 1, "refused": answer is None,
            "said": said.replace(address, "HOST").replace(full, "HOST").replace(elsewhere, "OTHER")}  # fmt: skip


def main():
    """Meet them all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    os.environ["LPP_API_KEY"] = KEY
    failed = 0
    for name in MISBEHAVIOURS:
        try:
            result = meet(name)
        except AssertionError as error:
            failed += 1
            result = {"server": name, "wrong": str(error)}
        text = f"{name:40} {result.get('wrong') or result['said'] or 'right embeddings'}"
        print(json.dumps(result) if chosen.json else text[:160], flush=True)
    print(json.dumps({"servers": len(MISBEHAVIOURS), "wrong": failed}))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
