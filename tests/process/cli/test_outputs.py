"""What a command may write over: files of its own kind, whole and unchanged, and nothing else."""

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from commands import ask, lpp, usage
from lpplusplus.bench.results import Results
from lpplusplus.cli.outputs import KINDS, may_replace
from toy_images import contents, make_folder

OLD = Path(__file__).parents[2] / "data" / "written_by_0.1"
WRITTEN = {
    "a classifier": ["model.lpp"],
    "a report": ["report.html", "evaluation.html"],
    "a map": ["map.html"],
    "an export": ["head.onnx", "birds.py", "page.html"],
    "a plot": ["plots/confusion.png", "plots/reliability.png"],
    "a list of tasks": ["draws.json"],
    "a results folder's database": ["results.sqlite"],
    "a report of a benchmark": [
        *(f"benchmark/report.{ending}" for ending in ("csv", "html", "json", "md", "tex")), "benchmark/tables/cost.csv",
        "benchmark/tables/demo.csv", "benchmark/figures/time.png", "benchmark/figures/time.svg",
    ],
    "a page of unsure photos": [],  # Of `lpp sort`, which came later.
}  # fmt: skip


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("photos") / "photos", {"robin": 3, "wren": 3})


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.lpp"
    lpp("train", photos, "-o", path, "-e", "drawings")
    return path


def test_every_kind_is_known_by_what_version_0_1_wrote():
    assert {*WRITTEN} == {*KINDS}
    for what in KINDS:
        for name in {name for names in WRITTEN.values() for name in names}:
            assert may_replace(OLD / name, what) == (name in WRITTEN[what]), (name, what)


def test_a_word_in_it_makes_no_file_ours(tmp_path):
    """A person's file of each ending, with every mark that ours have but not their form; links; what is no file."""
    marks = (
        b'<meta name="generator" content="lpplusplus">\n<!-- lpplusplus report 00 -->\nfrom lpplusplus import load\n'
    )
    for ending in ("csv", "html", "json", "lpp", "md", "onnx", "png", "py", "sqlite", "svg", "tex"):
        path = tmp_path / f"mine.{ending}"
        path.write_bytes(marks)
        assert not any(may_replace(path, what) for what in KINDS)
    os.mkfifo(tmp_path / "pipe.lpp")
    (tmp_path / "link.lpp").symlink_to(tmp_path / "nowhere")
    for name in ("pipe.lpp", "link.lpp", "."):
        assert not any(may_replace(tmp_path / name, what) for what in KINDS)
    assert all(may_replace(tmp_path / "new", what) for what in KINDS)


def test_readme_in_its_order_and_once_more(photos, tmp_path):
    """A classifier, its report and its export by one name, and each again."""
    for _ in range(2):
        lpp("train", photos, "-o", "birds.lpp", "-e", "drawings", "--report", "birds.html", cwd=tmp_path)
        report = (tmp_path / "birds.html").read_bytes()
        lpp("export", "birds.lpp", "-o", "birds.onnx", cwd=tmp_path)
        assert (tmp_path / "birds.html").read_bytes() == report
    assert sorted(contents(tmp_path)) == ["birds.html", "birds.lpp", "birds.onnx", "birds.onnx.html", "birds.py"]


def test_an_export_leaves_programs_of_people(model, tmp_path):
    mine = "from lpplusplus import load\n"
    (tmp_path / "m.py").write_text(mine)
    said = usage("export", model, "-o", tmp_path / "m.onnx")
    assert "is not an export" in said
    assert "--no-programs" in said
    assert sorted(contents(tmp_path)) == ["m.py"]
    shutil.copy(OLD / "birds.py", tmp_path / "m.py")
    shutil.copy(OLD / "page.html", tmp_path / "m.onnx.html")
    shutil.copy(OLD / "head.onnx", tmp_path / "m.onnx")
    lpp("export", model, "-o", tmp_path / "m.onnx")
    with open(tmp_path / "m.py", "a") as file:
        file.write("# and what I added\n")
    assert "is not an export" in usage("export", model, "-o", tmp_path / "m.onnx")


def test_a_report_that_somebody_has_annotated_stays(model, photos, tmp_path):
    page = tmp_path / "page.html"
    shutil.copy(OLD / "report.html", page)
    for _ in range(2):
        lpp("check", model, "--report", page)
    annotated = page.read_text().replace("</main>", "<p>Ask Ada about the wrens.</p></main>")
    page.write_text(annotated)
    for command in (["check", model, "--report"], ["map", photos, "-e", "drawings", "-o"]):
        assert "is there already" in usage(*command, page)
    assert page.read_text() == annotated
    lpp("map", photos, "-e", "drawings", "-o", tmp_path / "map.html")
    assert "is not a report" in usage("check", model, "--report", tmp_path / "map.html")


def test_plots_of_people_stay(model, photos, tmp_path):
    from PIL import Image

    shutil.copytree(OLD / "plots", tmp_path / "plots")
    lpp("evaluate", model, photos, "--plots", tmp_path / "plots")
    Image.new("RGB", (8, 8)).save(tmp_path / "plots" / "reliability.png")
    before = contents(tmp_path)
    assert "is not a plot" in usage("evaluate", model, photos, "--plots", tmp_path / "plots")
    assert contents(tmp_path) == before


def test_a_benchmark_leaves_what_is_not_its_own(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    shutil.copy(OLD / "results.sqlite", results)
    shutil.copytree(OLD / "benchmark", tmp_path / "report")
    shutil.copy(OLD / "draws.json", tmp_path)
    for form in ("csv", "html", "json", "latex", "markdown"):
        lpp("bench", "report", results, "-f", form, "-o", tmp_path / "report")
    lpp("bench", "draws", results, "-o", tmp_path / "draws.json")

    (tmp_path / "draws.json").write_text(json.dumps([{"my": "drawing"}]))
    (tmp_path / "report" / "report.md").write_text("# What I found\n")
    (tmp_path / "report" / "figures" / "time.svg").write_text("<svg>")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "results.sqlite").write_bytes(b"mine")
    before = contents(tmp_path)
    for form in ("markdown", "csv"):
        assert "is not a report of a benchmark" in usage(
            "bench", "report", results, "-f", form, "-o", tmp_path / "report"
        )
    assert "is not a list of tasks" in usage("bench", "draws", results, "-o", tmp_path / "draws.json")
    (tmp_path / "plan.toml").write_text(
        'name = "d"\ndatasets = ["demo"]\nencoders = ["drawings"]\nmethods = ["ZeroShot"]\n'
    )
    assert "is not a results folder's database" in usage(
        "bench", "run", tmp_path / "plan.toml", "-o", tmp_path / "mine"
    )
    (tmp_path / "plan.toml").unlink()
    assert contents(tmp_path) == before


def test_a_pipe_is_no_model(photos, tmp_path):
    """Nobody writes to it, so reading it would never end."""
    os.mkfifo(tmp_path / "m.lpp")
    assert "is there already and is not a classifier" in usage("train", photos, "-o", tmp_path / "m.lpp")


def test_what_was_made_is_what_is_told(model, tmp_path):
    told = ask("export", model, "-o", tmp_path / "m.onnx")
    assert [Path(name).name for name in told["files"]] == ["m.onnx", "m.py", "m.onnx.html"]


def test_results_of_a_killed_writer_are_results(tmp_path):
    """What a killed writer left is undone by the next one, so it must not be taken for somebody else's file."""
    results = tmp_path / "results.sqlite"
    shutil.copy(OLD / "results.sqlite", results)
    killed = tmp_path / "killed"
    killed.mkdir()
    with contextlib.closing(sqlite3.connect(results, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # So that half of the change is in the file.
        database.execute("BEGIN")
        database.execute("CREATE TABLE more (text TEXT)")
        database.executemany("INSERT INTO more VALUES (?)", [("x" * 4000,)] * 50)
        for file in tmp_path.glob("results.sqlite*"):
            shutil.copy(file, killed)
    assert sorted(file.name for file in killed.iterdir()) == ["results.sqlite", "results.sqlite-journal"]
    assert KINDS["a results folder's database"](killed / "results.sqlite")
    before = [row.cell.key for row in Results(tmp_path).rows()]
    assert before
    assert [row.cell.key for row in Results(killed).rows()] == before
