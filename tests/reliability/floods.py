"""What one client can take from the others of `lpp serve`: `python -m reliability.floods`.

A client sends what costs the service most: bodies of many small values, headers without end, forms that look like their
boundary, many of them at once. Meanwhile a second client asks `/health` all the time, and the longest that it waited is
recorded; so is the memory that the service took beyond what it had. Afterwards a photo must be classified as before.
`--schemathesis` adds requests made from the service's own description.
"""

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2

from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from serving import served

FORM = b"multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n\r\n'


def post(body, kind=b"application/json"):
    """A whole request."""
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


def filled(begin, part, end, size):
    """`begin`, as many parts as fit into `size` bytes, `end`."""
    return begin + part * ((size - len(begin) - len(end)) // len(part)) + end


FLOODS = {
    "embeddings of one number": lambda size: post(filled(b'{"embeddings":[[0]', b",[0]", b"]}", size)),
    "short names": lambda size: post(("{" + ",".join(f'"{n}":1' for n in range(size * 4 // 47)) + "}").encode()),
    "lists in lists": lambda size: post(b'{"embeddings":' + b"[" * size),
    "one long string": lambda size: post(filled(b'{"images":["', b"A", b'"]}', size)),
    "one long escaped string": lambda size: post(filled(b'{"images":["', b"\\u0041", b'"]}', size)),
    "one long number": lambda size: post(filled(b'{"embeddings":[[0.', b"1", b"]]}", size)),
    "spaces": lambda size: post(filled(b'{"embeddings":[[', b" ", b"0]]}", size)),
    "one photo of zeros": lambda size: post(filled(PART, b"\0", b"\r\n--b--\r\n", size), FORM),
    "a form of half boundaries": lambda size: post(filled(PART, b"\r\n--", b"\r\n--b--\r\n", size), FORM),
    "a form of empty parts": lambda size: post(filled(b"", PART + b"\r\n", b"--b--\r\n", size), FORM),
    "a form of headers": lambda size: post(filled(b"--b\r\n", b"X: a\r\n", b"", size), FORM),
    "one long header": lambda size: filled(b"GET / HTTP/1.1\r\nX: ", b"a", b"\r\n\r\n", size),
    "many headers": lambda size: filled(b"GET / HTTP/1.1\r\n", b"X: a\r\n", b"\r\n", size),
}
SIZES = {"embeddings of one number": 62, "short names": 65}
"""Millions of bytes; 64 by default. A request may have 64 MiB, which is 67 million."""

TOGETHER = ("embeddings of one number", "one long string", "a form of half boundaries")
"""Also from several clients at once."""


class SecondClient:
    """Asks all the time; `longest` is the longest that it waited, in seconds."""

    def __init__(self, address):
        self.longest, self._address = 0.0, address
        self._asked, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        self._asked.wait()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _ask(self):
        with httpx2.Client(trust_env=False, timeout=300) as client:
            while not self._stop.is_set():
                began = time.perf_counter()
                client.get(f"{self._address}/health").raise_for_status()
                self.longest = max(self.longest, time.perf_counter() - began)
                self._asked.set()
                time.sleep(0.005)


def memory(process, reset=False):
    """The most megabytes that a process had, since the last reset."""
    if reset:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) / 1024


def send(address, content):
    """The status of the answer; 0 if the connection was closed without one."""
    host, port = address.partition("//")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=300) as made, suppress(ConnectionError):
        sending = threading.Thread(target=_send, args=(made, content))
        sending.start()
        answer = made.recv(100)
        sending.join()
        return int(answer.split()[1]) if answer else 0
    return 0


def _send(made, content):
    with suppress(OSError):  # It is refused before it has arrived.
        made.sendall(content)


def flood(service, name, content, clients=1):
    """Send it, from several clients at once; what it cost."""
    before = memory(service.process.pid, reset=True)
    with SecondClient(service.address) as second:
        began = time.perf_counter()
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(send(service.address, content))) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
    took = memory(service.process.pid) - before
    return {"flood": name, "clients": clients, "megabytes sent": len(content) / 1e6, "status": sorted(set(found)),
            "seconds": seconds, "megabytes taken": took, "second client waited": second.longest}  # fmt: skip


def described(service, folder, examples):
    """Schemathesis, from the service's own description."""
    program = shutil.which("schemathesis", path=Path(sys.executable).parent)
    before = memory(service.process.pid, reset=True)
    with SecondClient(service.address) as second:
        began = time.perf_counter()
        done = subprocess.run(
            [program, "run", f"{service.address}/openapi.json", "--max-examples", str(examples), "--no-color",
             "--checks", "not_a_server_error,response_schema_conformance,content_type_conformance"],
            cwd=folder, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    cases = re.search(r"(\d+) generated", done.stdout)
    took = memory(service.process.pid) - before
    return {"flood": f"{cases[1]} requests made by schemathesis", "clients": 1, "megabytes sent": 0.0, "status": [],
            "seconds": seconds, "megabytes taken": took, "second client waited": second.longest}  # fmt: skip


def main(arguments=None):
    """Print a line of JSON for each flood."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=float, help="of each body, instead of 62 to 65")
    parser.add_argument("--only", nargs="*", default=[*FLOODS], metavar="FLOOD")
    parser.add_argument("--clients", type=int, default=8, help="that send at once, for three of the floods")
    parser.add_argument("--schemathesis", type=int, default=0, metavar="EXAMPLES")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demo(folder / "drawings", 3, seed=1)
        ImageClassifier("drawings").fit(folder / "drawings").save(folder / "shapes.lpp")
        photo = sorted((folder / "drawings").glob("*/*.jpg"))[0]
        with served("serve", folder / "shapes.lpp") as service:

            def answer():
                files = [("images", (photo.name, photo.read_bytes()))]
                return httpx2.post(f"{service.address}/predict", files=files, timeout=600).raise_for_status().json()

            first = answer()
            for name in options.only:
                content = FLOODS[name](int((options.megabytes or SIZES.get(name, 64)) * 1e6))
                for clients in sorted({1, options.clients if name in TOGETHER else 1}):
                    print(json.dumps(flood(service, name, content, clients)), flush=True)
            if options.schemathesis:
                print(json.dumps(described(service, folder, options.schemathesis)), flush=True)
            assert answer() == first
            complaints = service.stop()
            assert "Traceback" not in complaints, complaints


if __name__ == "__main__":
    main()
