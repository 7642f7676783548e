"""Lazy validation is exact, and it is lazy."""

import numpy as np
import pytest

from lpplusplus import LPPlusPlus, selection
from lpplusplus.cross_validation import Record, assign_folds, best_stop
from tasks import small_task

CASES = [
    {"recipe": "paper"},
    {"recipe": "released"},
    {"recipe": "paper", "normalize": False},
    {"recipe": "released", "normalize": False},
    {"solver": "gradient-descent", "selection": "validation", "updates": 100},
    {"solver": "lbfgs", "selection": "validation", "updates": 15},
    {"selection": "validation", "updates": 30_000},
]


@pytest.mark.parametrize("parameters", CASES, ids=str)
@pytest.mark.parametrize("shape", [(8, 3, 40), (5, 20, 12)], ids=["span", "primal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lazy_counts_equal_full_counts(monkeypatch, parameters, shape, dtype):
    X, y, T = small_task(*shape, seed=1, n_extra=200)
    X = (X * np.random.default_rng(0).uniform(0.3, 3, (len(X), 1))).astype(dtype)
    n = shape[0] * shape[1]
    split = {"X_val": X[n:], "y_val": y[n:]}
    looked = []
    original = selection.CountChanged._look
    monkeypatch.setattr(
        selection.CountChanged,
        "_look",
        lambda self, point, rows: looked.append(len(rows)) or original(self, point, rows),
    )
    histories = []
    for threshold in (np.inf, 0):
        monkeypatch.setattr(selection, "WORTH_BEING_LAZY", threshold)
        probe = LPPlusPlus(**parameters).fit(X[:n], y[:n], text=T.astype(dtype), classes=range(shape[0]), **split)
        histories.append((probe.history_.validation_accuracy, probe.n_updates_))
    assert histories[0] == histories[1]
    if parameters == {"recipe": "paper"}:
        assert sum(looked) < 0.5 * 301 * 200


def test_folds_are_fair():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(7), [2, 3, 4, 5, 9, 2, 2])
    folds = assign_folds(y, 4, rng)
    sizes = np.bincount(folds, minlength=4)
    assert sizes.max() - sizes.min() <= 1
    for label in range(7):
        per_fold = np.bincount(folds[y == label], minlength=4)
        assert per_fold.max() - per_fold.min() <= 1
        assert per_fold.max() < (y == label).sum()  # Never all of a class at once.


def test_loss_may_not_buy_confidence_with_accuracy():
    """Held-out loss falls all the way, but after the third iterate a fifth of the images turn wrong."""
    losses = np.tile(np.array([[5.0], [4.0], [3.0], [2.0], [1.0]]), (1, 200))
    hits = np.ones((5, 200))
    assert best_stop(Record(losses, hits)) == 4
    hits[3:, :40] = 0
    assert best_stop(Record(losses, hits)) == 2
    hits[3:, 1:] = 1  # One image is noise.
    assert best_stop(Record(losses, hits)) == 4
