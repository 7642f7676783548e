"""One carrier from `fit` to the file: what belongs to an image stays with it, and nothing is kept twice."""

import pickle

import numpy as np
import pytest

import lpplusplus
from lpplusplus import LPPlusPlus, ZeroShot, fit_many
from lpplusplus.images import Embeddings, ImageClassifier
from tasks import small_task

F, Y, T = small_task(5, 4, 24, seed=2)


def test_fit_many_takes_the_views_of_its_own_images():
    views = F[:, None] + 0.05 * np.random.default_rng(0).standard_normal((len(F), 3, 24))
    order = np.random.default_rng(1).permutation(len(F))
    (probe,) = fit_many(views, Y, [order], text=T)
    np.testing.assert_array_equal(probe.coef_, LPPlusPlus().fit(views[order], Y[order], text=T, classes=range(5)).coef_)
    (part,) = fit_many(views, Y, [order[:12]], text=T)
    alone = LPPlusPlus().fit(views[order[:12]], Y[order[:12]], text=T, classes=range(5))
    np.testing.assert_array_equal(part.coef_, alone.coef_)


def test_prompts_as_nested_lists_are_extended_as_prompts_of_each_class():
    prompts = np.stack([T, T[::-1]])[:, :2]  # As many prompts as classes: both readings have the same shape.
    old, new = np.flatnonzero(Y < 2), np.flatnonzero(Y == 2)
    nested = [prompts[:, k].tolist() for k in range(2)]
    probe = LPPlusPlus().fit(F[old], Y[old], text=nested)
    more = [prompts[:, 0].tolist()]
    probe.extend(F[new], Y[new], text=more)
    rows = np.r_[old, new]
    whole = LPPlusPlus().fit(F[rows], Y[rows], text=[np.asarray(part) for part in (*nested, *more)])
    np.testing.assert_array_equal(probe.coef_, whole.coef_)


def test_ragged_nested_lists_are_read_before_the_fit(tmp_path):
    ragged = [T[:1].tolist(), *([T[k].tolist(), T[0].tolist()] for k in range(1, 5))]
    probe = LPPlusPlus().fit(F, Y, text=ragged)
    arrays = LPPlusPlus().fit(F, Y, text=[np.asarray(part) for part in ragged])
    np.testing.assert_array_equal(probe.coef_, arrays.coef_)
    probe.save(tmp_path / "a.lpp")
    again = lpplusplus.load(tmp_path / "a.lpp").extend(F[:3], Y[:3])
    np.testing.assert_array_equal(again.coef_, probe.extend(F[:3], Y[:3]).coef_)
    by_name = LPPlusPlus().fit(F, Y, text=dict(enumerate(ragged)))
    np.testing.assert_array_equal(by_name.coef_, arrays.coef_)


@pytest.mark.parametrize("method", [LPPlusPlus(), ZeroShot()])
def test_a_classifier_of_images_keeps_one_copy_of_them(tmp_path, method):
    photos, names = [f"{k}.jpg" for k in range(len(F))], tuple("01234")
    support = Embeddings(F.astype(np.float32)[:, None], Y.astype(str), photos, names, names)
    clf = ImageClassifier(method=method).fit(support)
    assert np.shares_memory(clf.classifier_.task_.X, clf.support_.X)
    assert len(pickle.dumps(clf)) < 2 * support.X.nbytes + 50_000
    clf.save(tmp_path / "a.lpp")
    again = ImageClassifier.load(tmp_path / "a.lpp")
    np.testing.assert_array_equal(again.support_.X, support.X)
    assert np.shares_memory(again.classifier_.task_.X, again.support_.X)


def test_zero_shot_keeps_no_images(tmp_path):
    X = np.random.default_rng(0).standard_normal((2000, 24)).astype(np.float32)
    y = np.arange(2000) % 5
    model = ZeroShot().fit(X, y, text=T)
    assert len(pickle.dumps(model)) < X.nbytes / 10
    model.save(tmp_path / "a.lpp")
    more = np.r_[T, T[:1]]
    for one in (model, lpplusplus.load(tmp_path / "a.lpp"), ZeroShot().fit(text=T, classes=range(5))):
        extended = one.extend(X[:2], [5, 5], text=T[:1])
        np.testing.assert_array_equal(extended.coef_, ZeroShot().fit(text=more, classes=range(6)).coef_)
    nameless = ZeroShot().fit(X, y)  # The mean images stand in for the names: all are needed.
    np.testing.assert_array_equal(
        nameless.extend(X[:7], y[:7]).coef_, ZeroShot().fit(np.r_[X, X[:7]], np.r_[y, y[:7]]).coef_
    )
