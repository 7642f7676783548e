"""What `lpp export --int8` costs and saves: size, time and answers beside the export in the encoder's own precision.

    python -m benchmarks.export --photos $LPP_DATA/photos/pets --shots 4 --images 200
    python -m benchmarks.export --json

`--photos` has a folder per class; without it, pictures are drawn. A classifier learns from the first `--shots` images
of each class. Both files answer for other images, spread over all classes, in turns and one at a time; the ratio of
times is the median over rounds. Differences are in probability, from the classifier in the package.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.measure import interleave, median
from lpplusplus.deploy.export import export_onnx
from lpplusplus.encoders.pixels.decoding import open_image
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo


def measure(photos: Path, shots: int, count: int, repeats: int, encoder: str) -> dict[str, Any]:
    """Train, export twice, and compare both files."""
    groups = [sorted(folder.iterdir()) for folder in sorted(photos.iterdir()) if folder.is_dir()]
    support = [file for group in groups for file in group[:shots]]
    rest = [file for group in groups for file in group[shots:]]
    if not rest:
        raise SystemExit(f"{photos}: no class has more than {shots} images.")
    chosen = [rest[k] for k in np.linspace(0, len(rest) - 1, min(count, len(rest)), dtype=int)]
    classifier = ImageClassifier(encoder).fit([str(file) for file in support], [file.parent.name for file in support])
    expected = classifier.predict_proba([str(file) for file in chosen])
    pixels = [np.asarray(open_image(file).convert("RGB")) for file in chosen]
    sessions, rows = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("plain", "int8"):
            path = Path(folder, f"{name}.onnx")
            size = export_onnx(classifier, path, int8=name == "int8").bytes
            sessions[name] = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
            rows[name] = {"bytes": size}

    def answers(name: str) -> NDArray[Any]:
        return np.concatenate([sessions[name].run(["probabilities"], {"image": one})[0] for one in pixels])

    for name in sessions:
        given = answers(name)
        away = np.abs(given - expected).max(axis=1)
        changed = int((given.argmax(axis=1) != expected.argmax(axis=1)).sum())
        rows[name] |= {"largest": float(away.max()), "median": float(np.median(away)), "changed_answers": changed}
    times = interleave({name: lambda name=name: answers(name) for name in sessions}, repeats, warmup=0)
    for name, seconds in times.items():
        rows[name]["ms_per_image"] = 1000 * median(seconds) / len(pixels)
    ratio = median(a / b for a, b in zip(times["int8"], times["plain"], strict=True))
    return {"images": len(pixels), "classes": len(groups), "time_ratio": ratio,
            "size_ratio": rows["int8"]["bytes"] / rows["plain"]["bytes"], "files": rows}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--photos", type=Path, help="a folder per class, instead of drawings")
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if options.photos is None:
            write_demo(Path(folder, "drawings"), options.shots + 5, seed=0)
        photos = options.photos or Path(folder, "drawings")
        found = measure(photos, options.shots, options.images, options.repeats, options.encoder)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['images']} images of {found['classes']} classes")
    for name, row in found["files"].items():
        print(f"{name:6} {row['bytes'] / 1e6:7.2f} MB  {row['ms_per_image']:7.2f} ms per image  difference at most "
              f"{row['largest']:.2g}, median {row['median']:.2g}; {row['changed_answers']} other answers")  # fmt: skip
    print(f"int8 / plain: size × {found['size_ratio']:.2f}, time × {found['time_ratio']:.2f}")


if __name__ == "__main__":
    main()
