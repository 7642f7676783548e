"""An embedding service on this machine, which misbehaves on demand and keeps what it was asked."""

import base64
import hashlib
import io
import itertools
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

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
        self.requests, self.faults, self.always, self.connections = [], [], None, 0
        self.alter = lambda answer: answer

    def get_request(self):
        self.connections += 1
        return super().get_request()

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


@contextmanager
def embedding_service():
    server = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def nothing(connection):
    pass


def drips(*pieces, forever=b""):
    """Send `pieces`, then one of `forever`, every 50 ms, until the connection is closed."""

    def send(connection):
        connection.recv(1 << 20)
        for piece in itertools.chain(pieces, itertools.repeat(forever)):
            connection.sendall(piece)
            time.sleep(0.05)

    return send


HEAD = b"HTTP/1.1 200 OK\r\n"
HANGS = {
    "never accepts": None,
    "never speaks": nothing,
    "drips the status line": drips(b"HTTP/1.1", forever=b" "),
    "drips a header": drips(HEAD, b"X-Slow: ", forever=b"x"),
    "drips headers without end": drips(HEAD, forever=b"X: y\r\n"),
    "goes on preparing": drips(forever=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "drips the body": drips(HEAD + b"\r\n", forever=b" "),
    "drips a chunk's length": drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", forever=b"0"),
    "drips the body of an error": drips(b"HTTP/1.1 503 Busy\r\n\r\n", forever=b" "),
    "asks to wait, again and again": drips(
        b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 0.3\r\nConnection: close\r\n\r\n"
    ),
}


@contextmanager
def raw_server(behaviour):
    """A server below HTTP; every connection is one thread of `behaviour`, which ends when the client leaves."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        connections = []

        def serve(connection):
            with suppress(OSError):
                behaviour(connection)

        def accept():
            with suppress(OSError):
                while True:
                    connections.append(server.accept()[0])
                    threading.Thread(target=serve, args=(connections[-1],), daemon=True).start()

        if behaviour is None:  # The queue of connections is full, so that further ones are not answered.
            for _ in range(3):
                connections.append(socket.socket())
                connections[-1].setblocking(False)
                connections[-1].connect_ex(server.getsockname())
        else:
            threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                connection.close()
