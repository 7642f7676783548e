"""Real CLIP features: the accuracies expected of WHU-RS19, mean of seeds 1 … 10."""

import numpy as np
import pytest

import whurs19
from lpplusplus import LinearProbe, LPPlusPlus, TipAdapter, TipAdapterF, ZeroShot

SEEDS, HUNDRED = range(1, 11), range(1, 101)
EXPECTED = {
    "zero-shot": (ZeroShot(), False, [69.1, 69.0, 68.9, 68.5, 66.8]),
    "start, one α for all classes": (LPPlusPlus(metric="none", updates=0), False, [71.9, 74.6, 78.7, 83.5, 87.0]),
    "start, one α per class": (
        LPPlusPlus(metric="none", updates=0, alpha_init="per-class"),
        False,
        [42.6, 47.9, 54.6, 62.8, 73.5],
    ),
    'recipe="paper"': (LPPlusPlus(recipe="paper"), True, [84.5, 87.5, 90.9, 93.2, 94.9]),
    'recipe="released"': (LPPlusPlus(recipe="released"), True, [81.8, 86.6, 90.3, 94.1, 95.9]),
}
"""Estimator, whether it gets validation images, and accuracy by shots."""


@pytest.fixture(scope="module")
def rn50():
    return whurs19.load("RN50")


def mean(data, shots, estimator, *, validation=False, seeds=SEEDS):
    return whurs19.accuracies(data, estimator, shots, seeds, validation=validation).mean()


@pytest.mark.parametrize("column", range(5), ids=lambda j: f"{whurs19.SHOTS[j]}-shot")
def test_the_published_table(rn50, column):
    for name, (estimator, validation, row) in EXPECTED.items():
        found = mean(rn50, whurs19.SHOTS[column], estimator, validation=validation)
        assert abs(found - row[column]) <= 1.0, name


@pytest.mark.parametrize("shots", whurs19.SHOTS)
def test_flow_at_the_same_time_is_as_accurate_as_300_updates(rn50, shots):
    flow = mean(rn50, shots, LPPlusPlus(metric="none", selection="last", updates=300))
    assert abs(flow - mean(rn50, shots, LPPlusPlus(recipe="paper"))) <= 0.5


@pytest.mark.parametrize("encoder", whurs19.ENCODERS)
@pytest.mark.parametrize("tasks", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_the_default_without_validation_beats_the_released_recipe_with_it(encoder, tasks):
    """At 2, 4, 8 and 16 shots, by more than chance (two standard errors) over a hundred tasks; on the mean over twenty.

    Over ten, L/14's gains of 0.2 points are within one image a task.
    """
    data = whurs19.load(encoder)
    for shots in (2, 4, 8, 16):
        ours = whurs19.accuracies(data, LPPlusPlus(), shots, HUNDRED[:tasks])
        theirs = whurs19.accuracies(data, LPPlusPlus(recipe="released"), shots, HUNDRED[:tasks], validation=True)
        gain = ours - theirs
        assert gain.mean() > (2 * gain.std(ddof=1) / np.sqrt(tasks) if tasks == 100 else 0), shots
        assert gain[:10].mean() >= -100 / len(data.train), shots


def test_text_helps_most_where_examples_are_fewest(rn50):
    gains = [mean(rn50, s, LPPlusPlus()) - mean(rn50, s, LPPlusPlus(alpha="none")) for s in (1, 4)]
    assert gains[0] > 8
    assert gains[0] > gains[1] > 0


def test_predictions_agree_with_block_mm(rn50):
    """98 % or more of the test images get the same class from six flow steps as from 300 updates."""
    for shots in (2, 8):
        support, _, (X_test, _) = whurs19.task(rn50, shots, 1)
        fast, slow = (
            LPPlusPlus(**p).fit(*support, text=rn50.text).predict(X_test)
            for p in ({"metric": "none", "selection": "last", "updates": 300}, {"recipe": "paper"})
        )
        assert np.mean(fast == slow) >= 0.98


@pytest.mark.parametrize("shots", [8, 16])
def test_the_shortest_steps_of_a_long_walk_are_not_needed(rn50, shots, monkeypatch):
    """`selection="last"` leaves them out: 99 % or more of the test images get the same class."""
    from lpplusplus.probe.solvers import flow

    support, _, (X_test, _) = whurs19.task(rn50, shots, 1)

    def fit():
        return LPPlusPlus(metric="none", selection="last").fit(*support, text=rn50.text)

    direct = fit()
    monkeypatch.setattr(flow, "LATE_STEPS", 99)
    whole = fit()
    assert (direct.n_updates_, whole.n_updates_) == (8, 9 if shots == 8 else 10)
    assert np.mean(direct.predict(X_test) == whole.predict(X_test)) >= 0.99


@pytest.mark.parametrize("encoder", ["RN50", "ViT-B/32"])
def test_methods_that_know_the_names_lead_at_one_shot(encoder):
    """As the page of methods says: LP++ leads, the searched caches are near it, the probe is far below."""
    data = whurs19.load(encoder)
    models = (ZeroShot(), LinearProbe(), TipAdapter(cache_weight="auto", beta="auto"), LPPlusPlus(recipe="paper"))
    zero_shot, probe, tip, paper = (mean(data, 1, model, validation=True) for model in models)
    default = mean(data, 1, LPPlusPlus())
    assert min(paper, default) > tip > probe + 5
    assert probe > zero_shot  # Unlike in the paper's averages, as on its EuroSAT; the page of methods says why.
    assert min(paper, default) > zero_shot + 12


def test_tip_adapter_f_gains_by_many_more_epochs_or_a_larger_alpha(rn50, torch):
    """At one shot, where 20 epochs are 20 steps, and where 100 are still too few in most tasks."""
    published, hundred, four_hundred, large = (
        mean(rn50, 1, TipAdapterF(**parameters), validation=True, seeds=(1, 2, 3))
        for parameters in ({"epochs": 20}, {"epochs": 100}, {"epochs": 400}, {"cache_weight": 5.0})
    )
    assert min(four_hundred, large) > max(published, hundred) + 5
