"""Every program of examples/, run as its reader would run it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name, folder):
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def percentages(text):
    return [float(number) for number in re.findall(r"([\d.]+) %", text)]


def test_there_is_one_program_per_reader():
    names = {path.stem for path in EXAMPLES.glob("[a-z]*.py")}
    assert names == {"photos", "arrays", "own_encoder", "own_method", "served"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_programs_stand_alone(path):
    """Nothing of benchmarks/, tests/ or another example is imported, and the first line says how to run it."""
    text = path.read_text(encoding="utf-8")
    assert f"python examples/{path.name}" in text.splitlines()[0]
    assert not re.search(r"^\s*(from|import) (benchmarks|studies|tests|examples|helpers)", text, re.MULTILINE)


def test_photos(tmp_path):
    out = run("photos", tmp_path)
    assert "192 images of 24 classes" in out
    accuracy, *answers = percentages(out)
    assert accuracy > 60
    assert len(answers) == 5


def test_arrays(tmp_path):
    out = run("arrays", tmp_path)
    rows = [line.split() for line in out.splitlines() if re.match(r"\s+\d", line)]
    assert [row[0] for row in rows] == ["1", "2", "4", "8", "16"]
    assert all(float(both) > max(float(names), float(examples)) for _, names, examples, both, _ in rows)
    assert "predicts the same: True" in out


def test_own_encoder(tmp_path):
    words, both = percentages(run("own_encoder", tmp_path))
    assert 30 < words < both


def test_own_method(tmp_path):
    rows = dict(re.findall(r"^ *(\w+) .* ([\d.]+) ± [\d.]+$", run("own_method", tmp_path), re.MULTILINE))
    assert set(rows) == {"ZeroShot", "TipAdapter", "LPPlusPlus", "MeanAndName"}
    assert float(rows["ZeroShot"]) < float(rows["MeanAndName"]) <= float(rows["LPPlusPlus"])


def test_served(tmp_path):
    pytest.importorskip("fastapi", reason="lpp serve needs the extra serve")
    *answers, refusal = run("served", tmp_path).splitlines()
    assert "blue_star: blue_star" in answers[0]
    assert len(answers) == 4
    assert "note.txt" in refusal
