"""What HTTP costs: throughput of `lpp serve` over that of embedding the same photos, its latency, its memory.

    python -m benchmarks.serve --photos $LPP_DATA/photos/pets --json
    python -m benchmarks.serve --images 200 --requests 10000 --json

A request carries one photo. The service runs in a process of its own and the clients in this one, on the same cores,
which speaks against the service. Contestants take turns:

embed       files to embeddings in this process, as `lpp embed` does; without its start and its store
serve       the same photos, each in a request, from `--clients` that ask again as soon as they have an answer

Latency is measured at half of the throughput, with requests at even distances. Memory is that of the service's process
after a fifth of the requests and after all of them; for these, small drawings do, since they cost less time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.embedding import render
from benchmarks.measure import median, show
from lpplusplus.encoders import open_encoder
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import ImageSet, from_folder, sample_shots

BORDER = "photo"


@contextmanager
def service(model: Path) -> Iterator[tuple[int, psutil.Process]]:
    """`lpp serve` on any free port."""
    command = [sys.executable, "-m", "lpplusplus", "serve", str(model), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            yield int(address.rpartition(":")[2]), psutil.Process(process.pid)
        finally:
            process.terminate()


def request(content: bytes) -> bytes:
    """A whole request with one photo, made before the clock starts."""
    part = f'--{BORDER}\r\nContent-Disposition: form-data; name="images"; filename="a.jpg"\r\n\r\n'.encode()
    body = part + content + f"\r\n--{BORDER}--\r\n".encode()
    kind = f"Content-Type: multipart/form-data; boundary={BORDER}"
    return f"POST /predict HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self.port, self.streams = port, None

    async def ask(self, sent: bytes) -> tuple[int, float]:
        """Status, and seconds to the end of the answer."""
        began = time.perf_counter()
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        return int(head.split()[1]), time.perf_counter() - began

    def close(self) -> None:
        """Hang up."""
        if self.streams is not None:
            self.streams[1].close()


async def closed_loop(port: int, requests: Sequence[bytes], clients: int) -> tuple[float, int]:
    """Seconds for all requests, and how many failed, where every client asks again once it has an answer."""
    waiting, failed = iter(requests), 0

    async def work() -> None:
        nonlocal failed
        client = Client(port)
        for sent in waiting:
            failed += (await client.ask(sent))[0] != 200
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return time.perf_counter() - began, failed


async def even_rate(port: int, requests: Sequence[bytes], rate: float) -> tuple[list[float], int]:
    """Seconds of each request and how many failed, with `rate` requests per second, whether answered or not."""
    idle: list[Client] = []
    times, failed = [], 0

    async def one(sent: bytes) -> None:
        nonlocal failed
        client = idle.pop() if idle else Client(port)
        status, seconds = await client.ask(sent)
        times.append(seconds)
        failed += status != 200
        idle.append(client)

    began, tasks = time.perf_counter(), []
    for number, sent in enumerate(requests):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(sent)))
    await asyncio.gather(*tasks)
    for client in idle:
        client.close()
    return times, failed


def photos_of(options: argparse.Namespace, scratch: Path) -> ImageSet:
    """Some photos of the folder, or rendered ones."""
    if options.photos is None:
        return render(scratch / "photos", options.images, 500, 375)
    found = from_folder(options.photos)
    assert found.labels is not None
    shots = max(2, -(-options.images // len(found.classes)))
    return found.subset(sample_shots(found.labels, shots, 0)[: options.images])


def speed(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Throughput against `embed`, and latency at half load."""
    images, encoder = photos_of(options, scratch), open_encoder(options.encoder)
    two = render(scratch / "training", 4, 300, 200)
    ImageClassifier(encoder).fit(two).save(scratch / "model.lpp")
    requests = [request(Path(item).read_bytes()) for item in images.items if isinstance(item, Path)]
    rounds: dict[str, list[float]] = {"embed": [], "serve": []}
    failed, times = 0, []
    with service(scratch / "model.lpp") as (port, _):
        asyncio.run(closed_loop(port, requests[:32], 4))
        embed(images.subset(np.arange(32)), encoder)
        for _ in range(options.rounds):
            began = time.perf_counter()
            embed(images, encoder)
            rounds["embed"].append(len(requests) / (time.perf_counter() - began))
            seconds, bad = asyncio.run(closed_loop(port, requests, options.clients))
            rounds["serve"].append(len(requests) / seconds)
            failed += bad
        rate = median(rounds["serve"]) / 2
        for _ in range(options.rounds):
            some, bad = asyncio.run(even_rate(port, requests, rate))
            times += some
            failed += bad
    middle, high = np.percentile(times, [50, 99])
    return {
        "photos": len(requests),
        "embed_per_second": median(rounds["embed"]),
        "serve_per_second": median(rounds["serve"]),
        "throughput_ratio": median([b / a for a, b in zip(rounds["embed"], rounds["serve"], strict=True)]),
        "half_load_per_second": rate,
        "median_ms": 1000 * middle,
        "p99_ms": 1000 * high,
        "p99_over_median": high / middle,
        "failed": failed,
    }


def memory(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Megabytes of the service after a fifth of the requests and after all."""
    write_demo(scratch / "drawings", 4, seed=1)
    images = from_folder(scratch / "drawings")
    ImageClassifier("drawings").fit(images).save(scratch / "drawings.lpp")
    requests = [request(Path(item).read_bytes()) for item in images.items if isinstance(item, Path)]
    enough = (requests * (options.requests // len(requests) + 1))[: options.requests]
    used, failed = [], 0
    with service(scratch / "drawings.lpp") as (port, process):
        for part in range(5):
            a, b = part * len(enough) // 5, (part + 1) * len(enough) // 5
            failed += asyncio.run(closed_loop(port, enough[a:b], options.clients))[1]
            used.append(process.memory_info().rss / 2**20)
    return {"requests": len(enough), "failed": failed, "megabytes": [round(value, 1) for value in used]}


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="a folder per class, instead of rendered pictures")
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=32, help="connections that ask at once")
    parser.add_argument("--requests", type=int, default=0, help="for the memory; by default it is not measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.images:
            found["speed"] = speed(options, Path(folder))
        if options.requests:
            found["memory"] = memory(options, Path(folder))
    show(found, options.json)


if __name__ == "__main__":
    main()
