"""A plan from end to end: nothing lost, nothing run twice, nothing leaked."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace

import numpy as np
import pytest

import lpplusplus
from bench_trees import PAPER, SHIFTS, Trees
from lpplusplus.bench import run_cell as cells
from lpplusplus.bench import runner
from lpplusplus.bench.cell import Cell, EmbeddedDataset
from lpplusplus.bench.draw_task import draw_task
from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import parse_plan, read_plan
from lpplusplus.bench.report.statistics import distinct, rate_of
from lpplusplus.bench.results import Results
from lpplusplus.bench.run_cell import PeakMemory
from lpplusplus.bench.runner import run_plan
from lpplusplus.cli.bench import run_and_tell
from lpplusplus.images.embeddings import Embeddings
from tasks import small_task
from toy_images import make_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLAN = """
datasets = ["made"]
encoders = ["one", "two"]
methods = ["Zero-shot", "Tip-Adapter", "LP++ (paper)", "LP++ (default)"]
shots = [1, 2]
draws = 3

[dataset.made]
folder = "made"
reader = "feature-file"
files = { one = "one.npz", two = "two.npz" }
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root of data sets with published features of two encoders."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "made").mkdir()
    for seed, name in enumerate(("one", "two")):
        X, y, T = small_task(5, 12, 24, seed)
        X, y = X[np.argsort(y, kind="stable")], np.sort(y)  # The same images for both.
        classes = np.array(["ant", "bee", "cat", "dog", "eel"])
        np.savez(folder / "made" / f"{name}.npz", images=X.astype(np.float32), labels=y, text=T.astype(np.float32),
                 classnames=classes)  # fmt: skip
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.fixture(scope="module")
def finished(root, tmp_path_factory):
    """An uninterrupted run."""
    results = Results(tmp_path_factory.mktemp("results"))
    summary = run_plan(
        read_plan(root / "plan.toml"), results, DatasetLoader(root, results.folder / "features"), n_jobs=1
    )
    return results, summary


def outcomes(results):
    return sorted((row.cell.key, row.accuracy, row.draw) for row in results.rows())


def lpp(root, folder, *more):
    command = [sys.executable, "-m", "lpplusplus", "bench", "run", str(root / "plan.toml"), "--root", str(root)]
    return subprocess.Popen([*command, "-o", str(folder), "-j", "1", "--json", *more], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip


def test_every_cell_is_there_once(root, finished):
    results, summary = finished
    assert (summary.cells, summary.run, summary.already, summary.failed) == (48, 48, 0, 0)
    rows = results.rows()
    assert len({row.cell.key for row in rows}) == len(rows) == 48
    assert {row.cell.seed for row in rows} == {1, 2, 3}
    assert all(row.fit_seconds > 0 and row.test_images > 0 and row.versions["numpy"] for row in rows)
    assert {row.selection for row in rows if row.cell.method == "LP++ (paper)"} == {"update by validation"}
    assert {row.validation_images for row in rows if row.cell.method == "LP++ (default)"} == {0}
    assert {row.parameter_count for row in rows if row.cell.method == "LP++ (paper)"} == {5 * 25}


def test_memory_that_was_freed_before_counts_when_it_is_taken_again():
    for _ in range(2):
        np.ones(2**22).sum()
        with PeakMemory() as memory:
            np.ones(2**22).sum()
        if memory.mib is None:
            pytest.skip("the system does not tell")
        assert 30 < memory.mib < 40  # Linux counts pages now and then, not each one.
    with PeakMemory() as memory:
        pass
    assert memory.mib < 1


def test_accuracies_are_those_of_the_saved_draws(root, finished):
    """Recomputed from the file, the draw and the estimator alone."""
    results, _ = finished
    draws = results.draws()
    for row in results.rows()[::5]:
        with np.load(root / "made" / f"{row.cell.encoder}.npz") as file:
            X, y, T = file["images"], file["labels"], file["text"]
        draw = draws[row.draw]
        support, held, test = (np.array(draw[part]) for part in ("support", "validation", "test"))
        assert not set(support) & set(test)
        assert not set(held) & set(test)
        assert not set(held) & set(support)
        model = getattr(lpplusplus, row.cell.estimator)(**row.cell.parameters)
        if "random_state" in model.get_params():
            model.set_params(random_state=row.cell.seed)
        extra = {"X_val": X[held], "y_val": y[held]} if row.cell.validation else {}
        model.fit(X[support], y[support], text=T, classes=range(5), **extra)
        assert row.accuracy == pytest.approx(model.score(X[test], y[test]))


def test_all_methods_see_the_same_task_and_seeds_differ(finished):
    results, _ = finished
    drawn = {}
    for row in results.rows():
        drawn.setdefault((row.cell.encoder, row.cell.shots, row.cell.seed), set()).add(row.draw)
    assert all(len(hashes) == 1 for hashes in drawn.values())
    supports = {json.dumps(draw["support"]) for draw in results.draws().values() if draw["shots"] == 2}
    assert len(supports) >= 3


def test_a_second_run_does_nothing_and_more_tasks_only_what_is_new(root, finished, tmp_path):
    results, _ = finished
    plan, loader = read_plan(root / "plan.toml"), DatasetLoader(root, tmp_path)
    again = run_plan(plan, results, loader, n_jobs=1)
    assert (again.run, again.already) == (0, 48)
    assert again.overhead is None
    folder = Results(tmp_path / "more")
    first = run_plan(read_plan(root / "plan.toml", draws=1), folder, loader, n_jobs=1)
    second = run_plan(plan, folder, loader, n_jobs=1)
    assert (first.run, second.already, second.run) == (16, 16, 32)
    assert outcomes(folder) == outcomes(results)


@pytest.mark.skipif(os.name != "posix", reason="Windows does not tell a process that its parent has ended")
@pytest.mark.parametrize(("how", "rows"), [(signal.SIGTERM, 5), (signal.SIGKILL, 5), (signal.SIGKILL, 0)])
def test_workers_end_with_the_process_that_started_them(root, tmp_path, how, rows):
    """Also those that have not had their first cell."""
    psutil = pytest.importorskip("psutil", reason="psutil lists the workers")
    process = lpp(root, tmp_path, "-j", "2", "--tasks", "1000")
    while len(workers := psutil.Process(process.pid).children(recursive=True)) < 2 or (
        rows and len(Results(tmp_path).rows()) < rows
    ):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(process.pid, how)
    _, alive = psutil.wait_procs(workers, timeout=300)
    for left in alive:
        left.kill()
    assert not alive
    process.communicate(timeout=300)  # Nobody holds its pipes.


def test_results_of_other_code_are_kept_and_told(root, finished, tmp_path, monkeypatch, capsys):
    from lpplusplus.cli.bench import run_and_tell

    results, _ = finished
    shutil.copytree(results.folder, tmp_path / "r")
    plan = read_plan(root / "plan.toml")
    assert run_and_tell(plan, tmp_path / "r", root, 1) == 0
    assert "other code" not in capsys.readouterr().err
    now = dict(cells.versions())
    assert now[cells.CODE] == cells._code()
    monkeypatch.setattr(cells, "versions", lambda: now | {cells.CODE: "another"})
    assert run_and_tell(plan, tmp_path / "r", root, 1) == 0
    assert "48 of these results are from other code of lpplusplus" in " ".join(capsys.readouterr().err.split())
    assert outcomes(Results(tmp_path / "r")) == outcomes(results)


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_second_process_is_told_to_wait(root, finished, tmp_path):
    """One writer at a time; what it was doing is done by the next."""
    first = lpp(root, tmp_path, "--draws", "1000")
    while not (tmp_path / "results.sqlite").exists() or not Results(tmp_path).rows():
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    told = lpp(root, tmp_path)
    assert "is being written by another process" in told.communicate(timeout=600)[1]
    assert told.returncode == 1
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    last = lpp(root, tmp_path)
    complaints = last.communicate(timeout=300)
    assert last.returncode == 0, complaints
    assert {key: rest for key, *rest in outcomes(finished[0])}.items() <= {
        key: rest for key, *rest in outcomes(Results(tmp_path))
    }.items()


def test_another_description_of_a_data_set_is_another_data_set(root, finished, tmp_path):
    """Results of one prompt are not passed off as another's; averages keep the two apart."""
    shutil.copytree(finished[0].folder, tmp_path / "copy")
    results = Results(tmp_path / "copy")
    renamed = PLAN + 'rename = { ant = "emmet" }\n'
    (root / "renamed.toml").write_text(renamed)
    summary = run_plan(read_plan(root / "renamed.toml"), results, DatasetLoader(root, tmp_path / "f"), n_jobs=1)
    assert (summary.already, summary.run) == (0, summary.cells)
    names = set(distinct(row.cell for row in results.rows()).values())
    assert {"Zero-shot", "Zero-shot (data 2)"} <= names


def test_a_number_stands_for_the_same_settings_everywhere():
    def cells(dataset, policy, shots):
        return [Cell(dataset, "b", "m", n, 1, "LPPlusPlus", protocol={"validation": policy}) for n in shots]

    found = [*cells("dtd", "paper", (1, 4)), *cells("dtd", "coop", (1, 4, 16)), *cells("eurosat", "coop", (1, 4, 16))]
    names = distinct(found)
    assert {names[cell.key] for cell in found[:2]} == {"m"}
    assert {names[cell.key] for cell in found[2:]} == {"m (variant 2)"}
    adapter = Cell("dtd", "b", "m", 1, 1, "ClipAdapter", {"learning_rate": 0.01})
    assert np.isnan(rate_of(adapter))  # Part of the method, not a sweep.
    swept = {"solver": "gradient-descent", "learning_rate": 0.01}
    assert rate_of(replace(adapter, estimator="LPPlusPlus", parameters=swept)) == 0.01


def test_a_cell_that_diverges_fails_and_the_rest_goes_on(root, tmp_path):
    wild = {"name": "wild", "estimator": "ClipAdapter", "parameters": {"learning_rate": 1e30, "epochs": 5},
            "validation": False}  # fmt: skip
    plan = parse_plan(tomllib.loads(PLAN) | {"methods": ["wild", "Zero-shot"], "method": [wild], "draws": 1}, "p.toml")
    results = Results(tmp_path)
    summary = run_plan(plan, results, DatasetLoader(root, tmp_path / "f"), n_jobs=1)
    assert (summary.run, summary.failed) == (8, 4)
    assert "lower learning_rate" in results.rows(failed=True)[0].traceback


def test_classes_that_are_out_of_the_question_do_not_hide_the_others():
    """A shift with some of the classes: accuracy is that of their scores, however small their probabilities."""
    rng = np.random.default_rng(0)
    P = rng.standard_normal((40, 64))
    y, columns = np.repeat(np.arange(40), 16), np.arange(0, 40, 5)
    labels = np.tile(np.arange(8), 30)
    X, T = P[y] + 0.6 * rng.standard_normal((640, 64)), P + rng.standard_normal((40, 64))
    test = 0.5 * P[columns[labels]] + 0.5 * P[rng.integers(0, 40, 240)] + 0.9 * rng.standard_normal((240, 64))
    names = tuple(f"c{k}" for k in range(40))
    some = tuple(names[k] for k in columns)
    support = Embeddings(X[:, None], y, classes=names, names=names, text=T, positions=np.arange(640))
    data = EmbeddedDataset({"train": support, "test": Embeddings(test[:, None], labels, classes=some)}, columns=columns)
    draw = draw_task("a", y, shots=16, seed=1, n_test=1, validation="none")
    row = cells.run_cell(Cell("a", "b", "tip", 16, 1, "TipAdapter", {"cache_weight": 500.0, "beta": 5.5}), data, draw)
    model = lpplusplus.TipAdapter(cache_weight=500.0, beta=5.5).fit(X, y, text=T)
    assert row.accuracy == pytest.approx((model.decision_function(test)[:, columns].argmax(1) == labels).mean())


def test_a_shift_of_ones_own(tmp_path):
    """Parent and shift in a plan: the shift has the parent's templates and classes."""
    pytest.importorskip("onnxruntime")
    names = {"n00000001": "robin", "n00000002": "owl", "n00000003": "wren"}
    for place, start, chosen in (
        ("birds/train", 0, names),
        ("birds/val", 100, names),
        ("away/images", 200, list(names)[:2]),
    ):
        make_folder(tmp_path / place, dict.fromkeys(chosen, 4), start=start)
    (tmp_path / "birds" / "classnames.txt").write_text("".join(f"{k} {v}\n" for k, v in names.items()))
    plan = parse_plan(
        {
            "datasets": ["birds", "birds_away"], "encoders": ["drawings"], "methods": ["Zero-shot"], "shots": [1],
            "draws": 1,
            "dataset": {
                "birds": {"folder": "birds", "reader": "imagenet", "train": "train", "test": "val",
                          "templates": ["a photo of a {}."]},
                "birds_away": {"folder": "away", "reader": "imagenet-shift", "images": "images", "parent": "birds"},
            },
        },
        "p.toml",
    )  # fmt: skip
    results = Results(tmp_path / "r")
    run_plan(plan, results, DatasetLoader(tmp_path, tmp_path / "f"), n_jobs=1)
    assert not results.rows(failed=True), results.rows(failed=True)[0].traceback
    assert [row.test_images for row in results.rows()] == [12, 8]


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(root, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        PLAN.replace('methods = ["Zero-shot", "Tip-Adapter", "LP++ (paper)", "LP++ (default)"]',
                     'methods = ["broken", "Zero-shot"]').replace("draws = 3", "draws = 1")
        + '[[method]]\nname = "broken"\nestimator = "LPPlusPlus"\nparameters = { updates = -1 }\n'
    )  # fmt: skip
    results = Results(tmp_path / "results")
    summary = run_plan(read_plan(plan), results, DatasetLoader(root, tmp_path / "features"), n_jobs=1)
    assert (summary.run, summary.failed) == (8, 4)
    failures = results.rows(failed=True)
    assert {row.cell.method for row in failures} == {"broken"}
    assert "updates=-1 is not allowed" in failures[0].traceback
    again = run_plan(read_plan(plan), results, DatasetLoader(root, tmp_path / "features"), n_jobs=1)
    assert (again.already, again.failed) == (4, 4)


def test_a_missing_data_set_fails_its_own_cells_only(root, tmp_path):
    plan = parse_plan({"datasets": ["dtd", "made"], "encoders": ["one"], "methods": ["Zero-shot"], "shots": [1],
                       "draws": 1, "dataset": {"made": {"folder": "made", "reader": "feature-file",
                                                        "files": {"one": "one.npz"}}}}, "plan.toml")  # fmt: skip
    results = Results(tmp_path)
    summary = run_plan(plan, results, DatasetLoader(root, tmp_path / "features"), n_jobs=1)
    assert (summary.run, summary.failed) == (2, 1)
    assert "DTD is not complete" in results.rows(failed=True)[0].traceback


def test_what_the_command_says_when_data_are_missing(tmp_path):
    """Each data set once, in its error's own words, without a table of dashes; programs get all of it."""
    from commands import run

    done = run("bench", "paper", "-o", tmp_path / "r", "--tasks", 1, "-j", 1)
    assert done.returncode == 1
    assert "Mean test accuracy" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("lpp: failed: ")]
    assert len(lines) == 11
    assert "lpp: failed: Caltech101 is looked for below --root" in done.stderr
    told = json.loads(run("bench", "paper", "-o", tmp_path / "r", "--tasks", 1, "-j", 1, "--json").stdout)
    assert {one["mean"] for one in told["averages"]} == {None}
    assert told["failed"] == len(told["failures"]) == told["cells"]


def test_a_plan_that_needs_torch_says_so_first(tmp_path, monkeypatch):
    plan, results, loader = read_plan("demo"), Results(tmp_path / "r"), DatasetLoader(None, tmp_path / "features")
    runner.check_packages(plan)
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"CLIP-Adapter.* train with torch, which is not installed.*\[torch\]"):
        runner.run_plan(plan, results, loader)
    runner.check_packages(read_plan("demo", methods=["Zero-shot", "LP++ (default)"]))


def test_without_torch_the_other_methods_of_a_plan_run(tmp_path, monkeypatch, capsys):
    """Nothing of them waits for torch; the report shows the methods that did not run as missing."""
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    plan = read_plan("demo", methods=["Zero-shot", "CLIP-Adapter", "LP++ (default)"], shots=[1], tasks=1)
    assert run_and_tell(plan, tmp_path / "r", None, 1) == 0
    told = capsys.readouterr()
    assert "left out, as torch is not installed: CLIP-Adapter. After" in told.err
    assert {row.cell.method for row in Results(tmp_path / "r").rows()} == {"Zero-shot", "LP++ (default)"}
    monkeypatch.undo()
    assert run_and_tell(plan, tmp_path / "r", None, 1) == 0
    assert "1 run now" in capsys.readouterr().out


def test_what_a_run_on_a_cluster_did_is_told_on_standard_output(tmp_path, capsys):
    """While a cluster is connected, what is printed goes elsewhere."""

    @contextmanager
    def cluster():
        with redirect_stdout(sys.stderr):
            yield None

    plan = read_plan("demo", methods=["Zero-shot"], shots=[1], tasks=1)
    assert run_and_tell(plan, tmp_path / "r", None, 1, workers=cluster()) == 0
    assert "1 run now" in capsys.readouterr().out


def test_a_method_never_sees_a_test_image(root, tmp_path, monkeypatch):
    """A spy in the place of an estimator: none of what it is given is in the test set."""
    seen = []

    class Spy(lpplusplus.ZeroShot):
        def fit(self, X, y, *, text=None, classes=None, X_val=None, y_val=None):
            seen.extend(row.tobytes() for row in np.concatenate([X, X_val]))
            return super().fit(X, y, text=text, classes=classes, X_val=X_val, y_val=y_val)

        def predict_proba(self, X):
            assert seen
            assert not {row.tobytes() for row in X} & set(seen)
            return super().predict_proba(X)

    monkeypatch.setattr(lpplusplus, "ZeroShot", Spy)
    plan = read_plan(root / "plan.toml")
    data, draws = DatasetLoader(root, tmp_path).load(plan, "made", "one")
    (cell, *_) = [c for c in plan.cells("made", "one") if c.method == "Zero-shot"]
    row = cells.run_cell(cell, data, draws[cell.shots, cell.seed])
    assert row.status == "ok", row.traceback
    assert len(seen) == 10


def test_demo_pictures_to_rows(tmp_path):
    """Images, features, methods: the package's own data set with its own encoder, each picture embedded once."""
    pytest.importorskip("onnxruntime")
    plan = read_plan("demo", draws=1, shots=[1], methods=["Zero-shot", "LP++ (default)"])
    results, loader = Results(tmp_path), DatasetLoader(None, tmp_path / "features")
    summary = run_plan(plan, results, loader, n_jobs=1)
    assert summary.failed == 0, results.rows(failed=True)[0].traceback
    rows = results.rows()
    assert all(row.encode_seconds > 0 and row.test_images == 24 * 30 for row in rows)
    assert all(row.accuracy > 0.3 for row in rows)
    data, _ = loader.load(plan, "demo", "drawings")
    assert data.parts["train"].X.shape == (24, 1, 130)  # Only what the plan's tasks use.


@pytest.mark.usefixtures("open_clip")
def test_prompt_learners_run_on_image_data_sets(tmp_path):
    """CoOp, and PLOT with the places of each image, on a small real open_clip model and a folder of pictures."""
    from exports import write_checkpoint
    from lpplusplus.images.drawings import write_demo

    (tmp_path / "model").mkdir()
    _, weights = write_checkpoint("lpp-tiny-vit", tmp_path / "model")
    write_demo(tmp_path / "root" / "pictures", 6)
    plan = parse_plan(
        {
            "datasets": ["pictures"], "encoders": [f"open_clip:lpp-tiny-vit/{weights}"], "shots": [1], "draws": 1,
            "method": [{"name": name, "estimator": name, "parameters": {"epochs": 2, "n_context": 2}}
                       for name in ("CoOp", "PLOT")],
            "dataset": {"pictures": {"folder": "pictures", "reader": "folder-per-class",
                                     "templates": ["a picture of a {}."],
                                     # As ImageNet has it, and as the authors train.
                                     "rename": {"red_star": "star", "blue_star": "star"}}},
        },
        "plan.toml",
    )  # fmt: skip
    results = Results(tmp_path / "results")
    run_plan(plan, results, DatasetLoader(tmp_path / "root", tmp_path / "features"), n_jobs=1)
    assert not results.rows(failed=True), results.rows(failed=True)[0].traceback
    coop, plot = results.rows()
    assert (coop.cell.method, coop.black_box, coop.parameter_count) == ("CoOp", False, 2 * 32)
    assert (plot.cell.method, plot.black_box, plot.parameter_count) == ("PLOT", False, 4 * 2 * 32)
    assert coop.draw == plot.draw


def test_every_data_set_from_images_to_a_report(tmp_path):
    """Miniatures of the eleven sets and the four shifts: images, features, methods, report, by the plan alone."""
    pytest.importorskip("onnxruntime")
    from lpplusplus.bench.report import report

    trees = Trees(tmp_path / "root")
    sets = [*PAPER, *SHIFTS]
    for name in sets:
        trees.make(name)
    plan = parse_plan({"datasets": sets, "encoders": ["drawings"], "methods": ["Zero-shot", "LP++ (default)"],
                       "shots": [1, 2], "draws": 2}, "plan.toml")  # fmt: skip
    results = Results(tmp_path / "results")
    summary = run_plan(plan, results, DatasetLoader(tmp_path / "root", tmp_path / "features"), n_jobs=1)
    failures = results.rows(failed=True)
    assert not failures, failures[0].traceback
    assert summary.run == len(sets) * 2 * 2 * 2
    rows = results.rows()
    by_set = {name: [row for row in rows if row.cell.dataset == name] for name in sets}
    assert {row.draw for row in by_set["imagenet_a"]} == {row.draw for row in by_set["imagenet"]}  # The same supports.
    assert {row.test_images for row in by_set["imagenet_a"]} != {row.test_images for row in by_set["imagenet"]}
    written = json.loads(report(results, "json", planned=plan.all_cells()))
    found = {(c["dataset"], c["method"], c["shots"]): c for c in written["cells"] if c["dataset"] in sets}
    assert len(sets) == 15
    assert found.keys() == {(name, method.name, shots) for name in sets for method in plan.methods for shots in (1, 2)}
    for key, one in found.items():
        assert (one["draws"], one["missing"]) == (2, None), key
        assert np.isfinite(one["mean"]), key
        assert 0 <= one["mean"] <= 100, key


def test_a_shift_is_answered_with_its_own_classes_only(tmp_path):
    """ImageNet-A has two of the four classes here: an image is never taken for one of the other two."""
    pytest.importorskip("onnxruntime")
    trees = Trees(tmp_path / "root")
    for name in ("imagenet", "imagenet_a"):
        trees.make(name)
    plan = parse_plan({"datasets": ["imagenet_a"], "encoders": ["drawings"], "methods": ["Zero-shot"], "shots": [1],
                       "draws": 1}, "plan.toml")  # fmt: skip
    data, draws = DatasetLoader(tmp_path / "root", tmp_path / "features").load(plan, "imagenet_a", "drawings")
    (cell,) = plan.cells("imagenet_a", "drawings")
    support, test = (data.task(draws[1, 1])[purpose] for purpose in ("support", "test"))
    assert test.classes == tuple(support.classes[k] for k in data.columns) == ("n01440764", "n04356056")
    scores = test.rows @ support.text.T
    expected = (scores[:, data.columns].argmax(axis=1) == test.labels).mean()
    assert cells.run_cell(cell, data, draws[1, 1]).accuracy == pytest.approx(expected)


def test_draws_go_out_and_come_back(root, finished, tmp_path):
    from lpplusplus.bench.draws import Draw, write_draws

    results, _ = finished
    done = subprocess.run([sys.executable, "-m", "lpplusplus", "bench", "draws", str(results.folder), "-o",
                           str(tmp_path / "draws.json")], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    file = tmp_path / "plan.toml"
    file.write_text(PLAN.replace('encoders = ["one", "two"]', 'draws_file = "draws.json"\nencoders = ["one"]'))
    again = Results(tmp_path / "again")
    run_plan(read_plan(file), again, DatasetLoader(root, tmp_path / "features"), n_jobs=1)
    old = {
        (r.cell.method, r.cell.shots, r.cell.seed): (r.draw, r.accuracy)
        for r in results.rows()
        if r.cell.encoder == "one"
    }
    new = {(r.cell.method, r.cell.shots, r.cell.seed): (r.draw, r.accuracy) for r in again.rows()}
    assert new == old
    (one, *_) = (Draw.from_dict(saved) for saved in results.draws().values())
    write_draws(tmp_path / "draws.json", [one])
    short = Results(tmp_path / "short")
    run_plan(read_plan(file), short, DatasetLoader(root, tmp_path / "features"), n_jobs=1)
    assert "the file of draws has none of" in short.rows(failed=True)[0].traceback


def test_what_is_there_and_how_to_get_the_rest(root):
    done = subprocess.run([sys.executable, "-m", "lpplusplus", "bench", "datasets", "--root", str(root), "--json"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert len(rows) >= 15
    assert (rows["dtd"]["state"], rows["dtd"]["usable"], rows["dtd"]["expected"]["test"]) == ("missing", False, 1692)
    assert "split file" in rows["dtd"]["advice"]
