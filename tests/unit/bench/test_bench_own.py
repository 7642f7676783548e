"""Estimators of your own: in plans by import path, and compared from Python."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from lpplusplus import LPPlusPlus, TipAdapter, ZeroShot
from lpplusplus.bench import compare, draw_tasks
from lpplusplus.bench.estimators import accepted, chances
from lpplusplus.bench.loader import DatasetLoader
from lpplusplus.bench.plan import PlanError, parse_plan, read_plan
from lpplusplus.bench.results import Results
from lpplusplus.bench.runner import run_plan
from tasks import small_task

X, Y, T = small_task(4, 12, 16, seed=5)

MINE = """
from sklearn.neighbors import KNeighborsClassifier
from lpplusplus import ZeroShot


class Mine(KNeighborsClassifier):
    pass


class Names(ZeroShot):
    pass


def nearest(k=1):
    return KNeighborsClassifier(k)


NUMBER = 3
"""

PLAN = """
datasets = ["made"]
encoders = ["one"]
shots = [2]
draws = 2
generator = "lpplusplus-1"

[[method]]
name = "mine"
estimator = "my_probe:Mine"
parameters = { n_neighbors = 1 }

[[method]]
name = "a function"
estimator = "my_probe:nearest"

[[method]]
name = "names"
estimator = "my_probe:Names"

[[method]]
name = "nearest mean"
estimator = "sklearn.neighbors:NearestCentroid"

[dataset.made]
folder = "."
reader = "feature-file"
files = { one = "made.npz" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A plan with a module of its own beside it; both are forgotten at the end."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_probe.py").write_text(MINE)
    (tmp_path / "plan.toml").write_text(PLAN)
    np.savez(tmp_path / "made.npz", images=X, labels=Y, text=T, classnames=np.array(["d", "c", "b", "a"]))
    yield tmp_path
    forget()


def forget():
    from lpplusplus.bench import estimators

    sys.modules.pop("my_probe", None)
    estimators._imported.cache_clear()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_plan_runs_them(folder, n_jobs):
    plan, results = read_plan(folder / "plan.toml"), Results(folder / "results")
    loader = DatasetLoader(folder, folder / "features")
    summary = run_plan(plan, results, loader, n_jobs=n_jobs)
    assert (summary.run, summary.failed) == (8, 0), results.rows(failed=True)[0].traceback
    _, draws = loader.load(plan, "made", "one")
    for row in results.rows():
        draw = draws[row.cell.shots, row.cell.seed]
        support, test = (X[rows].astype(np.float32) for rows in (draw.support, draw.test))
        models = {"mine": KNeighborsClassifier(1), "a function": KNeighborsClassifier(1),
                  "names": ZeroShot(), "nearest mean": NearestCentroid()}  # fmt: skip
        extra = {"text": T} if row.cell.method == "names" else {}
        expected = models[row.cell.method].fit(support, Y[draw.support], **extra).score(test, Y[draw.test])
        assert row.accuracy == pytest.approx(expected, abs=1e-9)
        assert row.validation_images == (8 if row.cell.method == "names" else 0)
        assert (row.parameter_count is None) == (row.cell.method != "names")


def test_other_parameters_or_another_source_are_other_cells(folder):
    def keys(plan=PLAN):
        forget()
        (folder / "plan.toml").write_text(plan)
        return {cell.method: cell.key for cell in read_plan(folder / "plan.toml").all_cells() if cell.seed == 1}

    first = keys()
    assert keys() == first
    other = keys(PLAN.replace("n_neighbors = 1", "n_neighbors = 2"))
    assert other.pop("mine") != first["mine"]
    assert other.items() <= first.items()
    (folder / "my_probe.py").write_text(MINE + "\n# changed\n")
    changed = keys()
    assert {name for name in first if changed[name] != first[name]} == {"mine", "a function", "names"}


def test_a_source_that_changes_under_way_is_not_run(folder):
    plan = read_plan(folder / "plan.toml")
    (folder / "my_probe.py").write_text(MINE + "\n# changed\n")
    results = Results(folder / "results")
    run_plan(plan, results, DatasetLoader(folder, folder / "features"), n_jobs=1)
    assert {row.cell.method for row in results.rows()} == {"nearest mean"}
    assert "my_probe:Mine has changed while the plan ran" in results.rows(failed=True)[0].traceback


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [
        ("my_prob:Mine", {}, "my_prob cannot be imported .* put its file beside the plan"),
        ("my_probe:Your", {}, "the module my_probe has no Your"),
        ("my_probe:NUMBER", {}, "neither a class nor a function"),
        ("my_probe:Mine", {"colour": 1}, "my_probe:Mine cannot be made: .*colour"),
        ("my_probe:Names", {"colour": 1}, "my_probe:Names cannot be made: .*colour"),
        ("builtins:dict", {}, "makes dict, which has no fit and predict"),
        ("my_probe:__import__('os')", {}, "is not of the form"),
        (":Mine", {}, "is not of the form"),
        ("../my_probe:Mine", {}, "is not of the form"),
    ],
)
def test_refused_when_the_plan_is_read(folder, estimator, parameters, message):
    entry = {"name": "x", "estimator": estimator, "parameters": parameters}
    content = {"datasets": ["made"], "encoders": ["one"], "method": [entry]}
    with pytest.raises(PlanError, match=f"method 'x': .*{message}"):
        parse_plan(content, str(folder / "plan.toml"))


def test_nothing_beside_the_plan_hides_a_package(folder):
    (folder / "numpy.py").write_text("raise SystemError")
    (folder / "sklearn.py").write_text("raise SystemError")
    read_plan(folder / "plan.toml")
    assert sys.path[-1] == str(folder)


class Echo(ClassifierMixin, BaseEstimator):
    """Answers with the label of the nearest example; has `predict` alone, and wants the text."""

    def fit(self, X, y, text=None, y_val=None):
        self.seen_ = (text, y_val)
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        return self.y_[np.argmax(X @ self.X_.T, axis=1)]


def test_probabilities_of_all_kinds_of_classifiers():
    classes, y = ["c", "a", "x", "b"], np.array(["a", "b", "c"])[Y % 3]
    for model in (KNeighborsClassifier(3), RidgeClassifier(), Echo()):
        found = chances(model.fit(X, y), X, classes)
        assert found.shape == (len(X), 4)
        assert not found[:, 2].any()  # Nothing was seen of x.
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_array_equal(np.array(classes)[found.argmax(axis=1)], model.predict(X))
    two = RidgeClassifier().fit(X, Y > 1)
    np.testing.assert_array_equal(chances(two, X, ["True", "False"]).argmax(axis=1) == 0, two.predict(X))
    assert accepted(Echo(), {"text": T, "classes": classes, "X_val": X, "y_val": None}) == {"text": T}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_compare(n_jobs):
    methods = {"LP++": LPPlusPlus(), "Tip": TipAdapter(), "1-NN": KNeighborsClassifier(1), "echo": Echo()}
    tasks = list(draw_tasks(X, Y, text=T, shots=[1, 3], draws=3))
    found = compare(methods, tasks, n_jobs=1 if n_jobs == 1 else 2)
    assert len(found.rows) == 4 * 6
    for data, draw in tasks:
        assert data is tasks[0][0]
        assert not set(draw.support) & set(draw.test)
        (A, a), (B, b) = ((X[rows], Y[rows]) for rows in (draw.support, draw.test))
        expected = 100 * KNeighborsClassifier(1).fit(A, a).score(B, b)
        assert found.accuracies("1-NN", draw.shots)["arrays", draw.seed] == pytest.approx(expected)
        expected = 100 * LPPlusPlus(random_state=draw.seed).fit(A, a, text=T).score(B, b)
        assert found.accuracies("LP++", draw.shots)["arrays", draw.seed] == pytest.approx(expected)
    assert found.accuracies("echo", 1) == found.accuracies("1-NN", 1)  # The nearest of unit rows.
    gaps = [100 * (a.accuracy - b.accuracy) for a, b in zip(found.rows[::4], found.rows[2::4], strict=True)][:3]
    expected = np.mean(gaps), np.std(gaps, ddof=1) / np.sqrt(3)
    assert found.difference("LP++", "1-NN", 1) == pytest.approx(expected)
    head, *lines = str(found).splitlines()
    assert head.split() == ["shots", "1", "3"]
    assert [line.split()[0] for line in lines] == list(methods)
    mean = np.mean([*found.accuracies("LP++", 3).values()])
    assert f"{mean:.1f} ±" in lines[0]


def test_compare_with_test_images_validation_and_views():
    views = np.stack([X, X + 0.01], axis=1)
    tasks = draw_tasks(views, Y, text=T, X_test=X[:8], y_test=Y[:8], shots=[2], draws=1, validation="paper")
    found = compare({"LP++": LPPlusPlus(), "1-NN": KNeighborsClassifier(1), "echo": Echo()}, tasks)
    assert [row.test_images for row in found.rows] == [8, 8, 8]
    assert [row.validation_images for row in found.rows] == [8, 0, 0]
    assert found.rows[1].cell.estimator.startswith("sklearn.neighbors._classification:KNeighborsClassifier@")
    pool = compare({"LP++": LPPlusPlus()}, draw_tasks(views, Y, text=T, shots=[2], draws=1, validation="paper"))
    (row,) = pool.rows
    assert (row.status, row.test_images, row.validation_images) == ("ok", 32, 8)
    with pytest.raises(ValueError, match="y_test has a label that y does not have"):
        next(draw_tasks(X, Y, X_test=X[:2], y_test=[0, 9]))


def test_a_method_that_fails_is_named(recwarn):
    tasks = draw_tasks(X, Y, shots=[1], draws=2)
    with pytest.warns(UserWarning, match="5-NN failed on 2 tasks: ValueError: Expected n_neighbors"):
        found = compare({"5-NN": KNeighborsClassifier(5), "1-NN": KNeighborsClassifier(1)}, tasks)
    assert [row.status for row in found.rows] == ["failed", "ok"] * 2
    assert "nan" in str(found)
