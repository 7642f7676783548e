"""How long a large feature store takes to load: a million embeddings of 512 dimensions unless told otherwise.

    python -m benchmarks.store --rows 1000000 --dim 512 --json

The shards are written by the package's own writer from random numbers, as `embed` would. `open` reads the index, `maps`
gives memory maps, `load` reads and checks every byte into one array, `read` is a plain read of the same files into that
much memory, the least that any loader must do. Turns are taken, medians reported. Files are in the page cache, as after
`lpp embed`; `--cold` asks the system to drop them before each turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import interleave, median
from lpplusplus.images.embeddings import Origin
from lpplusplus.images.store import ROWS_PER_SHARD, FeatureStore, Shard, StoreWriter
from lpplusplus.images.store.shards import list_digest

LIMIT = 2.0
"""Seconds that loading may take."""


def write_store(path: Path, rows: int, dim: int, classes: int = 1000) -> float:
    """A store of random embeddings; seconds it took to write."""
    rng = np.random.default_rng(0)
    origin = Origin("random", "seed 0", "none", dim)
    names = [f"class_{index}" for index in range(classes)]
    paths = [f"photos/{names[row % classes]}/{row:08}.jpg" for row in range(rows)]
    labels = [names[row % classes] for row in range(rows)]
    spans = [slice(a, min(a + ROWS_PER_SHARD, rows)) for a in range(0, rows, ROWS_PER_SHARD)]
    listed = [list_digest(paths[span], labels[span]) for span in spans]
    start = time.perf_counter()
    with StoreWriter(path, origin, listed) as writer:
        for number, span in enumerate(spans):
            n = span.stop - span.start
            hashes = [hashlib.sha256(name.encode()).digest() for name in paths[span]]
            shard = Shard(
                origin.key, listed[number], rng.standard_normal((n, 1, dim), np.float32),
                np.frombuffer(b"".join(hashes), np.uint8).reshape(n, 32), np.arange(n, dtype=np.int32), paths[span],
                labels[span],
            )  # fmt: skip
            writer.put(number, shard)
        writer.finish(names, names, True)
    return time.perf_counter() - start


def drop_from_cache(path: Path) -> None:
    """Ask the system to forget the files' content."""
    for file in path.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def measure(path: Path, repeats: int, cold: bool) -> dict[str, list[float]]:
    """Seconds of each way to read the store, in turns."""

    def plain() -> None:
        out = np.empty(sum(file.stat().st_size for file in path.iterdir()), np.uint8)
        end = 0
        for file in sorted(path.iterdir()):
            with open(file, "rb", buffering=0) as opened:
                end += opened.readinto(memoryview(out)[end:]) or 0

    def cooled(action):  # type: ignore[no-untyped-def]
        if not cold:
            return action

        def run() -> None:
            drop_from_cache(path)
            action()

        return run

    ways = {
        "open": lambda: FeatureStore(path),
        "maps": lambda: FeatureStore(path).maps(),
        "load": lambda: FeatureStore(path).load(),
        "load, not checked": lambda: FeatureStore(path).load(verify=False),
        "read": plain,
    }
    return interleave({name: cooled(way) for name, way in ways.items()}, repeats, warmup=0 if cold else 1)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="drop the files from the page cache before each turn")
    parser.add_argument("--folder", type=Path, default=None, help="where to write the store (removed afterwards)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "store"
        written = write_store(path, options.rows, options.dim)
        seconds = {name: median(times) for name, times in measure(path, options.repeats, options.cold).items()}
        size = sum(file.stat().st_size for file in path.iterdir())
    row = {
        "rows": options.rows, "dim": options.dim, "bytes": size, "cold": options.cold, "write_seconds": written,
        "seconds": seconds, "limit_seconds": LIMIT, "within_limit": seconds["load"] <= LIMIT,
    }  # fmt: skip
    if options.json:
        print(json.dumps(row, indent=1))
        return
    print(f"{options.rows:,} × {options.dim} float32, {size / 1e9:.2f} GB, {'cold' if options.cold else 'warm'}")
    print(f"{'write':18} {written:8.3f} s")
    for name, value in seconds.items():
        print(f"{name:18} {value:8.3f} s")
    print(f"load {'is within' if row['within_limit'] else 'EXCEEDS'} {LIMIT:g} s")


if __name__ == "__main__":
    main()
