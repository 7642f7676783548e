"""Unlabelled images: they help where they can, do no harm elsewhere, and stay with the classifier."""

import numpy as np
import pytest

import lpplusplus
from helpers import shared_data
from lpplusplus import LPPlusPlus, Whole
from tasks import small_task

CLASSES, DIM = 20, 64


def drawn(seed, shots=2, n_extra=800):
    """Support, unlabelled images with their (secret) labels, test images with theirs, text."""
    F, y, T = small_task(CLASSES, shots, DIM, seed=seed, n_extra=n_extra)
    first = np.concatenate([np.flatnonzero(y == k)[:shots] for k in range(CLASSES)])
    rest = np.setdiff1d(np.arange(len(y)), first)
    free, test = rest[::2], rest[1::2]
    return (F[first], y[first]), (F[free], y[free]), (F[test], y[test]), T


def gains(kind, seeds=range(8)):
    found, used = [], []
    for seed in seeds:
        support, (U, secret), test, T = drawn(seed)
        if kind == "half":
            U = U[secret < CLASSES // 2]
        elif kind == "foreign":
            U = np.random.default_rng(seed).standard_normal(U.shape)
        probe = LPPlusPlus().fit(*support, text=T, unlabelled=U)
        found.append(probe.score(*test) - LPPlusPlus().fit(*support, text=T).score(*test))
        used.append(probe.n_unlabelled_)
    return np.array(found), np.array(used)


def test_they_help_at_two_shots():
    gain, used = gains("all")
    assert gain.mean() > 0.01
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
    assert (used > 0).mean() > 0.5
    assert used.max() <= 400


@pytest.mark.parametrize("kind", ["half", "foreign"])
def test_they_do_no_harm_where_classes_are_missing(kind):
    gain, used = gains(kind)
    assert gain.mean() > -0.003 - 2 * gain.std() / np.sqrt(len(gain))
    assert (gain[used == 0] == 0).all()


def test_not_used_is_the_classifier_without():
    support, _, (X, _), T = drawn(0)
    strange = np.random.default_rng(0).standard_normal((50, DIM))
    probe, plain = LPPlusPlus().fit(*support, text=T, unlabelled=strange), LPPlusPlus().fit(*support, text=T)
    assert probe.n_unlabelled_ == plain.n_unlabelled_ == 0
    assert (probe.coef_ == plain.coef_).all()
    assert (probe.predict_set(X, 0.9) == plain.predict_set(X, 0.9)).all()


def helpful():
    """A draw in which they are used."""
    for seed in range(8):
        support, (U, _), test, T = drawn(seed)
        probe = LPPlusPlus().fit(*support, text=T, unlabelled=U)
        if probe.n_unlabelled_:
            return probe, support, U, test, T
    raise AssertionError


def test_saved_and_grown_with_them(tmp_path):
    probe, (F, y), U, _, T = helpful()
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp")
    assert (again.task_.unlabelled == U).all()
    few = np.concatenate([np.flatnonzero(y == k) for k in range(CLASSES - 1)])
    grown = LPPlusPlus().fit(F[few], y[few], text=T[:-1], unlabelled=U)
    order = np.concatenate([few, np.flatnonzero(y == CLASSES - 1)])
    whole = LPPlusPlus().fit(F[order], y[order], text=T, unlabelled=U)
    grown.extend(F[y == CLASSES - 1], y[y == CLASSES - 1], text=T[-1:])
    assert (grown.coef_ == whole.coef_).all()
    probe.save(tmp_path / "b.lpp", support=False)
    assert (tmp_path / "b.lpp").stat().st_size < (tmp_path / "a.lpp").stat().st_size - U.nbytes
    assert (lpplusplus.load(tmp_path / "b.lpp").coef_ == probe.coef_).all()


def test_probabilities_stay_true_and_answers_are_held_out():
    sure, right, covered = [], [], []
    for seed in range(8):
        support, (U, _), (X, y), T = drawn(seed, shots=4)
        probe = LPPlusPlus().fit(*support, text=T, unlabelled=U)
        sure.append(probe.predict_proba(X).max(axis=1).mean())
        right.append(probe.score(X, y))
        covered.append(probe.predict_set(X, 0.9)[np.arange(len(y)), y].mean())
        assert sorted(probe.held_out_.rows) == list(range(len(support[1])))
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.04)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_other_ways_to_fit(torch):
    """Several views, weights, validation images, tensors, half precision, no text, and no normalisation."""
    (F, y), (U, _), (X, labels), T = drawn(1, shots=4)
    plain = LPPlusPlus().fit(F, y, text=T, unlabelled=U)
    views = LPPlusPlus().fit(np.stack([F, F], axis=1), y, text=T, unlabelled=U)
    np.testing.assert_allclose(views.coef_, plain.coef_, rtol=1e-3, atol=1e-3 * np.abs(plain.coef_).max())
    twice = LPPlusPlus().fit(F, y, text=T, unlabelled=U, sample_weight=np.full(len(y), 2.0))
    assert twice.score(X, labels) == pytest.approx(plain.score(X, labels), abs=0.05)
    held = LPPlusPlus().fit(F, y, text=T, unlabelled=U, X_val=X[:64], y_val=labels[:64])
    assert held.score(X[64:], labels[64:]) >= plain.score(X[64:], labels[64:]) - 0.03
    tensors = LPPlusPlus().fit(torch.tensor(F), y, text=torch.tensor(T), unlabelled=torch.tensor(U))
    assert tensors.n_unlabelled_ == plain.n_unlabelled_
    np.testing.assert_allclose(tensors.coef_.numpy(), plain.coef_, rtol=1e-5, atol=1e-5 * np.abs(plain.coef_).max())
    half = LPPlusPlus().fit(F.astype("f2"), y, text=T.astype("f2"), unlabelled=U.astype("f2"))
    assert half.coef_.dtype == np.float32
    assert half.task_.unlabelled.dtype == np.float16
    assert LPPlusPlus(normalize=False).fit(F, y, unlabelled=U).score(X, labels) > 0.5
    assert LPPlusPlus().fit(F, y, text=T, unlabelled=U[:1]).n_unlabelled_ in (0, 1)
    cut = LPPlusPlus().fit(F, y, text=T, unlabelled=Whole(U))
    assert (cut.coef_ == plain.coef_).all()


def test_what_is_refused():
    (F, y), (U, _), _, T = drawn(0)
    probe = LPPlusPlus().fit(F, y, text=T)
    before = probe.coef_
    for bad, told in ((U[:, :5], "unlabelled"), (np.zeros((3, DIM)), "unlabelled"), (U * np.nan, "unlabelled")):
        with pytest.raises(ValueError, match=told):
            probe.fit(F, y, text=T, unlabelled=bad)
    single = np.unique(y, return_index=True)[1]
    with pytest.raises(ValueError, match="two examples per class"):
        probe.fit(F[single], y[single], text=T, unlabelled=U)
    with pytest.raises(ValueError, match="held-out"):
        LPPlusPlus(recipe="paper").fit(F, y, text=T, unlabelled=U)
    assert probe.coef_ is before


def test_real_embeddings():
    """WHU-RS19, two shots: the unlabelled half of the other images helps."""
    with np.load(shared_data("whurs19/clip_vit_b32.npz"), allow_pickle=False) as z:
        X, y, T = z["images"].astype("f4"), z["labels"], z["text"][0].astype("f4")
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        first = np.concatenate([order[y[order] == k][:2] for k in range(19)])
        rest = np.setdiff1d(order, first)
        fits = [LPPlusPlus().fit(X[first], y[first], text=T, **more) for more in ({}, {"unlabelled": X[rest[::2]]})]
        found.append([probe.score(X[rest[1::2]], y[rest[1::2]]) for probe in fits])
    before, after = np.mean(found, axis=0)
    assert after > before + 0.003


def test_the_history_is_that_of_the_classifier_that_was_kept():
    """Not that of the fit without unlabelled images, which ended earlier and was discarded."""
    support, (U, _), _, T = drawn(0)
    probe, plain = LPPlusPlus().fit(*support, text=T, unlabelled=U), LPPlusPlus().fit(*support, text=T)
    assert probe.n_unlabelled_ > 0
    assert probe.history_.time[-1] > 1.3 * plain.history_.time[-1]  # It goes 1 + λ times as far.
    assert probe.n_updates_ == probe.history_.update[-1] == len(probe.history_.loss) - 1
    assert probe.history_.held_out_time == plain.history_.held_out_time
    assert set(probe.history_.columns) == set(plain.history_.columns)
