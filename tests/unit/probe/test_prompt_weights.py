"""Several prompts per class in LP++: the support decides what each is worth."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

import whurs19
from helpers import shared_data
from lpplusplus import LPPlusPlus, ZeroShot, fit_many
from lpplusplus._core.class_prompts import check_text
from lpplusplus.probe.initialization import STEEPEST, likeliest_alpha
from tasks import small_task

F, Y, T = small_task(5, 4, 16, seed=3)
RNG = np.random.default_rng(4)
STACK = T + 0.05 * RNG.normal(size=(6, *T.shape))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def by_hand(prompts, F, y):
    """Names weighted by what CLIP's model says of each class's mean image."""
    prompts = unit(prompts)
    plain = unit(prompts.mean(axis=0))

    def loss(s):
        return -log_softmax(s * F @ plain.T, axis=1)[np.arange(len(y)), y].sum()

    s = minimize_scalar(loss, bounds=(0, STEEPEST), method="bounded", options={"xatol": 1e-6}).x
    names = []
    for k in range(prompts.shape[1]):
        weights = softmax(s * prompts[:, k] @ unit(F[y == k].mean(axis=0)))
        names.append(unit(weights @ prompts[:, k]))
    return np.array(names), s


def test_names_are_those_of_the_formula():
    expected, s = by_hand(STACK, F, Y)
    assert 1 < s < STEEPEST - 1
    assert likeliest_alpha(F, Y, check_text(STACK)[0], STEEPEST) == pytest.approx(s, abs=2e-3)
    model = LPPlusPlus().fit(F, Y, text=STACK)
    np.testing.assert_allclose(model.text_, expected, atol=1e-6)
    np.testing.assert_allclose(model.coef_, LPPlusPlus().fit(F, Y, text=expected).coef_, atol=1e-4)
    assert np.abs(model.text_ - check_text(STACK)[0]).max() > 1e-3


def test_neither_order_nor_copies_nor_form_matter():
    expected = LPPlusPlus().fit(F, Y, text=STACK).text_
    for same in (STACK[::-1], np.concatenate([STACK, STACK]), [STACK[:, k] for k in range(5)]):
        np.testing.assert_allclose(LPPlusPlus().fit(F, Y, text=same).text_, expected, atol=1e-6)


def test_names_that_mean_nothing_stay_averages():
    """Where the names fit other classes better than their own, the images cannot tell good prompts from bad."""
    wrong = STACK[:, [1, 2, 3, 4, 0]]
    plain = check_text(wrong)[0]
    assert likeliest_alpha(F, Y, plain, STEEPEST) == 0
    np.testing.assert_allclose(LPPlusPlus().fit(F, Y, text=wrong).text_, plain, atol=1e-12)


def test_prompts_that_mislead_count_less():
    right = T + 0.005 * RNG.normal(size=(4, *T.shape))
    mixed = np.concatenate([right, right[:, [2, 3, 4, 0, 1]]])  # Half of the prompts speak of another class.
    good, plain = check_text(right)[0], check_text(mixed)[0]
    found = LPPlusPlus().fit(F, Y, text=mixed).text_
    assert ((found * good).sum(axis=1) > (plain * good).sum(axis=1)).all()


def test_recipes_of_the_paper_take_the_mean():
    plain = check_text(STACK)[0]
    for recipe in ("paper", "released"):
        ours, theirs = (LPPlusPlus(recipe=recipe).fit(F, Y, text=text) for text in (STACK, plain))
        np.testing.assert_array_equal(ours.coef_, theirs.coef_)


def test_a_class_without_images_keeps_its_average():
    rows = Y != 2
    model = LPPlusPlus().fit(F[rows], Y[rows], text=STACK, classes=range(5))
    np.testing.assert_allclose(model.text_[2], check_text(STACK)[0][2], atol=1e-12)
    assert np.abs(model.text_[3] - check_text(STACK)[0][3]).max() > 1e-3


def test_a_class_with_fewer_prompts():
    ragged = [STACK[: k + 1, k] for k in range(5)]
    text = LPPlusPlus().fit(F, Y, text=ragged).text_
    np.testing.assert_allclose(text[0], unit(STACK[0, 0]), atol=1e-12)
    s = likeliest_alpha(F, Y, check_text(ragged)[0], STEEPEST)
    prompts = unit(STACK[:4, 3])
    weights = softmax(s * prompts @ unit(F[Y == 3].mean(axis=0)))
    np.testing.assert_allclose(text[3], unit(weights @ prompts), atol=1e-9)


def test_many_supports_and_tensors(torch):
    halves = [np.arange(0, 20, 2), np.arange(20)]
    probes = fit_many(F, Y, halves, text=STACK, classes=range(5))
    for probe, rows in zip(probes, halves, strict=True):
        expected = LPPlusPlus().fit(F[rows], Y[rows], text=STACK, classes=range(5))
        np.testing.assert_allclose(probe.text_, expected.text_, atol=1e-9)
    tensors = LPPlusPlus().fit(torch.tensor(F), torch.tensor(Y), text=torch.tensor(STACK))
    np.testing.assert_allclose(tensors.text_.numpy(), probes[1].text_, atol=1e-9)


@pytest.mark.parametrize("shots", [1, 4])
def test_real_prompts_cost_nothing(shots):
    """106 prompts of WHU-RS19: names gain two points or more, and LP++ loses nothing beyond noise."""
    data = whurs19.load("RN50")
    with np.load(shared_data("whurs19/clip_rn50.npz")) as file:
        real = ["average" not in str(prompt) for prompt in file["prompts"]]
        prompts = file["text"][real].astype(np.float32)
    assert len(prompts) == 106
    plain = check_text(prompts)[0]
    names, whole = [], []
    for seed in range(6):
        (X, y), _, (held, truth) = whurs19.task(data, shots, seed)
        weighed = LPPlusPlus().fit(X, y, text=prompts)
        average = LPPlusPlus().fit(X, y, text=plain)
        whole.append(weighed.score(held, truth) - average.score(held, truth))
        classes = weighed.classes_
        one, other = (ZeroShot().fit(text=t, classes=classes).score(held, truth) for t in (weighed.text_, plain))
        names.append(one - other)
    assert np.mean(names) > 0.02
    assert np.mean(whole) > -2 * np.std(whole, ddof=1) / np.sqrt(len(whole)) - 0.001
