"""Names that the images contradict do no harm: the likeliest α, and doubted names."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from lpplusplus import LPPlusPlus, starts
from tasks import small_task


@pytest.mark.parametrize("seed", range(3))
def test_the_likeliest_alpha_is_that_of_a_search(seed):
    F, y, T = small_task(6, 4, 32, seed=seed)
    T = T[np.roll(np.arange(6), seed)]  # Right names, then wrong ones.
    scores = F @ T.T

    def loss(alpha):
        return -scipy.special.log_softmax(alpha * scores, axis=1)[np.arange(len(y)), y].mean()

    exact = scipy.optimize.minimize_scalar(loss, bounds=(0, 60), method="bounded", options={"xatol": 1e-6}).x
    assert starts.likeliest_alpha(F, y, T, most=60.0) == pytest.approx(exact, abs=0.1)


def test_alpha_starts_at_the_smaller_of_the_two():
    F, y, T = small_task(6, 4, 32, seed=0)
    shared = starts.shared_alpha(F, y, T)
    for text in (T, T[::-1].copy()):
        probe = LPPlusPlus(updates=0, alpha_init="trusted", metric="none").fit(F, y, text=text)
        believed = starts.believable(F, y, text)
        top = starts.shared_alpha(F, y, believed)
        assert np.allclose(probe.alpha_, starts.likeliest_alpha(F, y, believed, most=top))
        assert np.allclose(probe.alpha_, probe.alpha_[0])
    assert np.allclose(LPPlusPlus(updates=0, alpha_init="shared").fit(F, y, text=T).alpha_, shared)


@pytest.mark.parametrize("each", [2, 3, 4, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_leaves_names_the_share_that_it_leaves_images(each, weighted):
    """α times the mean of f·B⁻¹f to the power 1 - 2/n: few images and many, with weights and without."""
    F, y, T = small_task(6, each, 64, seed=2)
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    often = 1.0 + np.arange(len(y)) % 3 if weighted else np.ones(len(y))
    centred = F - np.stack([np.average(F[y == k], axis=0, weights=often[y == k]) for k in range(6)])[y]
    S = (often[:, None] * centred).T @ centred
    B = np.eye(64) + 64 * S / np.trace(S)
    kept = np.average(np.einsum("nd,nd->n", F, np.linalg.solve(B, F.T).T), weights=often)
    plain, within = (
        LPPlusPlus(updates=0, metric=metric).fit(F, y, text=T, sample_weight=often) for metric in ("none", "within")
    )
    least = round(min(often[y == k].sum() for k in range(6)))
    assert kept < 0.9
    assert np.allclose(within.alpha_, plain.alpha_ * kept ** (1 - 2 / least))


def test_a_doubted_name_is_replaced_by_the_mean_name_in_the_start_alone():
    F, y, T = small_task(6, 5, 48, seed=1)
    wrong = T.copy()
    wrong[[0, 1]] = T[[1, 0]]
    wrong[2] = -T[2]
    believed = starts.believable(F, y, wrong)
    doubted = [bool(np.allclose(believed[k], wrong.mean(axis=0))) for k in range(6)]
    score = F @ wrong.T
    better = [np.mean(score[y == k][:, [j for j in range(6) if j != k]] < score[y == k][:, [k]]) for k in range(6)]
    assert doubted == [share <= 0.6 for share in better]
    assert doubted[2]
    probe = LPPlusPlus(updates=0, metric="none").fit(F, y, text=wrong)
    sums = np.stack([F[y == k].sum(axis=0) for k in range(6)])
    assert np.allclose(probe.coef_, sums + probe.alpha_[:, None] * believed)
    assert np.allclose(probe.text_, wrong)  # What was given is what is kept.
    few = np.concatenate([np.flatnonzero(y == k)[:3] for k in range(6)])
    assert starts.believable(F[few], y[few], wrong) is wrong  # Three images are too few to doubt a name.


def test_meaningless_names_cost_nothing():
    """Random vectors for text: as accurate as without text, where LP++'s own start loses."""
    accuracies = []
    for seed in range(5):
        X, labels, T = small_task(10, 4, 48, seed=seed, n_extra=400)
        F, y, X, labels = X[:60], labels[:60], X[60:], labels[60:]
        text = np.random.default_rng(seed).normal(size=T.shape)
        accuracies.append(
            [
                LPPlusPlus(**p).fit(F, y, text=text).score(X, labels)
                for p in ({}, {"alpha": "none"}, {"recipe": "paper"})
            ]
        )
    default, images, paper = np.mean(accuracies, axis=0)
    assert default > images - 0.015
    assert paper < images - 0.05
