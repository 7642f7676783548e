"""An embedding service on this machine, which misbehaves on demand and keeps what it was asked."""

import base64
import hashlib
import io
import json
import threading
from contextlib import contextmanager
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
