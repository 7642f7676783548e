"""A classifier behind HTTP: python examples/served.py

Trains on drawings, saves, starts a server in another process, asks it and stops it. The two halves by themselves:

    python examples/served.py serve birds.lpp --port 8000
    python examples/served.py ask http://127.0.0.1:8000 new.jpg

The server has nothing but the saved file. An image is the body of a POST; the answer is JSON. It is meant for your own
machine or a trusted network: it knows no users and no encryption.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LARGEST = 20 * 2**20
"""Bytes of the largest image that is accepted."""


def serve(model: str, port: int) -> None:
    """Answer until stopped. Prints its address first, so that a caller may ask for any free port with 0."""
    from lpplusplus.encoders.pixels.decoding import ImageError, open_image
    from lpplusplus.images import ImageClassifier

    classifier, one_at_a_time = ImageClassifier.load(model), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            if not 0 < length <= LARGEST:
                self.reply(413, {"error": f"send an image of 1 to {LARGEST} bytes as the body"})
                return
            try:
                image = open_image(self.rfile.read(length))
            except ImageError as error:
                self.reply(400, {"error": str(error)})
                return
            with one_at_a_time:
                (row,) = classifier.predict_proba([image])
            best = row.argsort()[::-1][:3]
            self.reply(200, {"answers": [[str(classifier.classes_[k]), float(row[k])] for k in best]})

        def reply(self, status: int, content: dict) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: standard output has the address and nothing else."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def ask(address: str, image: Path) -> dict:
    """What the server says about one image file."""
    request = urllib.request.Request(address, data=image.read_bytes(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def main() -> None:
    """Train, save, serve from another process, ask, stop."""
    from lpplusplus.images import ImageClassifier
    from lpplusplus.images.drawings import write_demo

    with tempfile.TemporaryDirectory() as folder:
        train, new, model = Path(folder, "train"), Path(folder, "new"), Path(folder, "shapes.lpp")
        write_demo(train, 4, seed=1)
        write_demo(new, 1, seed=2)
        ImageClassifier(template="a picture of a {}.").fit(train).save(model)
        command = [sys.executable, __file__, "serve", str(model), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                for image in sorted(new.glob("*/*.jpg"))[::6]:
                    label, probability = ask(address, image)["answers"][0]
                    print(f"{image.parent.name}: {label} ({100 * probability:.0f} %)")
                not_an_image = Path(folder, "note.txt")
                not_an_image.write_text("hello")
                print(f"note.txt: {ask(address, not_an_image)['error']}")
            finally:
                server.terminate()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        parser = argparse.ArgumentParser(description="Serve a saved classifier, or ask a server.")
        commands = parser.add_subparsers(dest="command", required=True)
        server_parser = commands.add_parser("serve")
        server_parser.add_argument("model")
        server_parser.add_argument("--port", type=int, default=8000)
        client_parser = commands.add_parser("ask")
        client_parser.add_argument("address")
        client_parser.add_argument("images", nargs="+", type=Path)
        options = parser.parse_args()
        if options.command == "serve":
            serve(options.model, options.port)
        else:
            for path in options.images:
                print(json.dumps({"image": str(path), **ask(options.address, path)}))
