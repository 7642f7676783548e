"""Which iterate is kept: lazy validation is exact, and is lazy; held-out losses are those of folds walked by hand."""

import numpy as np
import pytest
import scipy.special

from helpers import start_of, walk
from lpplusplus import LPPlusPlus
from lpplusplus._core.folds import assign_folds
from lpplusplus.probe import counting
from lpplusplus.probe.cross_validation import Record, best_stop
from lpplusplus.probe.objective import PrimalObjective, loss
from lpplusplus.probe.solvers import Flow
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
    original = counting.CountChanged._score
    monkeypatch.setattr(
        counting.CountChanged,
        "_score",
        lambda self, point, rows: looked.append(len(rows)) or original(self, point, rows),
    )
    histories = []
    for threshold in (np.inf, 0):
        monkeypatch.setattr(counting, "WORTH_BEING_LAZY", threshold)
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


@pytest.mark.parametrize("shape", [(5, 6, 24), (5, 20, 12)], ids=str)
def test_cross_validation_against_folds_fitted_by_hand(shape):
    """Held-out losses along the path equal those of probes fitted on each fold's complement."""
    F, y, T = small_task(*shape, seed=1)
    probe = LPPlusPlus(solver="block-mm", updates=40, selection="cross-validation", random_state=3).fit(F, y, text=T)
    folds = assign_folds(y, 4, np.random.default_rng(3))
    assert np.ptp(np.bincount(folds)) <= 1
    assert all(len(set(folds[y == k])) == 4 for k in range(5))
    held_out, hits = np.zeros((2, 41, len(y)))
    for fold in range(4):
        out = folds == fold
        for j in range(41):
            part = LPPlusPlus(recipe="paper", updates=j).fit(F[~out], y[~out], text=T)
            held_out[j, out] = [loss(F[[i]], y[[i]], part.coef_) for i in np.flatnonzero(out)]
            hits[j, out] = part.predict(F[out]) == y[out]
    assert np.allclose(probe.history_.held_out_loss, held_out.mean(axis=1), atol=1e-10)
    assert np.allclose(probe.history_.held_out_accuracy, hits.mean(axis=1))
    assert probe.n_updates_ == best_stop(Record(held_out, hits))
    direct = LPPlusPlus(recipe="paper", updates=probe.n_updates_).fit(F, y, text=T)
    assert np.allclose(probe.coef_, direct.coef_, atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 6, 24), (5, 20, 12), (10, 40, 64)], ids=str)
@pytest.mark.parametrize("wrong", [0, 0.3], ids=["right labels", "some wrong"])
def test_the_default_against_folds_walked_by_hand(shape, wrong):
    """A fold of 30 images or more ends when three time points in a row are two standard errors above the best so far.

    The shortest walk ends the record.
    """
    F, y, T = small_task(*shape, seed=1)
    rng = np.random.default_rng(0)
    some = rng.random(len(y)) < wrong
    y[some] = rng.permutation(y[some])
    probe = LPPlusPlus(random_state=3).fit(F, y, text=T)
    folds = assign_folds(y, 4, np.random.default_rng(3))
    losses, hits = [], []
    for fold in range(4):
        out = folds == fold
        start = start_of(F[~out], y[~out], T)
        path, _, _ = walk(PrimalObjective, Flow(30_000), F[~out], y[~out], T, start, seen_by=F[out])
        logs = path - scipy.special.logsumexp(path, axis=2, keepdims=True)
        losses.append(-logs[:, np.arange(out.sum()), y[out]])
        hits.append(path.argmax(axis=2) == y[out])
        if out.sum() >= 30:
            worse = []
            for n in range(len(path)):
                excess = losses[-1][n] - losses[-1][np.argmin(losses[-1][: n + 1].sum(axis=1))]
                worse.append(excess.mean() > 2 * excess.std() / np.sqrt(out.sum()))
            ends = [n for n in range(3, len(path) + 1) if all(worse[n - 3 : n])]
            losses[-1] = losses[-1][: min(ends, default=None)]
    shortest = min(map(len, losses))
    assert (shortest < len(path)) == (wrong > 0 and shape[1] == 40)
    record = Record(*(np.concatenate([part[:shortest] for part in parts], axis=1) for parts in (losses, hits)))
    assert np.allclose(probe.history_.held_out_loss, record.losses.mean(axis=1), atol=1e-9)
    assert np.allclose(probe.history_.held_out_accuracy, record.hits.mean(axis=1))
    assert probe.n_updates_ == best_stop(record)
    path, _, _ = walk(PrimalObjective, Flow(30_000), F, y, T, start_of(F, y, T))
    assert np.abs(probe.decision_function(F) - path[probe.n_updates_]).max() < 1e-9


def test_validation_loss_by_hand():
    X, labels, T = small_task(6, 5, 32, seed=0, n_extra=30)
    F, y, X, labels = X[:40], labels[:40], X[40:], labels[40:]
    probe = LPPlusPlus(selection="validation-loss", solver="block-mm", updates=30).fit(
        F, y, text=T, X_val=X, y_val=labels
    )
    path = [LPPlusPlus(recipe="paper", updates=u).fit(F, y, text=T).coef_ for u in range(31)]
    losses = np.array([[loss(X[[i]], labels[[i]], coef) for i in range(len(X))] for coef in path])
    assert np.allclose(probe.history_.held_out_loss, losses.mean(axis=1), atol=1e-10)
    hits = np.array([(X @ coef.T).argmax(axis=1) == labels for coef in path])
    assert probe.n_updates_ == best_stop(Record(losses, hits))
    assert np.allclose(probe.coef_, path[probe.n_updates_], atol=1e-9)
