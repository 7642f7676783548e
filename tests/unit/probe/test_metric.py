"""The within-class metric: its root, what it leaves alone, and linear discriminant analysis as its start."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from lpplusplus import LPPlusPlus
from lpplusplus.probe.metric import within
from tasks import small_task

SHAPES = [(5, 3, 80), (5, 8, 60), (5, 20, 12), (40, 2, 30)]


def scatter(F, y):
    """Within-class scatter with the mean eigenvalue 1, and the residuals it is made of."""
    means = np.stack([F[y == k].mean(axis=0) if (y == k).any() else np.zeros(F.shape[1]) for k in range(y.max() + 1)])
    residuals = F - means[y]
    S = residuals.T @ residuals
    return S * len(S) / np.trace(S)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_the_root_is_one_of_the_shrunk_scatter(shape, rho, monkeypatch):
    F, y, T = small_task(*shape, seed=0, n_extra=3)
    monkeypatch.setattr("lpplusplus.probe.metric.RHO", rho)
    metric = within(F, y, shape[0])
    R = metric.images(np.eye(shape[2]))
    assert np.allclose(R @ R.T, np.linalg.inv(np.eye(shape[2]) + rho * scatter(F, y)), atol=1e-10)
    assert np.allclose(metric.images(F) @ metric.text(T).T, F @ T.T)
    assert np.allclose(F @ metric.weights(T).T, metric.images(F) @ T.T)


def test_single_images_say_nothing_about_the_scatter():
    """A class with one image among others with more adds none; without any pair there is no metric."""
    F, y, _ = small_task(6, 4, 30, seed=1)
    some = np.concatenate([np.flatnonzero(y > 1), [np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]]])
    with_singles, without = within(F[some], y[some], 6), within(F[y > 1], y[y > 1], 6)
    assert np.allclose(with_singles.images(F), without.images(F))
    one_each = np.unique(y, return_index=True)[1]
    assert within(F[one_each], y[one_each], 6) is None
    assert within(np.repeat(F[one_each], 3, axis=0), np.repeat(y[one_each], 3), 6) is None  # Copies do not differ.
    probe = LPPlusPlus(metric="within").fit(F[one_each], y[one_each])
    assert np.array_equal(probe.coef_, LPPlusPlus(metric="none").fit(F[one_each], y[one_each]).coef_)


@pytest.mark.parametrize("shape", [(4, 30, 12), (4, 5, 40)], ids=str)
def test_the_start_points_where_shrunk_discriminant_analysis_does(shape):
    """Class sums in the metric are n (I + S)⁻¹ times class means: LDA's weights, shrunk half way to a sphere."""
    F, y, _ = small_task(*shape, seed=3)
    start = LPPlusPlus(alpha="none", updates=0, normalize=False).fit(F, y)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5).fit(F, y)
    ours, theirs = (w - w.mean(axis=0) for w in (start.coef_, lda.coef_))  # A common part decides nothing.
    assert np.allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs), atol=1e-9)


def test_a_rotation_of_all_embeddings_changes_nothing():
    F, y, T = small_task(5, 6, 24, seed=2)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(24, 24)))[0]
    one, other = LPPlusPlus().fit(F, y, text=T), LPPlusPlus().fit(F @ Q, y, text=T @ Q)
    assert np.allclose(one.decision_function(F), other.decision_function(F @ Q), atol=1e-6)
    single = np.unique(y, return_index=True)[1]
    for metric, same in (("within", True), ("auto", False)):  # With one image per class the coordinates matter.
        one, other = (
            LPPlusPlus(metric=metric).fit(X[single], y[single], text=names) for X, names in ((F, T), (F @ Q, T @ Q))
        )
        assert np.allclose(one.decision_function(F), other.decision_function(F @ Q), atol=1e-6) == same


def test_views_are_part_of_the_scatter_and_stay_together():
    """The scatter is that of all views; the fit itself is on their mean, and a fold holds out whole images."""
    F, y, T = small_task(5, 4, 24, seed=2)
    rng = np.random.default_rng(0)
    views = F[:, None, :] + 0.05 * rng.normal(size=(len(F), 3, 24))
    views /= np.linalg.norm(views, axis=2, keepdims=True)
    probe = LPPlusPlus(updates=0, alpha="none", normalize=False).fit(views, y)
    whole, labels = views.reshape(-1, 24), np.repeat(y, 3)
    sums = np.stack([views.mean(axis=1)[y == k].sum(axis=0) for k in range(5)])
    assert np.allclose(probe.coef_, sums @ np.linalg.inv(np.eye(24) + scatter(whole, labels)))
    # Three equal views are one image: the same classifier, so no view of a held-out image was trained on.
    same = LPPlusPlus().fit(np.repeat(F[:, None, :], 3, axis=1), y, text=T)
    assert np.allclose(same.coef_, LPPlusPlus().fit(F, y, text=T).coef_, atol=1e-6)
