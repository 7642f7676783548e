"""Whole fits on two cores: the same bits every time, and the same classifier as on one."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lpplusplus import LPPlusPlus
from lpplusplus._core import threads
from tasks import small_task


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the teams that are made."""
    made = []
    original = threads.Team.__init__

    def init(self, size, *pool):
        made.append(size)
        original(self, size, *pool)

    monkeypatch.setattr(threads.Team, "__init__", init)
    return made


@pytest.mark.parametrize("lazy", [False, True], ids=["all validation images", "lazy validation"])
@pytest.mark.parametrize("shape", [(100, 8, 128), (200, 3, 700)], ids=["on the weights", "in the span"])
@pytest.mark.parametrize("recipe", ["default", "paper", "released"])
def test_same_bits_on_two_threads_and_the_same_classifier_as_on_one(recipe, shape, lazy, sizes, monkeypatch):
    monkeypatch.setattr("lpplusplus.probe.selection.WORTH_BEING_LAZY", 0 if lazy else np.inf)
    K, S, D = shape
    X, labels, T = small_task(K, S, D, seed=1, n_extra=300)
    F, y, X, labels = X[:-300], labels[:-300], X[-300:], labels[-300:]
    validation = {} if recipe == "default" else {"X_val": X, "y_val": labels}

    def fit(threads):
        with threadpool_limits(threads, user_api="blas"):
            return LPPlusPlus(recipe=recipe, updates=None if recipe == "default" else 60).fit(
                F, y, text=T, classes=range(K), **validation
            )

    first, second = fit(2), fit(2)
    assert sizes == [2, 2]
    assert first.coef_.tobytes() == second.coef_.tobytes()
    one = fit(1)
    assert sizes == [2, 2]
    assert one.n_updates_ == first.n_updates_
    assert np.abs(one.coef_ - first.coef_).max() < 1e-9
    assert one.history_.validation_accuracy == first.history_.validation_accuracy
