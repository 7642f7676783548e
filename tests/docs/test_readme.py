"""README's own lines, run as a reader would run them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lpplusplus.images.drawings import write_demo

README = Path(__file__).resolve().parents[2] / "README.md"
HUB_ID, COMMIT = "immich-app/ViT-B-32__openai", "0123456789012345678901234567890123456789"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def lpp_lines():
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("lpp ")]
    return [re.sub(r"\s+#.*", "", line) for line in lines]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with photos/, test/, more/, unlabelled/, holiday/ and new/, and a hub's cache with a model."""
    folder = tmp_path_factory.mktemp("reader")
    for seed, name in enumerate(("photos", "test", "more", "unlabelled", "holiday"), 1):
        write_demo(folder / name, 3, seed=seed)
    (folder / "new").mkdir()
    for number, picture in enumerate(sorted((folder / "test").glob("*/0000.jpg"))[:3]):
        shutil.copy(picture, folder / "new" / f"{'abc'[number]}.jpg")
    import lpplusplus

    repository = folder / "hub" / f"models--{HUB_ID.replace('/', '--')}"
    model = Path(lpplusplus.__file__).parent / "encoders" / "drawings_model"
    shutil.copytree(model, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return folder


def run(command, place):
    environment = {**os.environ, "HF_HUB_CACHE": str(place / "hub"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def test_every_command_line(place):
    lines = lpp_lines()
    assert [line.split()[1] for line in lines] == [
        "train", "sort", "sort", "sort", "sort", "train", "predict", "predict", "evaluate", "add", "check", "suggest",
        "inspect", "export", "encoders", "embed", "train"]  # fmt: skip
    for line in lines:
        words = shlex.split(line)[1:]
        expanded = [path for word in words for path in (sorted(map(str, place.glob(word))) if "*" in word else [word])]
        done = run([sys.executable, "-m", "lpplusplus", *expanded], place)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert done.stdout.strip()
        assert done.stderr == ""
    assert {path.name for path in (place / "plots").iterdir()} == {"confusion.png", "reliability.png"}


def test_the_python_of_image_folders(place):
    (code,) = [block for block in blocks("python") if "ImageClassifier" in block]
    done = run([sys.executable, "-c", code], place)
    assert done.returncode == 0, done.stderr
    assert (place / "birds.lpp").exists()


def test_both_commands_are_the_ones_that_ci_runs():
    two = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("pip install")]
    assert len(two) == 2
    install, run = re.sub(r"\s+#.*", "", two[1]).split(" && ")
    script = (README.parent / ".ci" / "run").read_text()
    first = script.index(install.replace("pip install", 'part "README: install" pip install --quiet'))
    assert script.index(f'part "README: pytest" {run} -q\n') > first


def test_the_measured_numbers_are_those_of_their_page():
    """Of four examples per class, which is the third column."""
    page = (README.parent / "docs" / "explanation" / "accuracy.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ViT-B/32: (.*?) \| (.*) \|$", page, re.MULTILINE))
    said = README.read_text(encoding="utf-8").partition("## How good, how fast")[2]
    measured = [numbers.split(" | ")[2] for numbers in rows.values()]
    assert len(measured) == 4
    assert sorted(re.findall(r"\b\d\d\.\d\b", said)) == sorted(number.strip("* ") for number in measured)
