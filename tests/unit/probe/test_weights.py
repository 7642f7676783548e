"""Weights of images and classes: a weight of 3 is an image that is there three times."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

import lpplusplus
from lpplusplus import LPPlusPlus, TipAdapter, fit_many
from lpplusplus.solvers import Adam, BlockMM
from tasks import small_task

SHAPES = {"in the span": (4, 5, 60), "on the weights": (4, 40, 12)}


def weighted_task(shape, seed=1):
    F, y, T = small_task(*shape, seed=seed)
    return F, y, T, np.random.default_rng(seed).integers(1, 4, len(y))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("with_text", [True, False], ids=["text", "no text"])
@pytest.mark.parametrize(
    "options",
    [
        {"selection": "last"},
        {"selection": "last", "updates": 300, "normalize": False},
        {"selection": "last", "intercept": True},
        {"recipe": "paper", "updates": 60},
        {"recipe": "paper", "alpha_init": "per-class", "updates": 60, "solver": BlockMM(certified=True)},
        {"recipe": "released", "updates": 60},
        {"solver": "gradient-descent", "selection": "last", "updates": 40},
        {"solver": Adam(20, learning_rate=0.1), "metric": "none", "selection": "last"},
        {"solver": "lbfgs", "selection": "last", "updates": 8},
    ],
    ids=str,
)
def test_a_weight_is_a_number_of_copies(shape, with_text, options):
    F, y, T, w = weighted_task(shape)
    text = {"text": T} if with_text else {}
    if not with_text and "alpha_init" in options:
        options = {**options, "alpha_init": None}
    if not options.get("normalize", True):
        F = F * np.random.default_rng(0).uniform(0.2, 3.0, (len(F), 1))
    weighted = LPPlusPlus(**options).fit(F, y, sample_weight=w, **text)
    copies = LPPlusPlus(**options).fit(np.repeat(F, w, axis=0), np.repeat(y, w), **text)
    assert weighted.n_updates_ == copies.n_updates_
    assert np.abs(weighted.coef_ - copies.coef_).max() < 1e-9
    assert np.abs(weighted.intercept_ - copies.intercept_).max() < 1e-9
    assert np.abs(np.array(weighted.history_.loss) - copies.history_.loss).max() < 1e-9
    plain = LPPlusPlus(**options).fit(F, y, **text)
    assert np.abs(plain.coef_ - copies.coef_).max() > 1e-3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("recipe", ["default", "paper", "released"])
def test_with_validation_data(shape, recipe, monkeypatch):
    F, y, T, w = weighted_task(shape)
    X, labels, _ = small_task(shape[0], 20, shape[2], seed=7)
    for lazy in (0, np.inf):
        monkeypatch.setattr("lpplusplus.probe.selection.WORTH_BEING_LAZY", lazy)
        given = {"text": T, "X_val": X, "y_val": labels}
        weighted = LPPlusPlus(recipe=recipe).fit(F, y, sample_weight=w, **given)
        copies = LPPlusPlus(recipe=recipe).fit(np.repeat(F, w, axis=0), np.repeat(y, w), **given)
        assert weighted.n_updates_ == copies.n_updates_
        assert np.abs(weighted.coef_ - copies.coef_).max() < 1e-9


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_fractions_zeros_and_ones(shape):
    F, y, T, w = weighted_task(shape)
    w = w / 3.7
    probe = LPPlusPlus(selection="last").fit(F, y, text=T, sample_weight=w)
    own = probe.predict_log_proba(F)[np.arange(len(y)), y]
    assert probe.history_.loss[-1] == pytest.approx(-(w * own).sum() / w.sum(), abs=1e-12)
    w[::5] = 0
    left_out = LPPlusPlus().fit(F[w > 0], y[w > 0], text=T, sample_weight=w[w > 0], classes=range(4))
    assert (LPPlusPlus().fit(F, y, text=T, sample_weight=w).coef_ == left_out.coef_).all()
    for ones in (np.ones(len(y)), [1] * len(y), 1):  # Cross-validation and all.
        same = LPPlusPlus().fit(F, y, text=T, sample_weight=ones)
        assert np.abs(same.coef_ - LPPlusPlus().fit(F, y, text=T).coef_).max() < 1e-9


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_held_out_images_count_as_copies_in_the_same_fold(shape, monkeypatch):
    F, y, T, w = weighted_task(shape)
    folds = np.arange(len(y)) // 4 % 4
    histories = []
    for times, weight in ((1, w), (w, None)):
        monkeypatch.setattr("lpplusplus.probe.fit.assign_folds", lambda *_, times=times: np.repeat(folds, times))
        probe = LPPlusPlus(selection="cross-validation")
        probe.fit(np.repeat(F, times, axis=0), np.repeat(y, times), text=T, sample_weight=weight)
        histories.append(probe.history_)
    # The loss has a term for one image more, which depends on their number; accuracy is the weighted mean alone.
    both = np.array([history.held_out_accuracy[:5] for history in histories])
    assert np.abs(both[0] - both[1]).max() < 1e-9


def test_class_weight():
    F, y, T = small_task(4, 3, 24, seed=0, n_extra=30)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    balanced = LPPlusPlus(class_weight="balanced", selection="last").fit(F, names, text=T)
    by_hand = LPPlusPlus(selection="last").fit(F, names, text=T, sample_weight=compute_sample_weight("balanced", names))
    assert np.allclose(balanced.coef_, by_hand.coef_, rtol=0, atol=1e-10)
    table = LPPlusPlus(class_weight={"cat": 2.5}, selection="last").fit(F, names, text=T)
    by_hand = LPPlusPlus(selection="last").fit(F, names, text=T, sample_weight=np.where(names == "cat", 2.5, 1.0))
    assert np.allclose(table.coef_, by_hand.coef_, rtol=0, atol=1e-10)
    (many,) = fit_many(F, names, [np.arange(len(y))], text=T, estimator=LPPlusPlus(class_weight="balanced"))
    assert np.allclose(many.coef_, LPPlusPlus(class_weight="balanced").fit(F, names, text=T).coef_)


def test_class_weight_is_saved(tmp_path):
    F, y, T = small_task(4, 3, 24, seed=0)
    for weight in ({0: 2.0, 3: 0.5}, "balanced", None):
        LPPlusPlus(class_weight=weight).fit(F, y, text=T).save(tmp_path / "a.lpp")
        assert lpplusplus.load(tmp_path / "a.lpp").class_weight == weight


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "one number each"),
        (["a"] * 12, "one number each"),
        ([-1.0] + [1.0] * 11, "row 0"),
        ([1.0] * 11 + [np.nan], "row 11"),
        ([0.0] * 12, "zero for all"),
    ],
)
def test_bad_weights(weights, message):
    F, y, _ = small_task(4, 3, 24, seed=0)
    with pytest.raises(ValueError, match=message):
        LPPlusPlus().fit(F, y, sample_weight=weights)


def test_bad_class_weights():
    F, y, _ = small_task(4, 3, 24, seed=0)
    for wrong in ("equal", {0: -1.0}, {0: "a"}, {9: 1.0}):
        with pytest.raises(ValueError, match="class_weight"):
            LPPlusPlus(class_weight=wrong).fit(F, y)


def test_tensors(torch):
    for shape in SHAPES.values():
        F, y, T, w = weighted_task(shape)
        truth = LPPlusPlus(intercept=True).fit(F, y, text=T, sample_weight=w)
        given = {"text": torch.as_tensor(T), "sample_weight": torch.as_tensor(w)}
        probe = LPPlusPlus(intercept=True).fit(torch.as_tensor(F), torch.as_tensor(y), **given)
        assert np.allclose(probe.coef_.numpy(), truth.coef_, atol=1e-8)
        assert np.allclose(probe.predict_log_proba(torch.as_tensor(F)).numpy(), truth.predict_log_proba(F), atol=1e-8)


@pytest.mark.parametrize("method", [LPPlusPlus, TipAdapter])
def test_log_probabilities(method):
    F, y, T = small_task(4, 3, 24, seed=0)
    probe = method().fit(F, y, text=T)
    assert np.allclose(probe.predict_log_proba(F), np.log(probe.predict_proba(F)), atol=1e-12)
    probe.coef_ = 1e4 * probe.coef_
    assert np.isfinite(probe.predict_log_proba(F)).all()


@pytest.mark.parametrize("shots", [2, 3])
def test_held_out_measures_are_means_whatever_is_held_out(shots):
    """A class of one image is never held out; if its weight is small, the others' weights have a mean above 1."""
    F, y, T = small_task(6, shots, 16, seed=1)
    single = np.flatnonzero(y == 0)[0]
    some = np.concatenate([[single], np.flatnonzero(y != 0)])
    weights = np.where(y[some] == 0, 0.01, 1.0)
    history = LPPlusPlus().fit(F[some], y[some], text=T, sample_weight=weights).history_
    assert 0 <= min(history.held_out_accuracy) <= max(history.held_out_accuracy) <= 1
    plain = LPPlusPlus().fit(F[some], y[some], text=T, sample_weight=np.ones(len(some))).history_
    assert np.allclose(history.held_out_loss[0], plain.held_out_loss[0], rtol=0.05)


def test_none_of_these_counts_copies_and_weights_alike():
    F, y, _ = small_task(4, 6, 12, seed=2)
    times = np.arange(1, 1 + len(y)) % 3 + 1
    X_val, y_val = F[::2], y[::2]
    weighted = LPPlusPlus().fit(F, y, X_val=X_val, y_val=y_val, sample_weight=times)
    copied = LPPlusPlus().fit(np.repeat(F, times, 0), np.repeat(y, times), X_val=X_val, y_val=y_val)
    assert np.allclose(weighted.class_counts_, np.bincount(y, times))
    assert np.allclose(weighted.class_means_, copied.class_means_)
    assert np.allclose(weighted.scatter_.T @ weighted.scatter_, copied.scatter_.T @ copied.scatter_)
    assert np.allclose(weighted.familiarity(F), copied.familiarity(F), atol=1e-3)
