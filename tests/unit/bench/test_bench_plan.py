"""Plans: what may stand in them, and what they come to."""

from pathlib import Path

import pytest

from lpplusplus.bench.cell import Cell
from lpplusplus.bench.plan import PlanError, parse_plan, read_plan, shipped_plans
from lpplusplus.bench.run_cell import build

DOCS = Path(__file__).parents[3] / "docs"
SMALL = {"datasets": ["a"], "encoders": ["b"], "methods": ["Zero-shot"]}


def test_cells_are_the_whole_grid():
    plan = parse_plan({**SMALL, "datasets": ["a", "c"], "shots": [1, 4], "draws": 3,
                       "methods": ["Zero-shot", "LP++ (paper)"]}, "plan.toml")  # fmt: skip
    cells = [cell for dataset in plan.datasets for cell in plan.cells(dataset, "b")]
    assert len(cells) == len(plan) == 2 * 2 * 3 * 2
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.seed for cell in cells} == {1, 2, 3}


@pytest.mark.parametrize("plan", [*shipped_plans(), *sorted((DOCS / "plans").glob("*.toml"))], ids=str)
def test_plans_of_the_package_and_of_the_docs_can_be_built(plan):
    plan = read_plan(plan)
    for cell in plan.cells(plan.datasets[0], plan.encoders[0]):
        if cell.seed == 1 and cell.estimator not in ("CoOp", "PLOT", "KgCoOp", "ProGrad"):
            build(cell)._check_parameters()


def test_a_class_of_the_package_is_a_method_by_its_name():
    plan = parse_plan({**SMALL, "methods": ["TipAdapterF", "prompt-learners"]}, "plan.toml")
    assert [m.name for m in plan.methods] == [m.estimator for m in plan.methods]
    assert [m.name for m in plan.methods] == ["TipAdapterF", "CoOp", "PLOT", "KgCoOp", "ProGrad"]


def test_the_plan_of_the_docs(tmp_path):
    page = (DOCS / "how-to" / "benchmark.md").read_text(encoding="utf-8")
    (tmp_path / "plan.toml").write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    assert len(read_plan(tmp_path / "plan.toml")) == 2 * 3 * 3 * 10
    with pytest.raises(PlanError, match=r"there is no file 'other\.toml'"):
        read_plan("other.toml")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "x"}, "two brackets"),
        ([{"estimator": "LPPlusPlus"}], "key 'name' is missing"),
        ([{"name": "x", "estimator": "LPPlusPlus", "validation": "false"}], "true or false, got 'false'"),
        ([{"name": "x", "estimator": "LPPlusPlus", "parameters": [1]}], "parameters must be a table"),
        ([{"name": "x", "estimator": "LPPlusPlus", "parameters": {"tau_w": float("nan")}}], "tau_w is nan"),
        ([{"name": "x", "estimator": "LPPlusPlus"}] * 2, "two .* with the name 'x'"),
    ],
)
def test_mistakes_in_methods(method, message):
    with pytest.raises(PlanError, match=message):
        parse_plan({**SMALL, "method": method}, "plan.toml")


def test_a_folder_named_like_a_plan_is_no_plan(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_plan("demo").name == "demo"
    (tmp_path / "latin.toml").write_bytes("name = 'é'".encode("latin-1"))
    with pytest.raises(PlanError, match=r"latin\.toml is not text in UTF-8"):
        read_plan("latin.toml")


def test_numbers_of_shots_count_once():
    assert len(parse_plan({**SMALL, "shots": [1, 1, 2], "draws": 1}, "plan.toml")) == 2


def test_the_papers_plan():
    plan = read_plan("paper")
    assert (len(plan.datasets), len(plan.methods), plan.shots, plan.draws) == (11, 13, (1, 2, 4, 8, 16), 10)


def test_groups_and_own_methods():
    own = {"name": "mine", "estimator": "LPPlusPlus", "parameters": {"solver": "lbfgs"}, "validation": False}
    plan = parse_plan({**SMALL, "methods": ["feature-level", "mine"], "method": [own]}, "plan.toml")
    assert [method.name for method in plan.methods][-1] == "mine"
    assert not plan.methods[-1].validation
    (cell,) = [c for c in plan.cells("a", "b") if c.method == "mine" and c.seed == 1 and c.shots == 1]
    assert build(cell).solver == "lbfgs"
    assert build(cell).random_state == 1


def test_a_method_or_a_group_without_validation():
    content = {"datasets": ["demo"], "encoders": ["embedded"], "methods": ["GDA", "GDA, no validation"]}
    plan = parse_plan(content, "plan.toml")
    assert [(one.name, one.estimator, one.validation) for one in plan.methods] == [
        ("GDA", "GDA", True),
        ("GDA, no validation", "GDA", False),
    ]
    league = parse_plan(content | {"methods": ["league", "league, no validation"]}, "plan.toml").methods
    half = len(league) // 2
    for one, other in zip(league[:half], league[half:], strict=True):
        assert (other.name, other.validation) == (f"{one.name}, no validation", False)
        assert (other.estimator, other.parameters) == (one.estimator, one.parameters)
    with pytest.raises(PlanError, match="no method 'Nobody'"):
        parse_plan(content | {"methods": ["Nobody, no validation"]}, "plan.toml")


def test_without_validation_nobody_gets_it():
    plan = parse_plan({**SMALL, "validation": "none"}, "plan.toml")
    assert not any(cell.validation for cell in plan.cells("a", "b"))


def test_the_key_for_duplicates_changes_cells_only_where_it_allows_them():
    """Results from before there was such a key keep their places."""
    (plain, refuse, allow) = (
        next(parse_plan({**SMALL, **more}, "plan.toml").cells("a", "b"))
        for more in ({}, {"duplicates": "refuse"}, {"duplicates": "allow"})
    )
    assert plain.key == refuse.key == "fca3bc7a135d33f0a1b1ce5141115fe5cee5f9a233e5002f58cc9ad45a308236"
    assert "duplicates" not in plain.protocol
    assert allow.protocol == {**plain.protocol, "duplicates": "allow"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "unknown key 'colour'"),
        ({"shots": []}, "shots is empty"),
        ({"shots": [0]}, "shots must be"),
        ({"shots": [True]}, "shots must be"),
        ({"draws": 0}, "draws must be a whole number from 1"),
        ({"methods": ["LP+++"]}, "no method 'LP\\+\\+\\+'"),
        ({"methods": []}, "methods is empty"),
        ({"datasets": [1]}, "datasets must be a list of text"),
        ({"encoders": []}, "encoders is empty"),
        ({"validation": "test"}, "validation must be one of paper, coop, none, got 'test'"),
        ({"shortage": "guess"}, "shortage must be .* got 'guess'"),
        ({"duplicates": "ignore"}, "duplicates must be one of refuse, allow or a list of text, got 'ignore'"),
        ({"method": [{"name": "x"}]}, "expected name, estimator"),
        ({"method": [{"name": "x", "estimator": "y", "colour": 1}]}, "expected name, estimator"),
    ],
)
def test_errors_name_the_key(change, message):
    with pytest.raises(PlanError, match=message):
        parse_plan({**SMALL, **change}, "plan.toml")


def test_files(tmp_path):
    with pytest.raises(PlanError, match=r"there is no plan 'nowhere': name a .toml file, or one of .*paper"):
        read_plan("nowhere")
    file = tmp_path / "plan.toml"
    file.write_text("shots = [1")
    with pytest.raises(PlanError, match="is not TOML"):
        read_plan(file)
    file.write_text('datasets = ["a"]\nencoders = ["b"]\nmethods = ["Zero-shot"]')
    assert read_plan(file, draws=2).draws == 2
    assert read_plan(file).name == "plan"


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [("LogisticRegression", {}, "no estimator"), ("LPPlusPlus", {"colour": 1}, "Invalid parameter 'colour'"),
     ("load", {}, "no estimator"), ("__version__", {}, "no estimator")],
)  # fmt: skip
def test_a_wrong_estimator_is_refused_when_the_plan_is_read(estimator, parameters, message):
    entry = {"name": "x", "estimator": estimator, "parameters": parameters}
    with pytest.raises(PlanError, match=message):
        parse_plan({**SMALL, "methods": ["x"], "method": [entry]}, "plan.toml")
    with pytest.raises(ValueError, match=message):
        build(Cell("a", "b", "x", 1, 1, estimator, parameters))


def test_cells_have_the_keys_that_results_made_before_have():
    """Results files name cells by these digests: another digest, and a finished cell would run again."""
    one = {"encoders": ["one"], "methods": ["Zero-shot"], "shots": [1], "draws": 1}
    made = {"folder": "made", "reader": "feature-file", "files": {"one": "one.npz"}, "prompt": "a {}"}
    birds = {"folder": "birds", "reader": "folder-per-class", "templates": ["a photo of a {}.", "a {}."],
             "rename": {"a": "b"}, "title": "Birds", "counts": {"train": 3}, "url": "x"}  # fmt: skip
    learned = {"encoders": ["embedded"], "methods": ["LP++ (paper)"]}
    plans = {
        "3b3f92cbaa8f7ed6": one | {"datasets": ["made"], "dataset": {"made": made}},
        "3b3c5bfd653d3a78": one | learned | {"dataset": {"birds": birds}, "duplicates": "allow"},
        "9662c0429a07fff6": one | learned | {"datasets": ["dtd"]},
    }
    for key, content in plans.items():
        (cell,) = parse_plan(content, "plan.toml").all_cells()
        assert cell.key.startswith(key)


def test_plans_written_before_are_read():
    """Then the keys were `backbones` and `tasks`, and `draws` was the file of draws."""
    old = {"datasets": ["a"], "backbones": ["b"], "methods": ["Zero-shot"], "tasks": 3}
    assert parse_plan(old, "plan.toml") == parse_plan({**SMALL, "draws": 3}, "plan.toml")
    with pytest.raises(PlanError, match=r"draws_file='lost\.json': there is no file"):
        parse_plan({**old, "draws": "lost.json"}, "plan.toml")
