"""Probabilities, prediction sets and none-of-these, against MAPIE, by hand, and on tasks where the truth is known."""

import pickle

import numpy as np
import pytest
import scipy.special
from mapie.classification import SplitConformalClassifier
from sklearn.metrics import roc_auc_score

import lpplusplus
from helpers import shared_data
from lpplusplus import LPPlusPlus, fit_many
from lpplusplus.probe import held_out
from lpplusplus.probe.none_of_these import Neighbourhood, familiarity
from lpplusplus.probe.uncertainty import largest_loss
from tasks import small_task


@pytest.fixture(scope="module")
def task():
    """Support, other images of the same classes, and text."""
    F, y, T = small_task(6, 8, 32, seed=0, n_extra=400)
    order = np.argsort(y, kind="stable")
    support = np.concatenate([order[y[order] == k][:8] for k in range(6)])
    rest = np.setdiff1d(np.arange(len(y)), support)
    return (F[support], y[support]), (F[rest], y[rest]), T


@pytest.fixture(scope="module")
def probe(task):
    (F, y), _, T = task
    return LPPlusPlus().fit(F, y, text=T)


@pytest.mark.parametrize("coverage", [0.5, 46 / 91, 0.8, 0.9, 82 / 91, 0.97])
def test_sets_with_validation_images_are_mapies(task, coverage):
    """MAPIE's where (M + 1) coverage is a whole number, here k/91; else between its sets for the two next to it."""
    (F, y), (X, labels), _ = task
    held, new = slice(0, 90), slice(90, None)
    ours = LPPlusPlus().fit(
        F, y, X_val=X[held], y_val=labels[held]
    )  # MAPIE asks about zeros, which text does not allow.

    def theirs(level):
        mapie = SplitConformalClassifier(ours, level, "lac", prefit=True).conformalize(X[held], labels[held])
        return mapie.predict_set(X[new])[1][:, :, 0]

    sets, larger, place = ours.predict_set(X[new], coverage), theirs(coverage), round(91 * coverage, 9)
    smaller = larger if place % 1 == 0 else theirs((place // 1) / 91)
    assert (smaller <= sets).all()
    assert (sets <= larger).all()
    assert 0 < smaller.mean() <= larger.mean() < 1


def test_the_coverage_to_expect_is_what_was_asked():
    """Whatever the number of held-out images: losses that are uniform, so a limit is its own coverage."""
    losses = np.random.default_rng(0).random((20_000, 38))
    for coverage in (0.5, 0.8, 0.9, 0.95):
        limits = [largest_loss(some, coverage) for some in losses]
        assert np.mean(limits) == pytest.approx(coverage, abs=0.002)
    assert largest_loss(losses[0], 0.98) == np.inf


def test_sets_of_folds_by_hand(task, probe):
    _, (X, _), _ = task
    answers = probe.held_out_
    p = scipy.special.softmax(answers.logits, axis=1)[np.arange(48), answers.y]
    high, low = np.sort(p)[::-1][43:45]  # 49 x 0.9 = 44.1: a tenth of the way from the 44th to the 45th.
    least = high**0.9 * low**0.1
    assert (probe.predict_set(X, 0.9) == (probe.predict_proba(X) >= least * (1 - 1e-12))).all()
    assert probe.predict_set(X, 0.99).all()  # 48 images cannot tell so rare a thing.
    grown = [probe.predict_set(X, c).sum() for c in (0.3, 0.6, 0.9, 0.95)]
    assert grown == sorted(grown)


def test_answers_are_those_of_held_out_images(task, probe):
    (F, y), (X, labels), _ = task
    answers = probe.held_out_
    assert sorted(answers.rows) == list(range(48))
    assert (answers.y == y[answers.rows]).all()
    right = (answers.logits.argmax(axis=1) == answers.y).mean()
    assert right == pytest.approx(probe.score(X, labels), abs=0.15)
    assert right < probe.score(F, y)


def test_true_on_average():
    """Forty supports of four images a class: coverage, false alarms and confidence are what they claim to be."""
    covered, alarms, sure, right = [], [], [], []
    for seed in range(40):
        F, y, T = small_task(8, 4, 24, seed=seed, n_extra=300)
        first = np.concatenate([np.flatnonzero(y == k)[:4] for k in range(8)])
        rest = np.setdiff1d(np.arange(len(y)), first)
        probe = LPPlusPlus().fit(F[first], y[first], text=T)
        covered.append(probe.predict_set(F[rest], 0.9)[np.arange(len(rest)), y[rest]].mean())
        alarms.append(probe.none_of_these(F[rest], 0.1).mean())
        sure.append(probe.predict_proba(F[rest]).max(axis=1).mean())
        right.append(probe.score(F[rest], y[rest]))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)
    assert np.mean(alarms) == pytest.approx(0.1, abs=0.03)
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.04)


def test_nearness_by_hand():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 3], [5, 3, 4])
    F = rng.standard_normal((12, 40)) + 3 * rng.standard_normal((4, 40))[y]
    where = Neighbourhood.of(F, y, 4)
    means = {k: F[y == k].mean(axis=0) for k in (0, 1, 3)}
    apart = F - np.stack([means[k] for k in y])
    _, sizes, directions = np.linalg.svd(apart, full_matrices=False)
    B = np.eye(40) + directions.T * (sizes**2 * 40 / (sizes**2).sum()) @ directions  # Twelve images: all directions.
    x = rng.standard_normal(40)
    d = [(x - means[k]) @ np.linalg.inv(B) @ (x - means[k]) / (1 + 1 / (y == k).sum()) for k in means]
    assert where.nearness(x[None])[0] == pytest.approx(-min(d) / np.mean(d))


def test_other_things_are_none_of_these(task, probe):
    _, (X, _), _ = task
    other = small_task(12, 20, 32, seed=9)[0]
    score = np.concatenate([probe.familiarity(X), probe.familiarity(other)])
    known = np.arange(len(score)) < len(X)
    best = probe.predict_proba(np.concatenate([X, other])).max(axis=1)
    assert roc_auc_score(known, score) > max(0.9, roc_auc_score(known, best))
    assert probe.none_of_these(other).mean() > 0.5
    few, many = probe.none_of_these(X, 0.02), probe.none_of_these(X, 0.3)
    assert (many | ~few).all()
    assert many.sum() > few.sum()


def test_few_images_still_turn_away_what_is_far():
    """With eight held-out images no rank is one in twenty; a normal tail is."""
    F, y, T = small_task(2, 4, 24, seed=0)
    probe = LPPlusPlus().fit(F, y, text=T)
    assert probe.none_of_these(-F).all()
    assert not probe.none_of_these(F).any()


def test_a_file_keeps_the_doubts(tmp_path, task, probe):
    _, (X, _), _ = task
    probe.save(tmp_path / "probe.lpp")
    again = lpplusplus.load(tmp_path / "probe.lpp")
    assert (again.predict_set(X, 0.9) == probe.predict_set(X, 0.9)).all()
    assert (again.none_of_these(X) == probe.none_of_these(X)).all()
    assert (again.familiarity(X) == probe.familiarity(X)).all()


def test_without_names_the_other_witnesses_speak(task):
    (F, y), (X, _), _ = task
    probe = LPPlusPlus().fit(F, y)
    assert probe.held_out_evidence_.shape == (48, 2)
    assert probe.none_of_these(X).mean() < 0.2
    assert probe.none_of_these(small_task(12, 20, 32, seed=9)[0]).mean() > 3 * probe.none_of_these(X).mean()


@pytest.mark.parametrize("parameters", [{"recipe": "paper"}, {"selection": "last"}, {"updates": 0}], ids=str)
def test_nothing_held_out(task, parameters):
    (F, y), (X, _), T = task
    fitted = LPPlusPlus(**parameters).fit(F, y, text=T)
    for ask in (fitted.predict_set, fitted.none_of_these, fitted.familiarity):
        with pytest.raises(ValueError, match=r"needs images that fit held out.*two examples per class"):
            ask(X)
    assert fitted.held_out_ is None


def test_one_shot_has_nothing_to_hold_out():
    F, y, T = small_task(5, 1, 16, seed=0)
    with pytest.raises(ValueError, match="two examples per class"):
        LPPlusPlus().fit(F, y, text=T).predict_set(F)


@pytest.mark.parametrize("level", [0, 1, -0.1, 90, "0.9", True, float("nan")])
def test_levels(probe, task, level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        probe.predict_set(task[1][0], level)
    with pytest.raises(ValueError, match="between 0 and 1"):
        probe.none_of_these(task[1][0], level)


def test_of_many_logits_some_are_kept(monkeypatch, task, probe):
    (F, y), (X, _), T = task
    monkeypatch.setattr(held_out, "MOST_LOGITS", 1)
    monkeypatch.setattr(held_out, "FEWEST", 16)
    part = LPPlusPlus().fit(F, y, text=T)
    assert len(part.held_out_.rows) == 16
    assert (part.predict(X) == probe.predict(X)).all()
    whole = dict(zip(probe.held_out_.rows, probe.held_out_.logits.argmax(axis=1), strict=True))
    assert [whole[row] for row in part.held_out_.rows] == part.held_out_.logits.argmax(axis=1).tolist()


def test_tensors(task, probe, torch):
    (F, y), (X, _), T = task
    fitted = LPPlusPlus().fit(torch.tensor(F), torch.tensor(y), text=torch.tensor(T))
    sets, none = fitted.predict_set(torch.tensor(X)), fitted.none_of_these(torch.tensor(X))
    assert isinstance(sets, torch.Tensor)
    assert isinstance(none, torch.Tensor)
    assert (sets.numpy() == probe.predict_set(X)).all()
    assert (none.numpy() == probe.none_of_these(X)).all()
    assert (probe.none_of_these(torch.tensor(X)).numpy() == probe.none_of_these(X)).all()


def test_familiarity_is_in_units_of_members():
    rng = np.random.default_rng(0)
    members = rng.normal([3, -1, 0], [2, 0.1, 1], (500, 3))
    score = familiarity(members, members)
    assert score.mean() == pytest.approx(0, abs=1e-9)
    assert score.std() == pytest.approx(3**-0.5, abs=0.05)


@pytest.mark.parametrize("shots", [2, 4, 8])
def test_on_real_features(shots):
    """WHU-RS19, ten supports: sets cover what was asked, a third of the classes left out is noticed."""
    with np.load(shared_data("whurs19/clip_vit_b32.npz")) as file:
        X, labels = file["images"].astype(np.float32), file["labels"]
        T = file["text"][file["prompts"].tolist().index("a satellite image of a {}")].astype(np.float32)
    covered, areas, alarms = [], [], []
    for seed in range(1, 11):
        rng = np.random.default_rng(seed)
        support = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:shots] for k in range(19)])
        rest = np.setdiff1d(np.arange(len(labels)), support)
        probe = LPPlusPlus().fit(X[support], labels[support], text=T)
        covered.append(probe.predict_set(X[rest])[np.arange(len(rest)), labels[rest]].mean())
        some = np.sort(rng.permutation(19)[:13])
        few = support[np.isin(labels[support], some)]
        probe = LPPlusPlus().fit(X[few], labels[few], text=T[some])
        known = np.isin(labels[rest], some)
        areas.append(roc_auc_score(known, probe.familiarity(X[rest])))
        alarms.append(probe.none_of_these(X[rest][known]).mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03 if shots == 2 else 0.02)
    assert np.mean(areas) > 0.93
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.025)


def test_other_names(tmp_path, task, probe):
    """What is as close to another name as to its own is turned away; members are, no more often than asked."""
    (F, y), (X, _), T = task
    other = -T[:2]
    away = X - 3 * T[0]  # Far from all names, and close to the first of the others.
    assert probe.none_of_these(away, 0.1, other_text=other).all()
    assert probe.none_of_these(X, 0.1, other_text=other).mean() < 0.2
    probe.save(tmp_path / "bare.lpp", support=False)
    with pytest.raises(ValueError, match="saved without these"):
        lpplusplus.load(tmp_path / "bare.lpp").none_of_these(X, other_text=other)
    with pytest.raises(ValueError, match="has no names"):
        LPPlusPlus().fit(F, y).none_of_these(X, other_text=other)


@pytest.mark.parametrize(
    "options", [{}, {"class_weight": "balanced"}, {"normalize": False}, {"alpha": "none"}], ids=str
)
def test_neighbourhoods_are_made_when_they_are_asked_for(task, options, monkeypatch, tmp_path):
    (F, y), (X, labels), T = task
    made = []
    original = Neighbourhood.of
    monkeypatch.setattr(Neighbourhood, "of", lambda *given: made.append(given) or original(*given))
    probe = LPPlusPlus(**options).fit(F, y, text=T)
    probe.predict_proba(X)
    probe.predict_set(X)
    assert not made
    copied = pickle.loads(pickle.dumps(probe))
    at_once = fit_many(F, y, [np.arange(len(y))], text=T, estimator=LPPlusPlus(**options))[0]
    probe.save(tmp_path / "a.lpp", support=False)
    others = (copied, at_once, lpplusplus.load(tmp_path / "a.lpp"))
    assert "class_means_" in vars(probe)
    for other in others:
        assert np.allclose(other.familiarity(X), probe.familiarity(X), rtol=1e-9)
    held = LPPlusPlus(**options).fit(F, y, text=T, X_val=X, y_val=labels)
    assert held.familiarity(X).shape == (len(X),)
    with pytest.raises(AttributeError, match="no attribute 'class_means_'"):
        _ = LPPlusPlus().class_means_
