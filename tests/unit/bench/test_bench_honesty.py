"""The benchmark's honesty: what its tables say of methods, encoders, gaps and published figures is true."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmark_rows import comparison, failure, row
from lpplusplus import ZeroShot
from lpplusplus.bench import compare, draw_tasks
from lpplusplus.bench.cell import Row
from lpplusplus.bench.datasets import OverlapError
from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import parse_plan
from lpplusplus.bench.report import report
from lpplusplus.bench.report.content import report_content
from lpplusplus.bench.report.drawing import in_lines, method_styles
from lpplusplus.bench.report.statistics import distinct, summarise
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan
from tasks import small_task
from toy_encoder import ToyEncoder
from toy_images import make_folder


class Tuned(KNeighborsClassifier):
    """Another package's classifier, which looks at validation data and does not say so."""

    def fit(self, X, y, X_val=None, y_val=None):
        self.set_params(n_neighbors=max((1, 2), key=lambda k: KNeighborsClassifier(k).fit(X, y).score(X_val, y_val)))
        return super().fit(X, y)


@pytest.fixture
def root(tmp_path):
    X, y, T = small_task(4, 12, 16, seed=0)
    np.savez(tmp_path / "made.npz", images=X, labels=y, text=T, classnames=np.array(["a", "b", "c", "d"]))
    return tmp_path


def plan_of(**keys):
    made = {"folder": ".", "reader": "feature-file", "files": {"one": "made.npz"}}
    return parse_plan({"datasets": ["made"], "encoders": ["one"], "shots": [2], "draws": 1, "dataset": {"made": made},
                       **keys}, "plan.toml")  # fmt: skip


def test_the_table_of_methods_says_what_each_chose(root):
    """GDA, Tip-Adapter searched and the cross-modal probe tune on validation data; a foreign method may."""
    foreign = {"name": "foreign", "estimator": f"{__name__}:Tuned"}
    plan = plan_of(methods=["Zero-shot", "GDA", "GDA, no validation", "Tip-Adapter, searched", "Cross-modal probe",
                            "foreign"], method=[foreign])  # fmt: skip
    results = Results(root / "results")
    run_plan(plan, results, DatasetLoader(root, root / "features"), n_jobs=1)
    assert not results.rows(failed=True), results.rows(failed=True)[0].traceback
    (table,) = (one for one in json.loads(report(results, "json"))["protocol_tables"] if one["key"] == "methods")
    said = {row[0]: row[-1] for row in table["rows"]}
    assert said == {
        "Zero-shot": "nothing chosen",
        "GDA": "image weight by validation",
        "GDA, no validation": "image weight by the support's deviations",
        "Tip-Adapter, searched": "cache weight, beta by validation",
        "Cross-modal probe": "iteration, batch size, learning rate by validation",
        "foreign": "not recorded",
    }


def run(plan, folder, root):
    results = Results(folder)
    return results, run_plan(plan, results, DatasetLoader(root, root / "features"), n_jobs=1)


def test_a_changed_file_of_embeddings_runs_again(root):
    """New weights under an old name must not count as done."""
    results, first = run(plan_of(methods=["Zero-shot"]), root / "r", root)
    assert (first.run, run(plan_of(methods=["Zero-shot"]), root / "r", root)[1].run) == (1, 0)
    (before,) = results.rows()
    X, y, T = small_task(4, 12, 16, seed=1)
    np.savez(root / "made.npz", images=X, labels=y, text=T, classnames=np.array(["a", "b", "c", "d"]))
    assert run(plan_of(methods=["Zero-shot"]), root / "r", root)[1].run == 1
    (after,) = results.rows()
    assert len({before.cell.fingerprint, after.cell.fingerprint, ""}) == 3
    assert before.cell.key == after.cell.key


def test_rows_name_the_weights_of_their_encoder(tmp_path):
    make_folder(tmp_path / "birds", {"robin": 6, "great_tit": 6})
    birds = {"folder": "birds", "reader": "folder-per-class", "templates": ["{}"]}
    plan = parse_plan({"datasets": ["birds"], "encoders": ["toy"], "methods": ["Zero-shot"], "shots": [1], "draws": 1,
                       "dataset": {"birds": birds}}, "plan.toml")  # fmt: skip
    toy, results = ToyEncoder(), Results(tmp_path / "r")
    run_plan(plan, results, DatasetLoader(tmp_path, tmp_path / "f", encoders={"toy": toy}), n_jobs=1)
    assert [one.cell.fingerprint for one in results.rows()] == [toy.fingerprint]


def test_failures_of_a_plan_that_was_mended_count_no_more(root):
    wrong = {"name": "probe", "estimator": "LPPlusPlus", "parameters": {"updates": -1}}
    results, summary = run(plan_of(methods=["probe"], method=[wrong]), root / "r", root)
    assert summary.failed == 1
    assert len(report_content(results).failures) == 1
    run(plan_of(methods=["probe"], method=[wrong | {"parameters": {"updates": 1}}]), root / "r", root)
    content = report_content(results)
    assert content.failures == []
    assert "none missing" in content.summary[0]


def test_a_method_that_stopped_is_named_as_missing(root):
    """Alone in its folder, and ended after one draw of three: the plan is kept with the results."""
    results, _ = run(plan_of(methods=["Zero-shot"], draws=1), root / "r", root)
    wanted = plan_of(methods=["Zero-shot"], draws=3)
    results.keep_plan(wanted.name, wanted.all_cells())
    for content in (report_content(results), report_content(results, wanted.all_cells())):
        assert "2 missing" in content.summary[0]
        assert "Zero-shot (1 of 3 at 2 shots of made)" in content.summary[1]
    assert "only 1 of 3 draws" in " ".join(content.tables[0].notes)


def test_many_failures_of_one_cause_are_told_once(tmp_path):
    results = Results(tmp_path)
    rows = [failure("a", "Mine", 4, seed) for seed in range(200)]
    results.add(*(replace(one, traceback="x" * 9000 + one.traceback) for one in rows))
    results.add(Row(replace(rows[0].cell, method="other"), "failed", traceback="Oops: y"))
    for form in ("markdown", "html", "latex", "json"):
        text = report(results, form)
        assert len(text) < 40_000
        assert "200" in text
        assert text.count("Mine on a") == 5
    failures = report_content(results).failures
    assert [one.count for one in failures] == [200, 1]


def test_a_complete_data_set_is_summarised_after_a_run_that_partly_failed(root, capsys):
    from lpplusplus.cli.bench import run_and_tell

    plan = plan_of(datasets=["made", "dtd"], methods=["Zero-shot", "GDA"])
    assert run_and_tell(plan, root / "r", root, 1, False) == 1
    said = capsys.readouterr().out
    assert "on made; dtd is not complete" in " ".join(said.split())
    assert said.count(" %") == 2
    assert "–" not in said


def test_allowing_copies_in_one_data_set_changes_its_keys_only():
    keys = {"datasets": ["dtd", "eurosat"], "encoders": ["one"], "methods": ["Zero-shot"], "shots": [1], "draws": 1}
    (dtd, eurosat), (allowed, other) = (parse_plan({**keys, **more}, "plan.toml").all_cells()
                                        for more in ({}, {"duplicates": ["dtd"]}))  # fmt: skip
    assert eurosat.key == other.key
    assert dtd.key != allowed.key
    assert allowed.protocol["duplicates"] == "allow"
    # In tables, too, it is the same method in both data sets; in the same data set there would be two.
    assert {*distinct([allowed, other]).values()} == {"Zero-shot"}
    assert {*distinct([allowed, dtd]).values()} == {"Zero-shot", "Zero-shot (data 2)"}


def test_equal_photos_are_found_before_anything_is_embedded_and_all_at_once(tmp_path):
    folder = make_folder(tmp_path / "birds", {"robin": 6, "great_tit": 6})
    for number in range(2):
        (folder / "robin" / f"copy{number}.png").write_bytes((folder / "robin" / f"00{number}.png").read_bytes())
    birds = {"folder": "birds", "reader": "folder-per-class", "templates": ["{}"]}
    plan = parse_plan({"datasets": ["birds"], "encoders": ["toy"], "methods": ["Zero-shot"], "shots": [3], "draws": 1,
                       "dataset": {"birds": birds}}, "plan.toml")  # fmt: skip

    class Watched(ToyEncoder):
        def encode_prepared(self, batch):
            raise AssertionError("it embeds")

    loader = DatasetLoader(tmp_path, tmp_path / "f", encoders={"toy": Watched()})
    with pytest.raises(OverlapError, match=r"000\.png and .*copy0\.png; .*001\.png and .*copy1\.png, and support"):
        loader.load(plan, "birds", "toy")


def test_compare_refuses_copies_and_an_exhausted_generator():
    X, y, T = small_task(4, 12, 16, seed=0)
    tasks = draw_tasks(X, y, text=T, shots=[1], draws=1)
    assert len(compare({"zero": ZeroShot()}, tasks).rows) == 1
    with pytest.raises(ValueError, match="there are no tasks: a generator gives them once"):
        compare({"zero": ZeroShot()}, tasks)
    X[5] = X[3]
    with pytest.raises(OverlapError, match=r'row 3 and row 5.*Or give duplicates="allow"'):
        compare({"zero": ZeroShot()}, draw_tasks(X, y, text=T, shots=[1], draws=1))
    assert (
        len(compare({"zero": ZeroShot()}, draw_tasks(X, y, text=T, shots=[1], draws=1, duplicates="allow")).rows) == 1
    )


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": "RN50"},  # A file of embeddings may be called so.
        {"protocol": {"validation": "paper", "generator": "lpplusplus-1", "data": "0123"}},  # A data set of one's own.
        {"protocol": {"validation": "coop", "generator": "lpplusplus-1"}},
        {"estimator": "mine:Probe@0123"},
    ],
)
def test_published_figures_stand_beside_cells_of_the_papers_kind_only(tmp_path, change):
    """They were matched by name alone."""
    rows = [row("dtd", "LP++ (paper)", 4, seed, np.random.default_rng(seed)) for seed in (1, 2)]
    assert "published" in report(_results(tmp_path / "paper", rows))
    others = [replace(one, cell=replace(one.cell, **change)) for one in rows]
    assert "published" not in report(_results(tmp_path / "other", others))


def _results(folder, rows):
    results = Results(folder)
    results.add(*rows)
    return results


def test_what_the_intervals_leave_out_is_said(tmp_path):
    text = report(_results(tmp_path, comparison(("DTD",), ["Zero-shot"], (1,), tasks=2)))
    assert "cover the draws only" in text
    assert "finite number" in text


def test_no_two_methods_share_marker_and_colour_and_no_name_is_cut():
    styles = method_styles([f"method {i}" for i in range(50)])
    assert len({(style["color"], style["marker"]) for style in styles.values()}) == 50
    name = "a method with a very long name, and then some more of it"
    assert in_lines(name).replace("\n", " ") == name


def test_results_written_by_0_1_are_read():
    """Rows without a fingerprint, and a folder without plans."""
    from pathlib import Path
    from shutil import copy

    old = Path(__file__).parents[2] / "data" / "written_by_0.1" / "results.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            copy(old, folder)
            results = Results(folder)
            rows = results.rows()
            assert [(one.cell.encoder, one.cell.fingerprint) for one in rows] == [("drawings", "")] * 2
            assert results.done(one.cell for one in rows) == {one.cell.key for one in rows}
            assert results.planned() == []
            assert summarise(rows)["mean"].notna().all()


def test_the_commands_ask_for_a_plan_and_prune_what_it_does_not_ask_for(root, capsys):
    import typer

    from lpplusplus.cli.bench import report as report_command
    from lpplusplus.cli.bench import run as run_command

    plan = root / "plan.toml"
    text = """
datasets = ["made"]
encoders = ["one"]
methods = ["Zero-shot", "GDA"]
shots = [1]
draws = 2

[dataset.made]
folder = "."
reader = "feature-file"
files = { one = "made.npz" }
"""
    for content, prune, count in ((text, False, 4), (text.replace(', "GDA"', ""), True, 2)):
        plan.write_text(content)
        with pytest.raises(typer.Exit):
            run_command(str(plan), root / "r", root, jobs=1, prune=prune)
        assert len(Results(root / "r").rows()) == count
    plan.write_text(text.replace("draws = 2", "draws = 3"))
    capsys.readouterr()
    report_command(root / "r", plan=str(plan))
    assert "4 missing" in capsys.readouterr().out
