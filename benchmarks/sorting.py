"""What sorting photos costs beside embedding them: time of `lpp sort` over the time of `lpp embed`, and memory.

    python -m benchmarks.sorting --images 10000 --json
    python -m benchmarks.sorting --photos $LPP_DATA/photos/pets --images 10000

Pictures are rendered, or photos of a folder, each copied often enough with some bytes behind its end, so that no two
files are the same. The classifier knows two classes of them. Contestants take turns, each into a new folder:

embed         photos to a feature store, as `lpp embed` makes it
sort          photos to copies in class folders, with prediction sets, none of these, and the page of unsure ones
sort --move   the same, moving them

The ratio is the median over rounds of a contestant's time over embed's time in the same round. Memory is the peak of
sorting above the size before it, for a quarter of the photos and for all: it should hardly grow.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.embedding import render
from benchmarks.measure import interleave, median, peak_extra_memory
from lpplusplus.images import ImageClassifier, embed
from lpplusplus.images.photo_files import find_photos
from lpplusplus.images.sorting import SortedFolder, Way, sort_photos
from lpplusplus.images.sources import from_folder, from_list

LIMIT = 1.1
"""How much longer than embedding photos sorting them may take."""
EXAMPLES = 8
"""Photos per class that the classifier learns from."""


def prepare(folder: Path, source: Path | None, count: int, size: tuple[int, int]) -> ImageClassifier:
    """Write the photos into a folder of this one; the classifier of two of their classes."""
    images = from_folder(source) if source else render(folder / "rendered", min(count, 300), *size)
    assert images.labels is not None
    two = [position for position, label in enumerate(images.labels.tolist()) if label in images.classes[:2]]
    images = images.subset(two)
    clf = ImageClassifier(on_error="skip").fit(images, shots=EXAMPLES)
    (folder / "photos").mkdir()
    for number in range(count):
        item = images.items[number % len(images)]
        assert isinstance(item, Path)
        (folder / "photos" / f"{number:06}.jpg").write_bytes(item.read_bytes() + b"%06d" % number)
    return clf


def sort(clf: ImageClassifier, photos: list[Path], to: Path, way: Way = "copy") -> int:
    """Sort photos as the command does; how many have found a place."""
    with SortedFolder(to) as folder:
        placed = sum(map(len, sort_photos(clf, photos, folder, way=way, skipped=print)))
        folder.write_page()
    return placed


def measure(clf: ImageClassifier, root: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of each contestant, in turns."""
    photos, out = find_photos([root / "photos"], root / "sorted")[0], root / "sorted"
    encoder = clf.open_encoder()

    def into_store() -> None:
        shutil.rmtree(root / "store", ignore_errors=True)
        embed(from_list(photos), encoder, store=root / "store")

    def copies() -> None:
        shutil.rmtree(out, ignore_errors=True)
        assert sort(clf, photos, out) == len(photos)

    def moves() -> None:
        with SortedFolder(out) as folder:  # Of the last round.
            folder.undo()
        assert sort(clf, photos, out, "move") == len(photos)
        with SortedFolder(out) as folder:
            folder.undo()

    return interleave({"embed": into_store, "sort": copies, "sort --move and undo": moves}, repeats, warmup=0)


def memory(clf: ImageClassifier, root: Path) -> dict[str, float]:
    """Peak of sorting in MiB, for a quarter of the photos and for all."""
    photos = find_photos([root / "photos"], root / "sorted")[0]
    found = {}
    for name, some in (("first", photos[:300]), ("quarter", photos[: len(photos) // 4]), ("all", photos)):
        shutil.rmtree(root / "sorted", ignore_errors=True)
        _, found[name] = peak_extra_memory(lambda some=some: sort(clf, some, root / "sorted"))  # type: ignore[misc]
    return {name: round(found[name], 1) for name in ("quarter", "all")}


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="a folder per class, instead of rendered pictures")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--size", default="500x375", help="width x height of the pictures")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    width, height = (int(side) for side in options.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        clf = prepare(root, options.photos, options.images, (width, height))
        times = measure(clf, root, options.repeats)
        peak = memory(clf, root)
    ratios = {name: median(a / b for a, b in zip(some, times["embed"], strict=True)) for name, some in times.items()}
    row: dict[str, Any] = {
        "photos": options.images,
        "photos_per_second": options.images / median(times["embed"]),
        "seconds": {name: median(some) for name, some in times.items()},
        "ratio": ratios,
        "limit_ratio": LIMIT,
        "within_limit": ratios["sort"] <= LIMIT,
        "peak_mib": peak,
    }
    if options.json:
        print(json.dumps(row, indent=1))
        return
    for name, some in times.items():
        print(f"{name:22} {median(some):8.2f} s  × {ratios[name]:.3f}")
    print(f"sort {'is within' if row['within_limit'] else 'EXCEEDS'} {LIMIT:g} × embed; {peak['quarter']} MiB for a "
          f"quarter of the photos, {peak['all']} MiB for all")  # fmt: skip


if __name__ == "__main__":
    main()
