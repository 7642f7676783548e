"""What Ray costs on one machine, how it scales over nodes, and what that means for more images than fit one machine.

    python -m benchmarks.cluster overhead --photos $LPP_DATA/photos --images 5000
    python -m benchmarks.cluster scaling --photos $LPP_DATA/photos --images 2048 --nodes 1 2 4 --rounds 3
    python -m benchmarks.cluster ray-data --photos $LPP_DATA/photos --images 1024 --rounds 2
    python -m benchmarks.cluster fit --rows 200000 --classes 1000
    python -m benchmarks.cluster writer
    python -m benchmarks.cluster model --rate 100 --start 1.5

overhead   time of `embed_on_ray` over the time of `embed` into a store, on the same photos and all cores
scaling    nodes with a core of their own each (`ray.cluster_utils.Cluster`), beside the cost model, and beside
           processes without Ray, one on each core: what the machine itself gives
ray-data   time of the same embedding by Ray Data (files, actors with an encoder, Parquet) over that of `embed_on_ray`
fit        `LPPlusPlus` on rows that the workers of 1 and of 2 such nodes hold, against the fit in memory on one core
writer     cells per second that the benchmark's one writer can keep, one by one and together
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
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from lpplusplus.bench.cell import Cell, Row
from lpplusplus.bench.results import Results
from lpplusplus.cluster.commands import embed_on_ray
from lpplusplus.cluster.connection import Slots, connected, limit_threads
from lpplusplus.cluster.parts import MOST_PARTS, TableBytes
from lpplusplus.encoders import open_encoder
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import open_images
from lpplusplus.images.sources.image_set import ImageSet
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
    ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
    return {"local": ours, "ray": theirs, "ratio": ratio, "limit": OVERHEAD, "start_of_the_cluster": started}


def by_ray_data(options: argparse.Namespace, photos: Path, folder: Path) -> dict[str, Any]:
    """Both on one cluster, in turn. Actors ask for half a processor each: with a whole one, nothing is left to read."""
    import ray

    theirs: list[float] = []
    ours: list[float] = []
    with connected(None):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        for _ in range(options.rounds):
            shutil.rmtree(folder / "data", ignore_errors=True)
            start = time.perf_counter()
            rows = ray.data.read_binary_files(str(photos), include_paths=True)
            rows = rows.map_batches(
                _Embedder, fn_constructor_args=(options.encoder,), batch_size=ROWS_PER_SHARD, num_cpus=0.5,
                compute=ray.data.ActorPoolStrategy(size=os.cpu_count()),
            )  # fmt: skip
            rows.write_parquet(str(folder / "data"))
            theirs.append(time.perf_counter() - start)
            ours.append(ray_seconds(photos, folder / "parquet", options.encoder)[0])
    return {"ray_data": theirs, "ours": ours, "ratio": median(a / b for a, b in zip(theirs, ours, strict=True))}


class _Embedder:
    """An actor of Ray Data: bytes of images to embeddings, by the local engine's code."""

    def __init__(self, encoder: str) -> None:
        limit_threads(1)
        self.encoder = open_encoder(encoder)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        items: list[Any] = [
            TableBytes(content, path) for content, path in zip(batch["bytes"], batch["path"], strict=True)
        ]
        found = embed(ImageSet(items, source="Ray Data"), self.encoder, on_error="skip")
        return {"embedding": found.rows, "path": list(found.paths), "hash": [bytes(one) for one in found.hashes]}


def scaling(options: argparse.Namespace, photos: Path, folder: Path) -> dict[str, Any]:
    """Each cluster in turn, in every round, and the model beside it."""
    nodes = _nodes()
    cores = os.cpu_count() or 1
    times: dict[int, list[float]] = {count: [] for count in options.nodes}
    inside: list[float] = []
    plain: list[dict[str, float]] = []
    for _ in range(options.rounds):
        for count in options.nodes:
            with nodes(count, pinned=True) as cluster:
                seconds, done = ray_seconds(photos, folder / "parquet", options.encoder, cluster.address)
            times[count].append(seconds)
            if count == options.nodes[0]:
                inside.append(sum(part.seconds for part in done.parts))
        plain.append(without_ray(photos, folder, options.encoder, cores))
    first = times[options.nodes[0]]
    rate = options.images / median(inside)
    start = median(first) - median(inside)
    shared = median([one["speedup"] for one in plain]) / cores
    found = {
        count: {
            "seconds": seconds,
            "speedup": [one / other for one, other in zip(first, seconds, strict=True)],
            # Workers that share a core start one after the other.
            "model": model_seconds(
                options.images,
                min(count, cores),
                rate * (shared if count > 1 else 1.0),
                start * math.ceil(count / cores),
            ),
        }
        for count, seconds in times.items()
    }
    return {
        "images": options.images, "cores": cores, "rate_of_one_worker": rate, "start": start, "nodes": found,
        "all_cores_without_ray": plain, "goal_of_two_nodes": SPEEDUP,
    }  # fmt: skip


def _nodes() -> Any:
    """The clusters of the tests."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from ray_nodes import nodes

    return nodes


def without_ray(photos: Path, folder: Path, encoder: str, count: int) -> dict[str, float]:
    """What all cores give without Ray: one process on one core, then one on each, with the same photos each.

    Processor time is that of one process. If it grows when the other core works, too, the cores share something: no
    division of the work gets that back.
    """
    times, processor = [], []
    for processes in (1, min(count, os.cpu_count() or 1)):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
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
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / processes)
    return {"speedup": times[0] / times[1], "processor_time_grows": processor[1] / processor[0]}


def fit(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """In memory on one core, then on rows that workers hold; the same task for all."""
    import numpy as np

    from benchmarks.out_of_core import make
    from lpplusplus import LPPlusPlus
    from lpplusplus.cluster.rows import distributed_rows

    nodes, cores = _nodes(), sorted(os.sched_getaffinity(0))
    make(folder, options.rows, options.classes, 512)
    y, text = np.load(folder / "y.npy"), np.load(folder / "text.npy")
    os.sched_setaffinity(0, cores[:1])
    os.environ["OMP_NUM_THREADS"] = "1"  # Of the workers; here the core decides.
    X = np.load(folder / "X.npy")
    start = time.perf_counter()
    here = LPPlusPlus().fit(X, y, text=text)
    found: dict[str, Any] = {"rows": options.rows, "classes": options.classes, "in_memory": time.perf_counter() - start}
    del X
    for count in options.nodes:
        os.sched_setaffinity(0, cores)
        with nodes(count, pinned=True) as cluster, connected(cluster.address):
            start = time.perf_counter()
            with distributed_rows(str(folder / "X.npy"), Slots(workers=count)) as rows:
                opened = time.perf_counter() - start
                probe = LPPlusPlus().fit(rows.X, y, text=text)
                seconds = time.perf_counter() - start - opened
        difference = float(np.abs(probe.coef_ - here.coef_).max() / np.abs(here.coef_).max())
        found[f"{count} nodes"] = {"opening": opened, "fit": seconds, "difference": difference}
    return found


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


def writer(cells: int = 512, at_once: int = 64) -> dict[str, Any]:
    """Rows of cells that take no time: written one by one, or as many together as a busy cluster has."""
    plan = [Cell("birds", "rn50", "LP++", 4, seed, "LPPlusPlus") for seed in range(cells)]
    found: dict[str, Any] = {}
    for together in (1, at_once // 8, at_once):
        with tempfile.TemporaryDirectory() as folder:
            results, start = Results(folder), time.perf_counter()
            rows = [Row(cell, "ok", accuracy=0.9, curve={"loss": [0.1] * 20}) for cell in plan]
            for first in range(0, len(rows), together):
                results.add(*rows[first : first + together])
            found[f"{together} at a time"] = cells / (time.perf_counter() - start)
    return found


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
    parser.add_argument("what", choices=("overhead", "scaling", "ray-data", "fit", "writer", "model"))
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, default=200_000, help="of the fit")
    parser.add_argument("--classes", type=int, default=1000, help="of the fit")
    parser.add_argument("--rate", type=float, default=100.0, help="images per second of one core")
    parser.add_argument("--start", type=float, default=1.5)
    parser.add_argument("--bytes-in", type=float, default=100e3, help="of a photo")
    parser.add_argument("--bytes-out", type=float, default=2.2e3, help="of a row: 512 numbers, path, hash")
    parser.add_argument("--cell-seconds", type=float, default=0.5)
    options = parser.parse_args(arguments)
    if options.what in ("model", "writer"):
        print(json.dumps(model(options) if options.what == "model" else writer(), indent=1))
        return
    if options.what == "fit":
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(fit(options, Path(folder)), indent=1))
        return
    if options.photos is None:
        parser.error("--photos is missing")
    with tempfile.TemporaryDirectory() as folder:
        photos = collect(options.photos, options.images, Path(folder) / "photos")
        run = {"overhead": overhead, "scaling": scaling, "ray-data": by_ray_data}[options.what]
        print(json.dumps(run(options, photos, Path(folder)), indent=1))


if __name__ == "__main__":
    main()
