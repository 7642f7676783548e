"""The programs of docs/how-to/other-tools.md with the tools that they are about, in virtual environments of their own.

Takes minutes, and the package index: `pytest -m slow -n 0 tests/docs/test_other_tools.py`. `LPP_TOOLS` names a folder
of virtual environments, `skops`, `mlflow` and `fiftyone`, to use instead of new ones.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "other-tools.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE))
pytestmark = pytest.mark.slow

MODEL_ALONE = """
from PIL import Image
import numpy as np
from lpplusplus.images import ImageClassifier
from fiftyone.core.models import Model
from fiftyone_model import Photos

photos = [Image.new("RGB", (64, 64), colour) for colour in ("red", "darkred", "blue", "navy")]
ImageClassifier("drawings").fit(photos, ["red", "red", "blue", "blue"]).save("colours.lpp")
model = Photos("colours.lpp")
assert isinstance(model, Model) and model.media_type == "image"
(said,) = model.predict_all([np.asarray(photos[0])])
assert said.label == "red" and 0.5 < said.confidence <= 1
assert model.predict(np.asarray(photos[3])).label == "blue"
"""
ON_A_DATASET = (
    MODEL_ALONE
    + """
import fiftyone as fo
for number, photo in enumerate(photos):
    photo.save(f"{number}.png")
dataset = fo.Dataset()
dataset.add_samples([fo.Sample(filepath=f"{number}.png") for number in range(4)])
dataset.apply_model(model, label_field="lpp")
assert dataset.values("lpp.label") == ["red", "red", "blue", "blue"]
"""
)


def python_with(tool, folder):
    """An interpreter that has the tool and this package."""
    if "LPP_TOOLS" in os.environ:
        return Path(os.environ["LPP_TOOLS"], tool, "bin", "python")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[images]", tool], check=True)
    return python


def run(python, folder, program):
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run([python, "program.py"], cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_skops(tmp_path):
    run(python_with("skops", tmp_path), tmp_path, FILES["with_skops.py"])


def test_mlflow(tmp_path):
    run(python_with("mlflow", tmp_path), tmp_path, FILES["with_mlflow.py"])


def test_fiftyone_model(tmp_path):
    run(python_with("fiftyone", tmp_path), tmp_path, MODEL_ALONE)


def test_fiftyone_data_set(tmp_path):
    """Needs the database that FiftyOne starts."""
    run(python_with("fiftyone", tmp_path), tmp_path, ON_A_DATASET)
