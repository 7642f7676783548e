"""What Ray costs on one machine, how it scales over nodes, and what that means for more images than fit one machine.

    python -m benchmarks.cluster overhead --photos $LPP_DATA/photos --images 5000
    python -m benchmarks.cluster scaling --photos $LPP_DATA/photos --images 1500 --nodes 1 2 4
    python -m benchmarks.cluster model --rate 100 --start 1.5

overhead   time of `embed_on_ray` over the time of `embed` into a store, on the same photos and all cores
scaling    nodes with a core of their own each (`ray.cluster_utils.Cluster`), beside what the cost model says
model      days and machines for 1e8 and 1e9 images, and for 1e5 cells of the benchmark, by the formula below

**Cost model.** `seconds = start + ⌈parts / workers⌉ · images per part / rate`, where `rate` is images per second of one
worker, with reading, decoding and writing, and `start` what its first part waits for (interpreter, encoder). Two cores
of one machine share memory and cache: `scaling` measures without Ray what that costs, and the model takes it over.

Photos are copied with some bytes behind their end, which no decoder reads, until there are enough: each has its own
content, and none is taken from another's embedding.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lpplusplus.cluster.embed import embed_on_ray
from lpplusplus.cluster.parts import MOST_PARTS
from lpplusplus.cluster.slots import Slots, connected
from lpplusplus.encoders import open_encoder
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import open_images
from lpplusplus.images.store import ROWS_PER_SHARD

OVERHEAD, SPEEDUP = 1.15, 1.7
"""Most time over the local engine's for 5000 photos, and least gain of two nodes over one."""
GPU_RATE = 1500
"""Images per second of one RTX 3080, as clip-retrieval's README reports for ViT-B/32."""


def collect(photos: Path, count: int, folder: Path) -> Path:
    """So many different photos below `folder`."""
    found = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        raise SystemExit(f"{photos} has no JPEG photos.")
    for number in range(count):
        place = folder / f"class{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:07}.jpg").write_bytes(found[number % len(found)].read_bytes() + number.to_bytes(8, "big"))
    return folder


def local_seconds(photos: Path, folder: Path, encoder: str) -> float:
    """Time of the local engine, with its encoder opened anew."""
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()
    embed(open_images(photos), open_encoder(encoder), store=folder)
    return time.perf_counter() - start


def ray_seconds(photos: Path, folder: Path, encoder: str, address: str | None = None) -> tuple[float, Any]:
    """Time of the Ray engine on a cluster that runs; and what it did."""
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()
    done = embed_on_ray(str(photos), str(folder), encoder, slots=Slots(), address=address)
    return time.perf_counter() - start, done


def overhead(options: argparse.Namespace, photos: Path, folder: Path) -> dict[str, Any]:
    """The engines in turn."""
    begun = time.perf_counter()
    ours: list[float] = []
    theirs: list[float] = []
    with connected(None):
        started = time.perf_counter() - begun
        for _ in range(options.rounds):
            ours.append(local_seconds(photos, folder / "store", options.encoder))
            theirs.append(ray_seconds(photos, folder / "parquet", options.encoder)[0])
    ratio = sorted(b / a for a, b in zip(ours, theirs, strict=True))[len(ours) // 2]
    return {"local": ours, "ray": theirs, "ratio": ratio, "limit": OVERHEAD, "start_of_the_cluster": started}


def scaling(options: argparse.Namespace, photos: Path, folder: Path) -> dict[str, Any]:
    """Each cluster in turn, and the model beside it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from ray_nodes import nodes

    found = {}
    for count in options.nodes:
        with nodes(count, pinned=True) as cluster:
            seconds, done = ray_seconds(photos, folder / "parquet", options.encoder, cluster.address)
        parts = [receipt.seconds for receipt in done.outcome.receipts]
        found[count] = {"seconds": seconds, "inside_parts": sum(parts), "longest_part": max(parts)}
    first = found[options.nodes[0]]
    cores = os.cpu_count() or 1
    rate = options.images / first["inside_parts"]
    start = first["seconds"] - first["inside_parts"]
    plain = plain_speedup(photos, folder, options.encoder, cores)
    for count, one in found.items():
        at_once = min(count, cores)
        shared = 1.0 if at_once == 1 else plain / cores
        one["speedup"] = first["seconds"] / one["seconds"]
        one["model"] = model_seconds(options.images, at_once, rate * shared, start)
    return {
        "images": options.images, "cores": cores, "rate_of_one_worker": rate, "start": start, "nodes": found,
        "speedup_of_all_cores_without_ray": plain, "goal_of_two_nodes": SPEEDUP,
    }  # fmt: skip


def plain_speedup(photos: Path, folder: Path, encoder: str, count: int) -> float:
    """What all cores give without Ray: one process on one core, then one on each, with the same photos each."""
    times = []
    for processes in (1, min(count, os.cpu_count() or 1)):
        start = time.perf_counter()
        code = "import sys; from benchmarks.cluster import pinned; pinned(*sys.argv[1:])"
        running = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(core), str(photos), str(folder / f"plain{core}"), encoder]
            )
            for core in sorted(os.sched_getaffinity(0))[:processes]
        ]
        if any(process.wait() for process in running):
            raise SystemExit("a plain process failed.")
        times.append((time.perf_counter() - start) / processes)
    return times[0] / times[1]


def pinned(core: str, photos: str, folder: str, encoder: str) -> None:
    """In a process of its own: the local engine on one core."""
    os.sched_setaffinity(0, {int(core)})
    local_seconds(Path(photos), Path(folder), encoder)


def model_seconds(images: float, workers: int, rate: float, start: float) -> float:
    """The cost model; parts as `lpplusplus.cluster.parts` cuts a list."""
    rows = float(ROWS_PER_SHARD)
    while images / rows > MOST_PARTS:
        rows *= 2
    return start + math.ceil(images / rows / workers) * rows / rate


def model(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The table of docs/explanation/scale.md."""
    rows = []
    for images in (1e6, 1e8, 1e9):
        for what, rate, workers in (
            ("one core", options.rate, 1),
            ("16 machines of 32 cores", options.rate, 512),
            ("one GPU", GPU_RATE, 1),
            ("64 GPUs", GPU_RATE, 64),
        ):
            seconds = model_seconds(images, workers, rate, options.start)
            rows.append(
                {
                    "images": images,
                    "on": what,
                    "hours": seconds / 3600,
                    "read_mb_per_s": images * options.bytes_in / seconds / 1e6,
                    "written_gb": images * options.bytes_out / 1e9,
                }
            )
    cells = 1e5 * options.cell_seconds
    rows += [
        {"cells": 1e5, "on": what, "hours": cells / workers / 3600}
        for what, workers in (("one core", 1), ("16 machines of 32 cores", 512))
    ]
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print JSON, one object per command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "scaling", "model"))
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rate", type=float, default=100.0, help="images per second of one core")
    parser.add_argument("--start", type=float, default=1.5)
    parser.add_argument("--bytes-in", type=float, default=100e3, help="of a photo")
    parser.add_argument("--bytes-out", type=float, default=2.2e3, help="of a row: 512 numbers, path, hash")
    parser.add_argument("--cell-seconds", type=float, default=0.5)
    options = parser.parse_args(arguments)
    if options.what == "model":
        print(json.dumps(model(options), indent=1))
        return
    if options.photos is None:
        parser.error("--photos is missing")
    with tempfile.TemporaryDirectory() as folder:
        photos = collect(options.photos, options.images, Path(folder) / "photos")
        run = overhead if options.what == "overhead" else scaling
        print(json.dumps(run(options, photos, Path(folder)), indent=1))


if __name__ == "__main__":
    main()
