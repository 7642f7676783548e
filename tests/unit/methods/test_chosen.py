"""What a method says that it chose is what it did: the benchmark's table of fairness rests on it."""

import numpy as np
import pytest

import lpplusplus
from lpplusplus import LPPlusPlus
from lpplusplus._core.model_file import method
from tasks import small_task

X, Y, T = small_task(4, 9, 16, seed=3)
TRAINED_THROUGH_THE_ENCODER = ("CoOp", "PLOT", "KgCoOp", "ProGrad")
SEARCHED = {"TipAdapter": {"cache_weight": "auto", "beta": "auto"}, "TIMO": {"gamma": "auto", "beta": "auto"}}
SHORT = {"CrossModalProbe": {"iterations": 200}, "ClipAdapter": {"epochs": 5}, "TipAdapterFStar": {"epochs": 3}}
METHODS = [
    pytest.param(name, marks=pytest.mark.with_torch if getattr(method(name), "needs_torch", False) else ())
    for name in lpplusplus.__all__
    if method(name) and name not in TRAINED_THROUGH_THE_ENCODER
]


def made(name):
    return method(name)(**SEARCHED.get(name, {}), **SHORT.get(name, {}))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_names_no_validation_data_does_not_use_them(name):
    """Fitted with labels that are all wrong for validation, its answers are those without validation data."""
    fit, held = np.arange(len(Y)) % 3 > 0, np.arange(len(Y)) % 3 == 0
    alone = made(name).fit(X[fit], Y[fit], text=T)
    model = made(name).fit(X[fit], Y[fit], text=T, X_val=X[held], y_val=(Y[held] + 1) % 4)
    assert isinstance(alone.chosen_, dict)
    assert isinstance(model.chosen_, dict)
    assert not any(data.startswith("validation") for data in alone.chosen_.values())
    if not any(data.startswith("validation") for data in model.chosen_.values()):
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        (lpplusplus.ZeroShot(), {}),
        (lpplusplus.GDA(), {"image weight": "validation"}),
        (lpplusplus.GDA(image_weight=1.0), {}),
        (
            lpplusplus.TIMO(gamma="auto", beta="auto"),
            {"image weight": "validation", "gamma": "validation", "beta": "validation"},
        ),
        (lpplusplus.TipAdapter(), {}),
        (lpplusplus.TipAdapter(cache_weight="auto", beta="auto"), {"cache weight": "validation", "beta": "validation"}),
        (lpplusplus.SSText(), {"tau": "validation"}),
        (lpplusplus.ProKeR(), {}),
        (lpplusplus.LinearProbe(), {"C": "validation"}),
        (lpplusplus.LinearProbe(C=1.0), {}),
        (LPPlusPlus(recipe="paper"), {"update": "validation"}),
        (LPPlusPlus(recipe="paper", selection="last"), {}),
        (LPPlusPlus(), {"update": "validation-loss"}),
    ],
)
def test_what_was_chosen_is_named(model, chosen):
    model.fit(X, Y, text=T, X_val=X, y_val=Y)
    assert model.chosen_ == chosen


def test_without_validation_data_the_support_decides():
    assert lpplusplus.GDA().fit(X, Y, text=T).chosen_ == {"image weight": "leave-one-out"}
    assert lpplusplus.TipAdapter(cache_weight="auto", beta="auto").fit(X, Y, text=T).chosen_["beta"] == "leave-one-out"
    assert LPPlusPlus().fit(X, Y, text=T).chosen_ == {"update": "cross-validation"}


def test_a_refit_does_not_keep_what_the_last_one_chose():
    class Silent(lpplusplus.GDA):
        silent = False

        def _fit_task(self, task):
            if not self.silent:
                super()._fit_task(task)

    model = Silent().fit(X, Y, text=T)
    model.silent = True
    assert model.fit(X, Y, text=T).chosen_ is None


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("LinearProbe", {"C": "search"}, {"C": "auto"}),
        ("GDA", {"alpha": None}, {"image_weight": "auto"}),
        ("GDA", {"alpha": 0.5}, {"image_weight": 0.5}),
        ("TIMO", {"search": True, "alpha": None}, {"gamma": "auto", "beta": "auto", "image_weight": "auto"}),
        ("TIMO", {"search": False}, {"gamma": 50.0, "beta": None}),
        ("TipAdapter", {"search": True, "alpha": 2.0}, {"cache_weight": "auto", "beta": "auto"}),
        ("TipAdapter", {"search": False, "alpha": 2.0}, {"cache_weight": 2.0, "beta": 1.0}),
        ("TipAdapterF", {"alpha": 2.0}, {"cache_weight": 2.0}),
        ("TipAdapterFStar", {"alpha": 2.0}, {"cache_weight": 2.0}),
    ],
)
def test_keywords_of_earlier_versions_are_translated(name, old, new):
    kind = method(name)
    with pytest.warns(FutureWarning, match="earlier version"):
        called = kind(**old)
    with pytest.warns(FutureWarning, match="earlier version"):
        changed = kind().set_params(**old)
    for model in (called, changed, kind._with_parameters(old)):  # A file opens without a warning.
        assert {key: getattr(model, key) for key in new} == new


def test_one_of_two_weights_can_be_chosen():
    model = lpplusplus.TipAdapter(cache_weight="auto", beta=3.0).fit(X, Y, text=T, X_val=X, y_val=Y)
    assert (model.beta_, model.chosen_) == (3.0, {"cache weight": "validation"})
    model = lpplusplus.TIMO(gamma="auto").fit(X, Y, text=T, X_val=X, y_val=Y)
    assert model.chosen_ == {"image weight": "validation", "gamma": "validation"}
