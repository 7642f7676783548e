"""Solvers as objects: ours, and one from outside the package, in fits, clones and files."""

import dataclasses
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV

import lpplusplus
from helpers import resign
from lpplusplus import LPPlusPlus, ModelFormatError, fit_many, solvers
from lpplusplus.probe.solvers import SOLVERS, Adam, BlockMM, Flow, GradientDescent, HeavyBall, Iterate
from tasks import small_task

NAMES = list(SOLVERS)


@dataclass(frozen=True)
class Halving:
    """A toy: gradient steps on W whose length is halved whenever the loss rises."""

    steps: int = 20
    length: float = 8.0

    def run(self, objective, point, observer):
        before, length = None, self.length
        for update in range(self.steps + 1):
            here = objective.evaluate(point, w=True)
            if observer(Iterate(update, float("nan"), here.loss, point)):
                return
            length = length / 2 if before is not None and here.loss > before else length
            before = here.loss
            if update < self.steps:
                objective.descend(point, w=(here.w, length), intercept=here.intercept)


@dataclass(frozen=True)
class HalvingBoth(Halving):
    """The same with α, where it may."""

    coordinates = "any"
    learn_alpha: bool = True

    def run(self, objective, point, observer):
        for update in range(self.steps + 1):
            here = objective.evaluate(point, w=True, alpha=self.learn_alpha)
            if observer(Iterate(update, float("nan"), here.loss, point)) or update == self.steps:
                return
            alpha = self.length * here.alpha if self.learn_alpha else None
            objective.descend(point, w=(here.w, self.length), alpha=alpha)


class Plain:
    """Not even a dataclass."""

    def __repr__(self):  # Without an address: tests have the same names in every process.
        return "Plain()"

    def run(self, objective, point, observer):
        Halving().run(objective, point, observer)


@pytest.fixture(scope="module")
def task():
    return small_task(6, 5, 32, seed=0)


@pytest.fixture(scope="module")
def validation():
    X, y, _ = small_task(6, 5, 32, seed=0, n_extra=30)
    return {"X_val": X[40:], "y_val": y[40:]}


@pytest.mark.parametrize("selection", ["auto", "last", "validation", "validation-loss"])
@pytest.mark.parametrize("name", NAMES)
def test_an_object_fits_as_its_name_does(task, validation, name, selection):
    F, y, T = task
    held = validation if selection.startswith("validation") else {}
    ours, named = (
        LPPlusPlus(solver=solver, selection=selection).fit(F, y, text=T, **held) for solver in (SOLVERS[name](), name)
    )
    assert (ours.coef_ == named.coef_).all()
    assert (ours.n_updates_, ours.selection_) == (named.n_updates_, named.selection_)
    assert ours.parameter_count_ == named.parameter_count_


def test_a_rate_of_its_own(task, validation):
    F, y, T = task
    probe = LPPlusPlus(solver=GradientDescent(30, learning_rate=2.0), selection="last").fit(F, y, text=T)
    assert probe.learning_rate_ == 2.0
    assert LPPlusPlus(solver=BlockMM(), selection="last").fit(F, y, text=T).learning_rate_ is None
    grid = LPPlusPlus(solver=Adam(10, learning_rate="auto")).fit(F, y, text=T, **validation)
    assert grid.learning_rate_ in (1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2)


# What a solver takes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": Flow(3), "updates": 0}, r"updates=0 sets the budget, but solver=Flow\(updates=3.* set it there"),
        ({"solver": Halving(), "updates": 1}, r"updates=1 sets the budget, but solver=.*Halving\(steps=20"),
        ({"solver": Halving(), "alpha": "fixed"}, r"alpha='fixed' .*Halving\(.* learn_alpha .*add the field"),
        ({"solver": BlockMM}, "solver=<class .* an object with a method 'run'"),
        ({"solver": object()}, "solver=<object .* is not allowed"),
    ],
)
def test_parameters_that_the_solver_does_not_take(task, parameters, message):
    F, y, T = task
    probe = LPPlusPlus(**parameters)
    with pytest.raises(ValueError, match=message):
        probe.fit(F, y, text=T)
    with pytest.raises(ValueError, match=message):
        fit_many(F, y, [np.arange(len(y))], text=T, estimator=probe)


def test_a_budget_for_an_object_without_one(task):
    F, y, T = task
    assert LPPlusPlus(solver=BlockMM(cycle=(3, 1)), updates=5, selection="last").fit(F, y, text=T).n_updates_ == 5


# Options of solvers, which were parameters of the estimator until 0.1 ------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"recipe": "paper", "cycle": (1, 1)}, BlockMM(cycle=(1, 1))),
        ({"recipe": "released", "tau_w": 2.0, "cycle": None}, HeavyBall(tau_w=2.0)),
        ({"tau_alpha": 4.0}, Flow(tau_alpha=4.0)),
        ({"solver": "adam", "learning_rate": 0.1}, Adam(learning_rate=0.1)),
        ({"solver": "gradient-descent", "learning_rate": "grid"}, GradientDescent(learning_rate="auto")),
        ({"solver": "gradient-descent", "learning_rate": "lipschitz"}, GradientDescent()),
        ({"solver": "block-mm", "certified": True}, BlockMM(certified=True)),
        ({"solver": BlockMM(7), "cycle": (1, 1)}, BlockMM(7, cycle=(1, 1))),
        ({"solver": "lbfgs", "certified": False, "learning_rate": "lipschitz"}, "lbfgs"),
        ({"certified": None}, None),
    ],
    ids=str,
)
def test_options_of_earlier_versions(before, now):
    """In calls, in `set_params` and through a clone: the same, with a warning that says what to write."""
    with pytest.warns(FutureWarning, match=r"LPPlusPlus\(.*ends with 1\.1") as said:
        probe = LPPlusPlus(**before)
    assert said[0].filename == __file__
    assert probe.solver == now
    assert sklearn.clone(probe).solver == now
    with pytest.warns(FutureWarning):
        assert LPPlusPlus().set_params(**before).solver == now
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LPPlusPlus(solver=now)
        LPPlusPlus().set_params(solver=now)


def test_the_warning_says_what_to_write():
    with pytest.warns(FutureWarning, match=r"write LPPlusPlus\(solver=BlockMM\(cycle=\(1, 1\)\)\)\.$"):
        LPPlusPlus(recipe="paper", cycle=[1, 1])
    with pytest.warns(FutureWarning, match="leave it out"):
        LPPlusPlus(certified=False)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"solver": "adam", "cycle": (1, 1)},
            r"cycle=\(1, 1\) is an option of Flow, BlockMM, HeavyBall; Adam does not",
        ),
        ({"solver": "lbfgs", "tau_w": 2.0}, "tau_w=2.0 is an option of .*, Adam; LBFGS does not take it"),
        ({"certified": True}, "certified=True is an option of BlockMM, GradientDescent; Flow does not"),
        ({"recipe": "paper", "learning_rate": "grid"}, "learning_rate='grid' is an option of .*; BlockMM does not"),
        ({"solver": Halving(), "tau_w": 1.0}, "tau_w=1.0 is an option of .*; Halving does not"),
        ({"tau_w": 0}, "tau_w=0 is not allowed; it must be a number > 0"),
        ({"cycle": 10}, "cycle=10 is not allowed; it must be two whole numbers of at least 1 and 0"),
        ({"certified": True, "solver": "block-mm", "tau_w": 2}, "certified=True fixes tau_w"),
    ],
)
def test_options_that_the_solver_does_not_take(parameters, message):
    with pytest.raises(ValueError, match=message):
        LPPlusPlus(**parameters)


def test_unknown_parameters_are_named():
    with pytest.raises(TypeError, match="tau_v"):
        LPPlusPlus(tau_v=1.0)
    with pytest.raises(ValueError, match="tau_v"):
        LPPlusPlus().set_params(tau_v=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockMM(cycle=(0, 1)), r"BlockMM: cycle=\(0, 1\) is not allowed; .*at least 1 and 0"),
        (lambda: Flow(-1), "Flow: updates=-1 is not allowed"),
        (lambda: Adam(learning_rate=0), "Adam: learning_rate=0"),
        (lambda: HeavyBall(momentum=2), "HeavyBall: momentum=2"),
        (lambda: GradientDescent(certified=True, learning_rate=1.0), "certified=True .*learning_rate=1.0"),
        (lambda: BlockMM(certified=True, tau_w=3.0), "certified=True fixes tau_w"),
    ],
)
def test_parameters_of_our_solvers_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# A solver from outside ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [Halving(), HalvingBoth(), HalvingBoth(learn_alpha=False), Plain()], ids=str)
@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_a_solver_from_outside_fits(task, validation, solver, recipe):
    F, y, T = task
    for selection in ("auto", "last", "cross-validation", "validation", "validation-loss"):
        held = validation if selection.startswith("validation") else {}
        probe = LPPlusPlus(recipe=recipe, solver=solver, selection=selection).fit(F, y, text=T, **held)
        assert probe.score(F, y) > 0.9
        assert probe.n_updates_ <= 20
    assert len(probe.history_.held_out_loss) == 21
    moved = np.ptp(LPPlusPlus(solver=solver, selection="last").fit(F, y, text=T).alpha_) > 0
    assert moved == (type(solver) is HalvingBoth and solver.learn_alpha)


def test_a_solver_from_outside_leaves_alpha_alone_if_it_can(task):
    F, y, T = task
    probe = LPPlusPlus(solver=HalvingBoth(), alpha="fixed", selection="last").fit(F, y, text=T)
    assert np.ptp(probe.alpha_) == 0
    assert probe.parameter_count_ == 6 * 32


def test_its_steps_are_those_of_gradient_descent(task):
    F, y, T = task
    ours = LPPlusPlus(solver=HalvingBoth(30, length=1.0), selection="last").fit(F, y, text=T)
    theirs = LPPlusPlus(solver=GradientDescent(30, learning_rate=1.0), selection="last").fit(F, y, text=T)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-10)


# scikit-learn -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [BlockMM(40, cycle=(3, 1)), Halving(length=2.0), Plain()], ids=str)
def test_clones_and_parameters(task, solver):
    F, y, T = task
    probe = LPPlusPlus(solver=solver, selection="last")
    again = sklearn.clone(probe)
    assert probe.get_params()["solver"] is solver
    assert type(again.solver) is type(solver)
    assert isinstance(solver, Plain) or again.solver == solver
    first, second = (one.fit(F, y, text=T).coef_ for one in (probe, again))
    assert (first == second).all()
    assert (pickle.loads(pickle.dumps(probe)).coef_ == first).all()
    assert probe.set_params(solver="flow").solver == "flow"


def test_a_search_over_solvers(task):
    F, y, _ = task
    choices = [BlockMM(5), BlockMM(50), Halving(), "flow"]
    search = GridSearchCV(LPPlusPlus(selection="last"), {"solver": choices}, cv=2).fit(F, y)
    assert search.best_params_["solver"] in choices


# Files --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_our_objects_come_back_from_a_file(task, tmp_path, name):
    F, y, T = task
    solver = dataclasses.replace(SOLVERS[name](), updates=np.int64(30), learn_alpha=False)
    probe = LPPlusPlus(solver=solver, selection="last").fit(F, y, text=T)
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert again.solver == solver
    assert (again.decision_function(F) == probe.decision_function(F)).all()
    assert (sklearn.clone(again).fit(F, y, text=T).coef_ == probe.coef_).all()
    again.save(tmp_path / "b.lpp")
    assert (tmp_path / "a.lpp").read_bytes() == (tmp_path / "b.lpp").read_bytes()


@pytest.mark.parametrize("solver", [Halving(), Plain()], ids=str)
def test_of_a_solver_from_outside_a_file_has_the_name(task, tmp_path, solver):
    F, y, T = task
    probe = LPPlusPlus(solver=solver).fit(F, y, text=T)
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert (again.predict_proba(F) == probe.predict_proba(F)).all()
    assert again.history_.loss == probe.history_.loss
    assert again.parameter_count_ == probe.parameter_count_
    again.save(tmp_path / "b.lpp")
    assert (tmp_path / "a.lpp").read_bytes() == (tmp_path / "b.lpp").read_bytes()
    kind = type(solver)
    message = rf"trained by {kind.__module__}\.{kind.__qualname__}, a solver from outside lpplusplus.*it predicts, but"
    with pytest.raises(ValueError, match=message):
        again.fit(F, y, text=T)
    assert (again.predict_proba(F) == probe.predict_proba(F)).all()  # As it was before.
    assert (again.set_params(solver=solver).fit(F, y, text=T).coef_ == probe.coef_).all()


@pytest.mark.parametrize(
    "solver",
    [
        {"solver": "evil"},
        {"solver": "block-mm", "cycle": [0, 1]},
        {"solver": "flow", "unknown": 1},
        {"solver": "flow", "updates": -3},
        {},
        ["flow"],
    ],
    ids=str,
)
def test_a_file_with_a_solver_that_is_none(task, tmp_path, solver):
    F, y, T = task
    LPPlusPlus(updates=0).fit(F, y, text=T).save(tmp_path / "a.lpp")
    resign(tmp_path / "a.lpp", lambda model: model["parameters"].update(solver=solver))
    with pytest.raises(ModelFormatError, match=r"a.lpp"):
        lpplusplus.load(tmp_path / "a.lpp")


def test_a_file_from_when_unused_parameters_were_let_pass(task, tmp_path):
    F, y, T = task
    probe = LPPlusPlus(solver=Adam(learning_rate=0.01), updates=5).fit(F, y, text=T)
    probe.save(tmp_path / "a.lpp")
    written = {"solver": "adam", "learning_rate": 0.01, "cycle": [1, 1], "tau_w": None}
    resign(tmp_path / "a.lpp", lambda model: model["parameters"].update(written))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = lpplusplus.load(tmp_path / "a.lpp")
    assert again.solver == Adam(learning_rate=0.01)
    assert (again.predict(F) == probe.predict(F)).all()
    assert again.parameter_count_ == probe.parameter_count_


def test_every_solver_is_exported():
    assert {kind.__name__ for kind in SOLVERS.values()} <= set(solvers.__all__)
