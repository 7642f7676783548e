"""What `fit` is given means what its user meant: text by name, labels of one kind, nothing cut by scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from lpplusplus import LinearProbe, LPPlusPlus, TipAdapter, Whole, ZeroShot
from tasks import small_task

NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.fixture
def task():
    F, y, T = small_task(4, 4, 16, seed=3)
    return F, NAMES[y], T


# Text by name -------------------------------------------------------------------------------------------------------


def test_a_frame_whose_index_names_the_classes_is_used_by_name(task):
    pandas = pytest.importorskip("pandas")
    F, y, T = task
    truth = LPPlusPlus().fit(F, y, text=T)
    order = [2, 0, 3, 1]
    frame = pandas.DataFrame(T[order], index=NAMES[order])
    for classes in (None, NAMES, list(NAMES)):
        assert np.allclose(LPPlusPlus().fit(F, y, text=frame, classes=classes).coef_, truth.coef_, rtol=1e-12)
    turned = LPPlusPlus().fit(F, y, text=frame, classes=NAMES[::-1])
    assert turned.classes_.tolist() == NAMES[::-1].tolist()
    assert np.allclose(turned.coef_, truth.coef_[::-1])
    numbers, turned = np.searchsorted(NAMES, y), pandas.DataFrame(T).iloc[::-1]  # pandas: RangeIndex(3, -1, -1).
    assert np.allclose(LPPlusPlus().fit(F, numbers, text=turned).coef_, truth.coef_, rtol=1e-12)
    assert np.allclose(LPPlusPlus().fit(F, numbers + 1, text=turned.iloc[::-1]).coef_, truth.coef_, rtol=1e-12)
    # Also without a label to compare with: where nothing but text is given, and where no class is new.
    assert np.allclose(ZeroShot().fit(text=frame).coef_, ZeroShot().fit(text=T, classes=NAMES).coef_)
    assert np.allclose(LPPlusPlus().fit(F[2:], y[2:], text=T).extend(F[:2], y[:2], text=frame).text_, truth.text_)
    # An index that names something else, or nothing, is no index of classes.
    for index in ([7, 8, 9, 10], None):
        assert np.allclose(LPPlusPlus().fit(F, y, text=pandas.DataFrame(T, index=index)).coef_, truth.coef_, rtol=1e-12)


@pytest.mark.parametrize(
    ("index", "classes", "message"),
    [
        (["ant", "bee", "cat", "cow"], None, "no embedding of 'dog'"),
        (["ant", "bee", "cat", "cow"], NAMES, "no embedding of 'dog'"),
        (["ant", "bee", "cat", "dog", "cow"], NAMES, "names 'cow' which is not in classes"),
        (["ant", "bee", "cat", "dog", "dog"], None, "names twice 'dog'"),
    ],
)
def test_a_frame_that_half_names_the_classes_is_refused(task, index, classes, message):
    pandas = pytest.importorskip("pandas")
    F, y, _ = task
    text = np.random.default_rng(0).standard_normal((len(index), 16))
    with pytest.raises(ValueError, match=message):
        LPPlusPlus().fit(F, y, text=pandas.DataFrame(text, index=index), classes=classes)
    if "twice" not in message:
        with pytest.raises(ValueError, match=message):
            LPPlusPlus().fit(F, y, text=dict(zip(index, text, strict=True)), classes=classes)


def test_text_as_a_dictionary(task):
    F, y, T = task
    truth = LPPlusPlus().fit(F, y, text=T)
    text = {NAMES[k]: T[k].tolist() for k in (3, 1, 0, 2)}
    assert np.allclose(LPPlusPlus().fit(F, y, text=text).coef_, truth.coef_, rtol=1e-12)
    more = LPPlusPlus().fit(F, y, text={**text, "cow": F[0]})  # A class without examples, by its name alone.
    assert more.classes_.tolist() == ["ant", "bee", "cat", "cow", "dog"]
    assert (ZeroShot().fit(text=text).predict(T) == NAMES).all()
    for wrong in ({}, {**text, "ant": [1.0, 2.0]}, dict.fromkeys(NAMES, 1.0)):
        with pytest.raises(ValueError, match="text"):
            LPPlusPlus().fit(F, y, text=wrong)


def test_text_as_a_dictionary_of_tensors(task, torch):
    F, y, T = task
    text = {name: torch.as_tensor(t) for name, t in zip(NAMES[::-1], T[::-1].copy(), strict=True)}
    assert np.allclose(LPPlusPlus().fit(F, y, text=text).coef_, LPPlusPlus().fit(F, y, text=T).coef_)


@pytest.mark.parametrize("method", [LPPlusPlus, LinearProbe, TipAdapter, ZeroShot])
def test_lists_of_strings_and_numbers_are_refused(task, method):
    F, _, T = task
    mixed = [0, "a", 1, "b"] * 4
    with pytest.raises(ValueError, match="y mixes labels of different types: 0 in row 0, 'a' in row 1"):
        method().fit(F, mixed, text=T)
    with pytest.raises(ValueError, match="classes mixes"):
        method().fit(F, ["0", "a", "1", "b"] * 4, text=T, classes=["0", "a", 1, "b"])
    with pytest.raises(ValueError, match="y_val mixes"):
        method().fit(F, ["0", "a", "1", "b"] * 4, text=T, X_val=F, y_val=tuple(mixed))
    with pytest.raises(ValueError, match="y mixes labels of different types: True in row 0, 2 in row 1"):
        method().fit(F, [True, 2, 3, 4] * 4, text=T)


# scikit-learn's folds -----------------------------------------------------------------------------------------------


class Spy(LPPlusPlus):
    """Notes how many validation images and classes it is given."""

    seen: list = []

    def _fit_task(self, task):
        Spy.seen.append((None if task.X_val is None else len(task.X_val), task.n_classes))
        super()._fit_task(task)


@pytest.fixture
def spy():
    Spy.seen = []
    return Spy(updates=20)


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("pipeline", [False, True])
def test_a_validation_set_as_large_as_the_support_is_not_cut(task, spy, routing, pipeline):
    F, y, T = task
    with sklearn.config_context(enable_metadata_routing=routing):
        probe = spy.set_fit_request(text=True, X_val=True, y_val=True) if routing else spy
    model = make_pipeline(FunctionTransformer(), probe) if pipeline else probe
    prefix = "spy__" if pipeline and not routing else ""
    plain = {"text": T, "X_val": F, "y_val": y}
    wrapped = {"text": T, "X_val": Whole(F), "y_val": Whole(y)}
    plain, wrapped = ({prefix + name: value for name, value in d.items()} for d in (plain, wrapped))
    with sklearn.config_context(enable_metadata_routing=routing):
        for score in (cross_val_score, cross_val_predict):
            options = {"error_score": "raise"} if score is cross_val_score else {}
            with pytest.raises(ValueError, match=r"X_val was cut.*lpplusplus\.Whole\(X_val\)"):
                score(model, F, y, cv=2, params=plain, **options)
            spy.seen.clear()
            score(model, F, y, cv=2, params=wrapped, **options)
            assert spy.seen == [(16, 4)] * 2
        grid = {("spy__" if pipeline else "") + "updates": [10, 20]}
        with pytest.raises(ValueError, match="X_val was cut"):
            GridSearchCV(model, grid, cv=2, error_score="raise").fit(F, y, **plain)
        spy.seen.clear()
        GridSearchCV(model, grid, cv=2).fit(F, y, **wrapped)  # Four fits, and one on everything.
        assert spy.seen == [(16, 4)] * 5


def test_cuts_are_seen_in_other_processes_and_in_calibration(task):
    F, y, T = task
    plain = {"text": T, "X_val": F, "y_val": y}
    with pytest.raises(ValueError, match="X_val was cut"):
        cross_val_score(LPPlusPlus(updates=20), F, y, cv=2, params=plain, n_jobs=2, error_score="raise")
    with pytest.raises(ValueError, match="X_val was cut"):
        CalibratedClassifierCV(LPPlusPlus(updates=20), cv=2).fit(F, y, **plain)


def test_text_with_as_many_rows_as_x_is_not_cut(task, spy):
    F, _, T = task
    y = [*range(4), *range(4, 8), *range(8)]
    text = np.vstack([T] * 4)
    with pytest.raises(ValueError, match="text was cut"):
        cross_val_score(spy, F, y, cv=2, params={"text": text, "classes": range(16)}, error_score="raise")
    with pytest.raises(ValueError, match="classes was cut"):
        cross_val_score(spy, F, y, cv=2, params={"text": Whole(text), "classes": range(16)}, error_score="raise")
    spy.seen.clear()
    cross_val_score(spy, F, y, cv=2, params={"text": Whole(text), "classes": Whole(range(16))}, error_score="raise")
    assert spy.seen == [(None, 16)] * 2


def test_a_fold_that_happens_to_be_as_large_is_no_cut(task, spy):
    F, y, T = task
    held = {"X_val": F[:8], "y_val": y[:8]}  # As many as each fold trains on.
    cross_val_score(spy, F, y, cv=2, params={"text": T, **held}, error_score="raise")
    assert spy.seen == [(8, 4)] * 2


class Halves(ClassifierMixin, BaseEstimator):
    """An estimator of somebody else, which makes a validation set of its own."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.inner_ = LPPlusPlus(updates=20).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2], classes=self.classes_)
        return self

    def predict(self, X):
        return self.inner_.predict(X)


def test_who_makes_a_validation_set_inside_a_fold_may(task):
    F, y, _ = task
    order = np.argsort(y, kind="stable")
    assert cross_val_score(Halves(), F[order], y[order], cv=2, error_score="raise").shape == (2,)
    assert LPPlusPlus(updates=20).fit(F, y, X_val=F, y_val=y).n_updates_ >= 0
